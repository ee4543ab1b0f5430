package preload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"garboard.local/builder/source/oci"
)

// compose makes an image of trees, bottom first. Of cfg it takes everything
// that does not describe the layers.
func (m *maker) compose(trees []tree, cfg v1.ConfigFile) (*picture, error) {
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	pic := &picture{created: m.epoch}
	for i, t := range trees {
		tl, err := newTreeLayer(t, m.epoch)
		if err != nil {
			return nil, fmt.Errorf("layer %d: %w", i, err)
		}
		l := &layer{diffID: tl.diff, diffSize: tl.size, blob: tl.diff, blobSize: tl.size, tree: t}
		l.uids, l.gids = t.owners()
		if err := l.split(tl.Uncompressed); err != nil {
			return nil, fmt.Errorf("layer %d: %w", i, err)
		}
		pic.layers = append(pic.layers, l)
		add := mutate.Addendum{Layer: tl, MediaType: types.OCIUncompressedLayer,
			History: v1.History{Created: v1.Time{Time: m.epoch}, CreatedBy: "garboard"}}
		if img, err = mutate.Append(img, add); err != nil {
			return nil, fmt.Errorf("layer %d: %w", i, err)
		}
	}
	made, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	cfg.RootFS, cfg.History = made.RootFS, made.History
	cfg.OS, cfg.Architecture, cfg.Created = "linux", m.arch, v1.Time{Time: m.epoch}
	if img, err = mutate.ConfigFile(img, &cfg); err != nil {
		return nil, err
	}
	if pic.config, err = img.RawConfigFile(); err != nil {
		return nil, err
	}
	if pic.manifest, err = img.RawManifest(); err != nil {
		return nil, err
	}
	pic.finish()
	return pic, nil
}

// develop makes a picture of an image that arrived from elsewhere: as it is
// where the store can express it, flattened where not.
func (m *maker) develop(src *oci.Image) (*picture, error) {
	cfg, err := v1.ParseConfigFile(bytes.NewReader(src.ConfigBytes))
	if err != nil {
		return nil, fmt.Errorf("its configuration: %w", err)
	}
	if cfg.OS != "linux" || cfg.Architecture != m.arch {
		return nil, fmt.Errorf("it is for %s/%s, and the store for linux/%s", cfg.OS, cfg.Architecture, m.arch)
	}
	layers, diffIDs, err := oci.Layers(src)
	if err != nil {
		return nil, err
	}
	if len(layers) == 0 {
		return nil, errors.New("it has 0 layers; a container image has at least one")
	}
	pic := &picture{config: src.ConfigBytes, manifest: src.ManifestBytes, created: cfg.Created.UTC()}
	if pic.created.IsZero() {
		pic.created = m.epoch
	}
	var raws []*raw
	odd := false
	for i, vl := range layers {
		l, r, err := m.developLayer(vl, src.ManifestBytes != nil)
		if err == nil {
			err = oci.Same("unpacked it", l.diffID, diffIDs[i])
		}
		if err != nil {
			return nil, fmt.Errorf("layer %d: %w", i, err)
		}
		odd = odd || r.odd()
		raws, pic.layers = append(raws, r), append(pic.layers, l)
	}
	if odd {
		t, err := flatten(raws)
		if err != nil {
			return nil, err
		}
		return m.compose([]tree{t}, *cfg)
	}
	var lower []tree
	for i, l := range pic.layers {
		if err := l.tree.complete(lower...); err != nil {
			return nil, fmt.Errorf("layer %d: %w", i, err)
		}
		lower = append(lower, l.tree)
		if err := l.split(layers[i].Uncompressed); err != nil {
			return nil, fmt.Errorf("layer %d: %w", i, err)
		}
	}
	if pic.manifest == nil {
		if pic.manifest, err = plainManifest(pic); err != nil {
			return nil, err
		}
	}
	pic.finish()
	return pic, nil
}

func (m *maker) developLayer(vl v1.Layer, compressed bool) (*layer, *raw, error) {
	r, err := vl.Uncompressed()
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	l, files, err := analyse(r, m.blobs, want{})
	if err != nil || !compressed {
		return l, files, err
	}
	want, err := vl.Digest()
	if err != nil {
		return nil, nil, err
	}
	c, err := vl.Compressed()
	if err != nil {
		return nil, nil, err
	}
	defer c.Close()
	var magic bytes.Buffer
	if _, err := io.CopyN(&magic, c, 4); err != nil {
		return nil, nil, err
	}
	got, size, err := v1.SHA256(io.MultiReader(bytes.NewReader(magic.Bytes()), c))
	if err != nil {
		return nil, nil, err
	}
	if err := oci.Same("its blob", got, want); err != nil {
		return nil, nil, err
	}
	l.blob, l.blobSize, l.compression = got, size, compression(magic.Bytes())
	return l, files, nil
}

// compression is the number that go.podman.io/storage/pkg/archive has for the
// format that begins with these bytes.
func compression(magic []byte) int {
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		return 2 // gzip
	case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return 4 // zstd
	}
	return 0
}

// plainManifest is a manifest over a picture's configuration and uncompressed layers.
func plainManifest(p *picture) ([]byte, error) {
	man := v1.Manifest{
		SchemaVersion: 2,
		MediaType:     types.OCIManifestSchema1,
		Config:        v1.Descriptor{MediaType: types.OCIConfigJSON, Size: int64(len(p.config)), Digest: sum(p.config)},
	}
	for _, l := range p.layers {
		man.Layers = append(man.Layers, v1.Descriptor{MediaType: types.OCIUncompressedLayer, Size: l.diffSize, Digest: l.diffID})
	}
	return json.Marshal(man)
}

// finish names the layers.
func (p *picture) finish() {
	below := ""
	for _, l := range p.layers {
		l.identify(below)
		below = l.id
	}
}
