// Package preloaded makes the container images that lie in a node's root image
// known to containerd, in place: nothing is unpacked or copied but manifests
// and configurations.
package preloaded

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Image is an image of the store.
type Image struct {
	Names    []string
	Target   ocispec.Descriptor // the manifest
	Manifest []byte
	Config   []byte
	Layers   []Layer // bottom first
}

// Layer is an unpacked layer.
type Layer struct {
	ChainID digest.Digest
	Dir     string // its files
}

// Read reads a store of containers/storage (overlay driver), as
// builder/preload lays it into the root image. A missing store holds no images.
func Read(root string) ([]Image, error) {
	var images []struct {
		ID    string   `json:"id"`
		Names []string `json:"names"`
		Layer string   `json:"layer"`
	}
	var layers []struct {
		ID     string        `json:"id"`
		Parent string        `json:"parent"`
		Diff   digest.Digest `json:"diff-digest"`
	}
	if _, err := os.Stat(root); os.IsNotExist(err) {
		return nil, nil
	}
	if err := readJSON(filepath.Join(root, "overlay-images/images.json"), &images); err != nil {
		return nil, err
	}
	if err := readJSON(filepath.Join(root, "overlay-layers/layers.json"), &layers); err != nil {
		return nil, err
	}
	byID := map[string]int{}
	for i, l := range layers {
		byID[l.ID] = i
	}
	var out []Image
	for _, rec := range images {
		dir := filepath.Join(root, "overlay-images", filepath.Base(rec.ID))
		img := Image{Names: rec.Names}
		bad := func(format string, args ...any) error {
			return fmt.Errorf("image %v in %s: "+format, append([]any{rec.Names, root}, args...)...)
		}
		var err error
		if img.Manifest, err = os.ReadFile(filepath.Join(dir, "manifest")); err != nil {
			return nil, bad("%w", err)
		}
		var manifest ocispec.Manifest
		if err := json.Unmarshal(img.Manifest, &manifest); err != nil {
			return nil, bad("manifest: %w", err)
		}
		// The name of a big-data item, see makeBigDataBaseName of containers/storage.
		config := "=" + base64.StdEncoding.EncodeToString([]byte(manifest.Config.Digest))
		if img.Config, err = os.ReadFile(filepath.Join(dir, config)); err != nil {
			return nil, bad("configuration: %w", err)
		}
		if got := digest.FromBytes(img.Config); got != manifest.Config.Digest {
			return nil, bad("the configuration has digest %s, the manifest says %s", got, manifest.Config.Digest)
		}
		var parsed ocispec.Image
		if err := json.Unmarshal(img.Config, &parsed); err != nil {
			return nil, bad("configuration: %w", err)
		}
		diffs := parsed.RootFS.DiffIDs
		img.Target = ocispec.Descriptor{MediaType: manifest.MediaType, Digest: digest.FromBytes(img.Manifest), Size: int64(len(img.Manifest))}
		if img.Target.MediaType == "" {
			img.Target.MediaType = ocispec.MediaTypeImageManifest
		}
		img.Layers = make([]Layer, len(diffs))
		id := rec.Layer
		for i := len(diffs) - 1; i >= 0; i-- {
			n, ok := byID[id]
			if !ok || layers[n].Diff != diffs[i] {
				return nil, bad("layer %d is not %s in the store", i, diffs[i])
			}
			img.Layers[i] = Layer{ChainID: identity.ChainID(diffs[:i+1]), Dir: filepath.Join(root, "overlay", id, "diff")}
			id = layers[n].Parent
		}
		if id != "" || len(diffs) == 0 {
			return nil, bad("it has another number of layers than the configuration's %d", len(diffs))
		}
		out = append(out, img)
	}
	return out, nil
}

func readJSON(file string, v any) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}
