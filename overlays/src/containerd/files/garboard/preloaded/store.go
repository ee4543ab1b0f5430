// Package preloaded makes the container images that lie in a node's root image, or
// that a disk image brought on its data partition, known to containerd, in place: nothing is unpacked or copied but manifests
// and configurations.
package preloaded

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

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

// ReadAll reads several stores. Of images with one name that of the first store is
// it, as with cri-o. A store that cannot be read is an error, and the images of
// the others are there all the same.
func ReadAll(roots []string) (all []Image, err error) {
	seen := map[string]bool{}
	for _, root := range roots {
		list, e := Read(root)
		err = errors.Join(err, e)
		for _, img := range list {
			img.Names = slices.DeleteFunc(img.Names, func(n string) bool { return seen[n] })
			if len(img.Names) > 0 {
				all = append(all, img)
			}
			for _, n := range img.Names {
				seen[n] = true
			}
		}
	}
	return all, err
}

// Read reads a store of containers/storage (overlay driver), as builder/preload
// lays it out. One that is missing or was never written to holds no images.
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
	if err := readJSON(filepath.Join(root, "overlay-images/images.json"), &images); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
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
