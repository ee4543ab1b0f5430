package builder

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"garboard.local/builder/preload"
	"garboard.local/builder/recipe"
	"garboard.local/builder/report"
	"garboard.local/builder/rootfs"
	"garboard.local/builder/source/oci"
)

// Where the read-only image stores are that the runtime uses in place. The
// runtimes' configuration (overlays/rootfs) names both.
const (
	rootStore = "/usr/lib/garboard/images" // in the root image
	dataStore = "/var/lib/garboard/images" // on the data partition of disk images
)

// images are the container images of a node.
type images struct {
	from       map[string]*oci.Image // images of others, by their names
	root, data []rootfs.Entry        // the two stores
	listed     []report.ContainerImage
	views      map[string]preload.View // of the root store, by name
	opened     map[string]*imageView   // those of services
}

// fetchImages brings what recipes name in registries into the cache, and opens the
// images of others. What is wrong with one ends the build while others still compile.
func (b *build) fetchImages(ctx context.Context) error {
	b.images.from = map[string]*oci.Image{}
	for _, m := range slices.Concat(b.recipe.Images, b.recipe.Disk.Images) {
		if err := preload.CheckName(m.Name); err != nil {
			return fmt.Errorf("container image: %w", err)
		}
		if m.OCI == "" {
			continue
		}
		img, err := b.openImage(ctx, m)
		if err != nil {
			return fmt.Errorf("container image %s: %w", m.Name, err)
		}
		b.images.from[m.Name] = img
	}
	return nil
}

func (b *build) openImage(ctx context.Context, m recipe.Image) (*oci.Image, error) {
	if recipe.LocalOCI(m.OCI) {
		return oci.OpenCached(ctx, b.Store, m.OCI, oci.Choice{Arch: b.arch, Name: m.Name})
	}
	digest, err := b.Lock.Digest(m.OCI, b.arch)
	if err != nil {
		return nil, err
	}
	t := b.Progress.Start("fetch", "image "+m.OCI, 0)
	img, cached, err := oci.Fetch(ctx, b.Store, m.OCI, digest, b.arch)
	finish(t, cached, err, "")
	return img, err
}

// layImages makes the read-only image stores.
func (b *build) layImages(context.Context) (err error) {
	b.images.views = map[string]preload.View{}
	if b.images.root, err = b.layStore("images", rootStore, b.recipe.Images); err != nil {
		return err
	}
	b.images.data, err = b.layStore("disk.images", dataStore, b.recipe.Disk.Images)
	for i, e := range b.images.data { // the data partition is the node's /var
		b.images.data[i].Path = strings.TrimPrefix(path.Clean("/"+e.Path), "/var/")
	}
	return err
}

// layStore makes the entries of a store of the images that a field of the recipe lists.
func (b *build) layStore(field, at string, list []recipe.Image) ([]rootfs.Entry, error) {
	if len(list) == 0 {
		return nil, nil
	}
	var wanted []preload.Image
	for _, m := range list {
		wanted = append(wanted, b.wanted(m))
	}
	entries, infos, err := preload.Build(wanted, b.epoch, b.arch, b.Store)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	for i, m := range list {
		if m.OCI != "" {
			b.images.listed = append(b.images.listed, b.listed(m, infos[i], at))
		}
		if at == rootStore {
			b.images.views[m.Name] = infos[i].View
		}
	}
	var out []rootfs.Entry
	for _, e := range preload.Under(at, entries) {
		x, err := storeEntry(e)
		if err != nil {
			return nil, err
		}
		x.Origin, x.Reason, x.Inner = "preloaded images", "image store: "+imageNames(list), true
		out = append(out, x)
	}
	return out, nil
}

// storeEntry is an entry of an image store as one of a root image.
func storeEntry(e preload.Entry) (x rootfs.Entry, err error) {
	x = rootfs.Entry{Path: e.Path, Kind: rootfs.Kind(e.Type), Mode: e.UnixMode(), Link: e.Link}
	switch {
	case e.Type == preload.TypeSymlink:
		x.Mode = 0o777
	case e.Type == preload.TypeFile && e.ContentPath != "":
		x, err = rootfs.FromFile(e.Path, e.UnixMode(), e.ContentPath, "", "", "")
	case e.Type == preload.TypeFile:
		x = rootfs.FromBytes(e.Path, e.UnixMode(), e.Content, "", "")
	}
	x.UID, x.GID, x.Capabilities = e.UID, e.GID, e.Capabilities
	return x, err
}

// wanted is an image as preload wants it.
func (b *build) wanted(m recipe.Image) preload.Image {
	if m.OCI != "" {
		return preload.Image{Name: m.Name, From: b.images.from[m.Name]}
	}
	o := b.own[programName(m.Program)]
	program := "/" + path.Base(m.Program)
	entrypoint := m.Entrypoint
	if len(entrypoint) == 0 {
		entrypoint = []string{program}
	}
	return preload.Image{
		Name:   m.Name,
		Config: preload.Config{Entrypoint: entrypoint, User: m.User, WorkingDir: "/"},
		Layers: []preload.Layer{{Files: []preload.LayerFile{{Path: program, Mode: 0o755, Source: o.Path, SHA256: o.SHA256}}}},
	}
}

// listed is what the manifest says of an image of others.
func (b *build) listed(m recipe.Image, info preload.Info, at string) report.ContainerImage {
	l := report.ContainerImage{Name: m.Name, Source: m.OCI, ID: info.ID, Digest: info.Digest, Store: at, Bytes: info.Size}
	if recipe.LocalOCI(m.OCI) {
		l.Source = filepath.Base(m.OCI) // where on the build host it lay is nobody's matter
	} else {
		l.SourceDigest, _ = b.Lock.Digest(m.OCI, b.arch) // fetchImages has asked for it
	}
	return l
}

// listedImages are the images of others, by name.
func (b *build) listedImages() []report.ContainerImage {
	return slices.SortedFunc(slices.Values(b.images.listed), func(x, y report.ContainerImage) int { return strings.Compare(x.Name, y.Name) })
}

// pinsFile tells cri-o which images the kubelet's garbage collection is to pass
// over. Of containerd's the plugin says so itself.
const (
	crioDrops = "/etc/crio/crio.conf.d"
	pinsFile  = crioDrops + "/20-preloaded.conf"
)

// ownImages are those that cri-o's configuration pins already.
const ownImages = "localhost/garboard/"

// addPins pins the images of the read-only stores, which nothing could remove: the
// kubelet would try, and log it, for as long as the disk is full.
func (b *build) addPins(*library) error {
	pins := []string{strconv.Quote(ownImages + "*")}
	for _, m := range slices.Concat(b.recipe.Images, b.recipe.Disk.Images) {
		if !strings.HasPrefix(m.Name, ownImages) {
			pins = append(pins, strconv.Quote(m.Name))
		}
	}
	if len(pins) == 1 || b.tree.Get(crioDrops) == nil || b.tree.Get(pinsFile) != nil {
		return nil
	}
	text := "# What lies in the read-only image stores; the list takes the place of an earlier one.\n[crio.image]\npinned_images = [" + strings.Join(pins, ", ") + "]\n"
	return b.tree.Add(rootfs.FromBytes(pinsFile, 0o644, []byte(text), "recipe "+b.recipe.Name, "the kubelet's garbage collection passes over preloaded images"))
}

func imageNames(list []recipe.Image) string {
	var out []string
	for _, m := range list {
		out = append(out, m.Name)
	}
	return strings.Join(out, ", ")
}
