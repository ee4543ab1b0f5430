package preload

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Build makes the store of the given images for nodes of an architecture
// (GOARCH). The entries are sorted, directories before what they hold, and
// depend on nothing but the arguments and the bytes that they name; epoch is
// the time of everything that has one. infos are in the order of images.
func Build(images []Image, epoch time.Time, arch string, blobs Blobs) (entries []Entry, infos []Info, err error) {
	if arch != "amd64" && arch != "arm64" {
		return nil, nil, fmt.Errorf("preloaded images: no nodes of architecture %q; there are amd64 and arm64", arch)
	}
	m := &maker{epoch: epoch.UTC().Truncate(time.Second), arch: arch, blobs: blobs}
	s := &imageStore{layers: map[string]*layer{}, epoch: m.epoch}
	names := map[string]bool{}
	for _, img := range images {
		if err := CheckName(img.Name); err != nil {
			return nil, nil, fmt.Errorf("preloaded images: %w", err)
		}
		if names[img.Name] {
			return nil, nil, fmt.Errorf("preloaded images: two images are named %s; give one of them another tag", img.Name)
		}
		names[img.Name] = true
		pic, err := m.load(img)
		if err != nil {
			return nil, nil, fmt.Errorf("preloaded image %s: %w", img.Name, err)
		}
		info, err := s.add(img.Name, pic)
		if err != nil {
			return nil, nil, fmt.Errorf("preloaded image %s: %w", img.Name, err)
		}
		infos = append(infos, info)
	}
	entries, err = s.entries()
	return entries, infos, err
}

// imageStore gathers what a store holds: each image and each layer once.
type imageStore struct {
	epoch  time.Time
	images []*imageRecord
	layers map[string]*layer
}

func (s *imageStore) add(name string, p *picture) (Info, error) {
	info := Info{Name: name, ID: p.id(), Digest: sum(p.manifest).String(), View: p.view()}
	for _, l := range p.layers {
		info.Size += l.diffSize
		s.layers[l.id] = l
	}
	for _, r := range s.images {
		if r.ID != info.ID {
			continue
		}
		if r.Digest != info.Digest {
			return Info{}, fmt.Errorf("it has the configuration of %s and another manifest, and a store holds a configuration once; take both from one source", r.Names[0])
		}
		r.Names = append(r.Names, name)
		return info, nil
	}
	s.images = append(s.images, newImageRecord(name, p, info))
	return info, nil
}

// imageRecord is storage.Image (go.podman.io/storage, images.go).
type imageRecord struct {
	ID             string            `json:"id"`
	Digest         string            `json:"digest"`
	Names          []string          `json:"names"`
	TopLayer       string            `json:"layer"`
	Metadata       string            `json:"metadata"`
	BigDataNames   []string          `json:"big-data-names"`
	BigDataSizes   map[string]int64  `json:"big-data-sizes"`
	BigDataDigests map[string]string `json:"big-data-digests"`
	Created        time.Time         `json:"created"`

	data map[string][]byte
}

// newImageRecord records an image as storageImageDestination.CommitWithOptions
// of go.podman.io/image does after a pull.
func newImageRecord(name string, p *picture, info Info) *imageRecord {
	r := &imageRecord{
		ID: info.ID, Digest: info.Digest, Names: []string{name}, TopLayer: p.layers[len(p.layers)-1].id,
		Metadata: "{}", Created: p.created,
		BigDataSizes: map[string]int64{}, BigDataDigests: map[string]string{}, data: map[string][]byte{},
	}
	put := func(key string, b []byte) {
		r.BigDataNames = append(r.BigDataNames, key)
		r.BigDataSizes[key], r.BigDataDigests[key], r.data[key] = int64(len(b)), sum(b).String(), b
	}
	put("sha256:"+info.ID, p.config)
	put("manifest-"+info.Digest, p.manifest)
	put("manifest", p.manifest)
	return r
}

// layerRecord is storage.Layer (go.podman.io/storage, layers.go).
type layerRecord struct {
	ID          string    `json:"id"`
	Parent      string    `json:"parent,omitempty"`
	Created     time.Time `json:"created"`
	Blob        string    `json:"compressed-diff-digest"`
	BlobSize    int64     `json:"compressed-size"`
	DiffID      string    `json:"diff-digest"`
	DiffSize    int64     `json:"diff-size"`
	Compression int       `json:"compression,omitempty"`
	UIDs        []uint32  `json:"uidset,omitempty"`
	GIDs        []uint32  `json:"gidset,omitempty"`
}

// entries lays the store out.
func (s *imageStore) entries() ([]Entry, error) {
	var out []Entry
	dir := func(p string, e Entry) { e.Path, e.Type = p, TypeDir; out = append(out, e) }
	file := func(p string, b []byte) {
		out = append(out, Entry{Path: p, Type: TypeFile, Mode: 0o644, Content: b})
	}
	open, private := Entry{Mode: 0o755}, Entry{Mode: 0o700}
	for _, d := range []string{"overlay", "overlay/l", "overlay-images", "overlay-layers"} {
		dir(d, open)
	}
	// Without its lock file a store on a read-only file system is passed over
	// in silence (storage.store.load); an empty one says "never written to".
	file("overlay-images/images.lock", nil)
	file("overlay-layers/layers.lock", nil)

	layers := []layerRecord{}
	for _, id := range sortedKeys(s.layers) {
		l := s.layers[id]
		layers = append(layers, layerRecord{
			ID: id, Parent: l.parent, Created: s.epoch, Blob: l.blob.String(), BlobSize: l.blobSize,
			DiffID: l.diffID.String(), DiffSize: l.diffSize, Compression: l.compression, UIDs: l.uids, GIDs: l.gids,
		})
		file("overlay-layers/"+id+".tar-split.gz", l.tarSplit)
		home := "overlay/" + id
		dir(home, private) // nobody but root reaches a setuid file in there
		file(home+"/link", []byte(shortName(id)))
		out = append(out, Entry{Path: "overlay/l/" + shortName(id), Type: TypeSymlink, Mode: 0o777, Link: "../" + id + "/diff"})
		if l.parent == "" {
			dir(home+"/empty", private) // the lower directory when this layer alone is mounted
		} else {
			var lower []string
			for p := l.parent; p != ""; p = s.layers[p].parent {
				lower = append(lower, "l/"+shortName(p))
			}
			file(home+"/lower", []byte(strings.Join(lower, ":")))
		}
		for _, p := range l.tree.paths() {
			e := l.tree[p]
			e.Path = strings.TrimSuffix(home+"/diff/"+p, "/")
			out = append(out, e)
		}
	}
	images := slices.Clone(s.images)
	slices.SortFunc(images, func(a, b *imageRecord) int { return strings.Compare(a.ID, b.ID) })
	for _, r := range images {
		dir("overlay-images/"+r.ID, private)
		for key, b := range r.data {
			file("overlay-images/"+r.ID+"/"+dataFile(key), b)
		}
	}
	if images == nil {
		images = []*imageRecord{}
	}
	for p, v := range map[string]any{"overlay-images/images.json": images, "overlay-layers/layers.json": layers} {
		b, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		file(p, b)
	}
	slices.SortFunc(out, func(a, b Entry) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}

// shortName is a layer's name below overlay/l: 26 characters of base32, as the
// driver draws them at random. Short, since a mount's options fit one page.
func shortName(id string) string {
	h := sha256.Sum256([]byte("garboard overlay link " + id))
	return base32.StdEncoding.EncodeToString(h[:])[:26]
}

// dataFile is the file name of a big-data item (storage.makeBigDataBaseName).
func dataFile(key string) string {
	for _, c := range key {
		if c != '.' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return "=" + base64.StdEncoding.EncodeToString([]byte(key))
		}
	}
	return key
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
