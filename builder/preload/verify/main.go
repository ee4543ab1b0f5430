// Command verify lets containers/storage and containers/image, in the versions
// that cri-o links, judge a store made by builder/preload. It is a module of
// its own so that neither library enters the builder's module graph.
//
//	verify STORE SCRATCH < EXPECTED
//
// STORE is the additional image store, SCRATCH an empty directory for the
// writable store above it. The program makes STORE read-only for itself by a
// bind mount, so it must be started in a mount namespace of its own. EXPECTED is a JSON list of what must be found:
// {"Name", "ID", "Digest", "Size", "Files": {"/path": "content"}}. It needs the
// right to mount, as root or in a user namespace. Exit status 0 and a last line
// "verify: N images, all good" say that everything held; status 3 says that the
// host did not let the program mount anything.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/opencontainers/go-digest"
	istorage "go.podman.io/image/v5/storage"
	itypes "go.podman.io/image/v5/types"
	"go.podman.io/storage"
	"go.podman.io/storage/pkg/archive"
	"go.podman.io/storage/pkg/reexec"
)

// expected is one image of the store, as the builder reported it.
type expected struct {
	Name, ID, Digest string
	Size             int64             // bytes of the layers' tar archives
	Entrypoint       []string          // of the configuration
	Files            map[string]string // a container's view: content by path; "" for a path that must not be there
}

var errRefused = errors.New("mounting is not permitted here")

func main() {
	if reexec.Init() {
		return
	}
	if err := run(os.Args[1:], os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "verify:", err)
		if errors.Is(err, errRefused) {
			os.Exit(3)
		}
		os.Exit(1)
	}
}

func run(args []string, in io.Reader) error {
	if len(args) != 2 {
		return errors.New("usage: verify STORE SCRATCH < EXPECTED")
	}
	var images []expected
	if err := json.NewDecoder(in).Decode(&images); err != nil {
		return fmt.Errorf("expected images on standard input: %w", err)
	}
	if err := readOnly(args[0]); err != nil {
		return err
	}
	store, err := storage.GetStore(storage.StoreOptions{
		RunRoot:            filepath.Join(args[1], "run"),
		GraphRoot:          filepath.Join(args[1], "root"),
		GraphDriverName:    "overlay",
		GraphDriverOptions: []string{"overlay.imagestore=" + args[0]},
	})
	if err != nil {
		return fmt.Errorf("open the store: %w", err)
	}
	defer store.Shutdown(true)
	found, err := store.Images()
	if err != nil {
		return err
	}
	ids := map[string]bool{}
	for _, e := range images {
		ids[e.ID] = true
	}
	if len(found) != len(ids) {
		return fmt.Errorf("containers/storage sees %d images, not %d: a store without lock files is passed over in silence", len(found), len(ids))
	}
	for _, e := range images {
		if err := check(store, e); err != nil {
			return fmt.Errorf("%s: %w", e.Name, err)
		}
	}
	if err := checkAll(store); err != nil {
		return err
	}
	fmt.Printf("verify: %d images, all good\n", len(images))
	return nil
}

// readOnly lays a read-only bind mount over dir. The kernel, not a file's mode,
// must refuse writes: root is not stopped by modes, and a node's root image is
// a read-only file system.
func readOnly(dir string) error {
	for _, m := range []struct {
		source, target string
		flags          uintptr
	}{
		{"", "/", syscall.MS_REC | syscall.MS_PRIVATE},
		{dir, dir, syscall.MS_BIND},
		{"", dir, syscall.MS_BIND | syscall.MS_REMOUNT | syscall.MS_RDONLY},
	} {
		err := syscall.Mount(m.source, m.target, "", m.flags, "")
		if errors.Is(err, os.ErrPermission) {
			return fmt.Errorf("%w: mount %s: %w", errRefused, m.target, err)
		}
		if err != nil {
			return fmt.Errorf("make %s read-only: mount %s with flags %#x: %w", dir, m.target, m.flags, err)
		}
	}
	probe := filepath.Join(dir, "probe")
	if err := os.WriteFile(probe, nil, 0o600); !errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("%s is not read-only: writing there gave %v", dir, err)
	}
	return nil
}

// check holds one image against what is expected of it.
func check(store storage.Store, e expected) error {
	for _, key := range []string{e.Name, e.ID, e.ID[:12]} {
		img, err := store.Image(key)
		if err != nil {
			return fmt.Errorf("look up %q: %w", key, err)
		}
		if img.ID != e.ID || !img.ReadOnly || !slices.Contains(img.Names, e.Name) {
			return fmt.Errorf("look up %q: got %s %q, read-only %t", key, img.ID, img.Names, img.ReadOnly)
		}
	}
	by, err := store.ImagesByDigest(digest.Digest(e.Digest))
	if err != nil || len(by) != 1 || by[0].ID != e.ID {
		return fmt.Errorf("look up by digest %s: %d images, %v", e.Digest, len(by), err)
	}
	if err := bigData(store, by[0]); err != nil {
		return err
	}
	if err := layers(store, by[0].TopLayer, e.Size); err != nil {
		return err
	}
	if err := reference(store, e); err != nil {
		return err
	}
	return container(store, e)
}

func bigData(store storage.Store, img *storage.Image) error {
	for _, want := range []string{"manifest", "manifest-" + img.Digest.String(), "sha256:" + img.ID} {
		if !slices.Contains(img.BigDataNames, want) {
			return fmt.Errorf("no data item %s", want)
		}
	}
	for _, name := range img.BigDataNames {
		b, err := store.ImageBigData(img.ID, name)
		if err != nil {
			return fmt.Errorf("data item %s: %w", name, err)
		}
		if n, err := store.ImageBigDataSize(img.ID, name); err != nil || n != int64(len(b)) {
			return fmt.Errorf("data item %s has %d bytes, recorded are %d, %v", name, len(b), n, err)
		}
		if d, err := store.ImageBigDataDigest(img.ID, name); err != nil || d != digest.FromBytes(b) {
			return fmt.Errorf("data item %s has digest %s, recorded is %s, %v", name, digest.FromBytes(b), d, err)
		}
	}
	return nil
}

// layers mounts every layer read-only and has its tar reproduced.
func layers(store storage.Store, top string, size int64) error {
	for id := top; id != ""; {
		l, err := store.Layer(id)
		if err != nil {
			return fmt.Errorf("layer %s: %w", id, err)
		}
		plain := archive.Uncompressed
		r, err := store.Diff("", id, &storage.DiffOptions{Compression: &plain})
		if err != nil {
			return fmt.Errorf("layer %s: diff: %w", id, err)
		}
		hash := digest.Canonical.Digester()
		n, err := io.Copy(hash.Hash(), r)
		if err := errors.Join(err, r.Close()); err != nil {
			return fmt.Errorf("layer %s: diff: %w", id, err)
		}
		if hash.Digest() != l.UncompressedDigest || n != l.UncompressedSize {
			return fmt.Errorf("layer %s: diff has digest %s and %d bytes, recorded are %s and %d", id, hash.Digest(), n, l.UncompressedDigest, l.UncompressedSize)
		}
		size -= n
		id = l.Parent
	}
	if size != 0 {
		return fmt.Errorf("the layers' sizes are %d bytes off what the builder said", size)
	}
	return nil
}

// reference resolves the image as cri-o does, through the storage transport.
func reference(store storage.Store, e expected) error {
	ctx := context.Background()
	ref, err := istorage.Transport.ParseStoreReference(store, e.Name)
	if err != nil {
		return err
	}
	_, img, err := istorage.ResolveReference(ref)
	if err != nil || img.ID != e.ID {
		return fmt.Errorf("resolve: %v, %v", img, err)
	}
	src, err := ref.NewImage(ctx, &itypes.SystemContext{})
	if err != nil {
		return fmt.Errorf("open through the transport: %w", err)
	}
	defer src.Close()
	man, _, err := src.Manifest(ctx)
	if err != nil || digest.FromBytes(man).String() != e.Digest {
		return fmt.Errorf("manifest through the transport: digest %s, %v", digest.FromBytes(man), err)
	}
	cfg, err := src.OCIConfig(ctx)
	if err != nil {
		return fmt.Errorf("configuration through the transport: %w", err)
	}
	if !slices.Equal(cfg.Config.Entrypoint, e.Entrypoint) {
		return fmt.Errorf("entrypoint %q, not %q", cfg.Config.Entrypoint, e.Entrypoint)
	}
	if _, err := src.Size(); err != nil {
		return fmt.Errorf("size: %w", err)
	}
	return nil
}

// container makes a container of the image, as cri-o does, and reads its files.
func container(store storage.Store, e expected) (err error) {
	c, err := store.CreateContainer("", nil, e.ID, "", "", &storage.ContainerOptions{})
	if err != nil {
		return fmt.Errorf("create a container: %w", err)
	}
	defer func() { err = errors.Join(err, store.DeleteContainer(c.ID)) }()
	root, err := store.Mount(c.ID, "")
	if err != nil {
		return fmt.Errorf("mount a container: %w", err)
	}
	defer func() {
		_, uerr := store.Unmount(c.ID, true)
		err = errors.Join(err, uerr)
	}()
	for p, want := range e.Files {
		b, err := os.ReadFile(filepath.Join(root, p))
		if want == "" && errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("in a container: %w", err)
		}
		if string(b) != want {
			return fmt.Errorf("in a container %s holds %.40q, not %.40q", p, b, want)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "scratch"), nil, 0o600); err != nil {
		return fmt.Errorf("the container's own layer: %w", err)
	}
	return knownFault(store, c.LayerID)
}

// knownFault pins down why cri-o's component patches the library: the check that
// cri-o runs after an unclean stop looks for a layer's parent before it has
// read the additional stores, calls the layer of every container of a
// preloaded image damaged, and the repair then unmounts it. Should a later
// version of the library lose the fault, this fails and the patch can go.
func knownFault(store storage.Store, layer string) error {
	report, err := store.Check(&storage.CheckOptions{LayerMountable: true, LayerData: true, ImageData: true, ContainerData: true})
	if err != nil {
		return fmt.Errorf("check with a container: %w", err)
	}
	if len(report.Layers) != 1 || len(report.Layers[layer]) != 1 || !errors.Is(report.Layers[layer][0], storage.ErrLayerMissing) ||
		len(report.ROLayers)+len(report.Images)+len(report.ROImages)+len(report.Containers) > 0 {
		return fmt.Errorf("check with a container: %+v; expected was the one false alarm of docs/decisions/0003-preloaded-images.md: if it is gone, drop cri-o's patch of the check", report)
	}
	return nil
}

// checkAll is storage's own fsck in its strictest form, and what cri-o does
// after an unclean stop: repair, then wipe. Neither may touch the images.
func checkAll(store storage.Store) error {
	report, err := store.Check(storage.CheckEverything())
	if err != nil {
		return fmt.Errorf("check: %w", err)
	}
	if n := len(report.Layers) + len(report.ROLayers) + len(report.Images) + len(report.ROImages) + len(report.Containers); n > 0 {
		return fmt.Errorf("check found damage: %+v", report)
	}
	if errs := store.Repair(report, storage.RepairEverything()); len(errs) > 0 {
		return fmt.Errorf("repair: %w", errors.Join(errs...))
	}
	before, err := store.Images()
	if err != nil {
		return err
	}
	for _, img := range before {
		if _, err := store.DeleteImage(img.ID, true); err == nil {
			return fmt.Errorf("image %s could be deleted from a read-only store", img.ID)
		}
	}
	if err := store.Wipe(); err != nil {
		return fmt.Errorf("wipe: %w", err)
	}
	after, err := store.Images()
	if err != nil || len(after) != len(before) {
		return fmt.Errorf("after a wipe %d of %d images are left: %v", len(after), len(before), err)
	}
	return nil
}
