// Package oci opens container images of others: in a registry, in an OCI layout (a
// directory, or an archive of one), or in what docker save writes. Nothing else in
// Garboard does, so that all are chosen and checked alike.
//
// Of several images the one for the architecture is taken, and if there are several of
// those, the one with the name that was asked for (Choice). What vouches for an image
// is looked at when it is opened: the bytes of its manifest and of its configuration
// have the digests under which they are known. Its layers are compared by who reads
// them, with the digests that Layers returns.
package oci

import (
	"bytes"
	"errors"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// Image is an image for one architecture.
type Image struct {
	v1.Image
	Name string // for people: what was named, and what it is
	// Sum stands for the content: that of the manifest, or, where an archive
	// has none that means anything, of the configuration, which names each layer
	// by the hash of what is in it.
	Sum string
	// ManifestBytes and ConfigBytes are as they arrived, and checked. There is no
	// manifest in what docker save writes: the layers were recompressed, or not
	// compressed at all, on their way into the archive.
	ManifestBytes, ConfigBytes []byte

	done func() error // gives back what goes with Close
}

// Close gives back what the image was unpacked to.
func (i *Image) Close() error {
	if i.done == nil {
		return nil
	}
	return i.done()
}

// Layout writes the image into a new OCI layout. What comes from a registry is
// compared with its digests on the way.
func (i *Image) Layout(dir string) error {
	p, err := layout.Write(dir, empty.Index)
	if err == nil {
		err = p.AppendImage(i.Image)
	}
	if err != nil {
		return fmt.Errorf("image %s: %w", i.Name, err)
	}
	return nil
}

// Verify reads every layer and compares what it unpacks to with the hash in the
// image's configuration: a layout and an archive vouch for nothing themselves.
func (i *Image) Verify() error {
	layers, diffIDs, err := Layers(i)
	if err != nil {
		return err
	}
	for n, l := range layers {
		r, err := l.Uncompressed()
		if err != nil {
			return fmt.Errorf("layer %d: %w", n, err)
		}
		got, _, err := v1.SHA256(r)
		if err = errors.Join(err, r.Close()); err == nil {
			err = Same("unpacked it", got, diffIDs[n])
		}
		if err != nil {
			return fmt.Errorf("layer %d: %w", n, err)
		}
	}
	return nil
}

// Layers are an image's layers, bottom first, and the digest of what each unpacks to.
func Layers(img v1.Image) ([]v1.Layer, []v1.Hash, error) {
	c, err := img.ConfigFile()
	if err != nil {
		return nil, nil, fmt.Errorf("its configuration: %w", err)
	}
	layers, err := img.Layers()
	if err != nil {
		return nil, nil, err
	}
	if want := len(c.RootFS.DiffIDs); len(layers) != want {
		return nil, nil, fmt.Errorf("it has %d layers, and its configuration knows %d: %s", len(layers), want, damaged)
	}
	return layers, c.RootFS.DiffIDs, nil
}

const damaged = "the image is damaged, fetch it again"

// Same says that something has another digest than the one under which it is known.
func Same(what string, got, want v1.Hash) error {
	if got == want {
		return nil
	}
	return fmt.Errorf("%s has digest %s, not %s: %s", what, got, want, damaged)
}

// vouched reads an image's manifest and configuration and compares them with the
// digests under which they are known.
func vouched(img v1.Image, digest v1.Hash) (manifest, config []byte, err error) {
	if manifest, err = img.RawManifest(); err != nil {
		return nil, nil, fmt.Errorf("manifest %s: %w", digest, err)
	}
	if err := Same("its manifest", sum(manifest), digest); err != nil {
		return nil, nil, err
	}
	man, err := v1.ParseManifest(bytes.NewReader(manifest))
	if err != nil {
		return nil, nil, fmt.Errorf("manifest %s: %w", digest, err)
	}
	if config, err = img.RawConfigFile(); err != nil {
		return nil, nil, fmt.Errorf("its configuration: %w", err)
	}
	return manifest, config, Same("its configuration", sum(config), man.Config.Digest)
}

func sum(b []byte) v1.Hash {
	h, _, _ := v1.SHA256(bytes.NewReader(b)) // memory can be read
	return h
}
