// Package oci opens container images of others for the build: in a registry, in
// an OCI layout (a directory, or an archive of one), or in what docker save
// writes. Of an image for several architectures it takes the one that is wanted.
package oci

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Image is an image for one architecture.
type Image struct {
	v1.Image
	Name string // for people: what was named, and what it is
	// Sum stands for the content: that of the manifest, or, where an archive
	// has none that means anything, of the configuration, which names each layer
	// by the hash of what is in it.
	Sum string

	temp string // directory that goes with Close
}

// Close gives back what the image was unpacked to.
func (i *Image) Close() error {
	if i.temp == "" {
		return nil
	}
	return os.RemoveAll(i.temp)
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
	c, err := i.ConfigFile()
	if err != nil {
		return err
	}
	layers, err := i.Layers()
	if err != nil {
		return err
	}
	if len(layers) != len(c.RootFS.DiffIDs) {
		return fmt.Errorf("it is damaged: %d layers, and its configuration knows %d", len(layers), len(c.RootFS.DiffIDs))
	}
	for n, l := range layers {
		r, err := l.Uncompressed()
		if err != nil {
			return fmt.Errorf("layer %d: %w", n, err)
		}
		got, _, err := v1.SHA256(r)
		if err = errors.Join(err, r.Close()); err != nil {
			return fmt.Errorf("layer %d: %w", n, err)
		}
		if want := c.RootFS.DiffIDs[n]; got != want {
			return fmt.Errorf("it is damaged: layer %d unpacks to %s, not to %s; fetch it again", n, got, want)
		}
	}
	return nil
}

// Resolve asks a registry which image a reference means today for an
// architecture, and returns the digest of its manifest.
func Resolve(ctx context.Context, ref, arch string) (digest string, err error) {
	r, err := name.ParseReference(ref)
	if err != nil {
		return "", fmt.Errorf("image %q: %w", ref, err)
	}
	d, err := remote.Get(r, options(ctx)...)
	if err != nil {
		return "", fmt.Errorf("image %s: %w", ref, err)
	}
	var img v1.Image
	if d.MediaType.IsIndex() {
		index, err := d.ImageIndex()
		if err != nil {
			return "", fmt.Errorf("image %s: %w", ref, err)
		}
		if img, err = pick(index, arch); err != nil {
			return "", fmt.Errorf("image %s: %w", ref, err)
		}
	} else if img, err = d.Image(); err != nil {
		return "", fmt.Errorf("image %s: %w", ref, err)
	}
	if err := fits(img, arch); err != nil {
		return "", fmt.Errorf("image %s: %w", ref, err)
	}
	h, err := img.Digest()
	return h.String(), err
}

// Pull opens the image of a registry that has the digest; the bytes that come are
// checked against it.
func Pull(ctx context.Context, ref, digest, arch string) (*Image, error) {
	r, err := name.ParseReference(ref)
	if err != nil {
		return nil, fmt.Errorf("image %q: %w", ref, err)
	}
	img, err := remote.Image(r.Context().Digest(digest), options(ctx)...)
	if err != nil {
		return nil, fmt.Errorf("image %s (%s): %w", ref, digest, err)
	}
	if err := fits(img, arch); err != nil {
		return nil, fmt.Errorf("image %s (%s): %w", ref, digest, err)
	}
	return &Image{Image: img, Name: ref, Sum: digest}, nil
}

func options(ctx context.Context) []remote.Option {
	return []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithUserAgent("garboard")}
}

// maxDepth bounds the nesting of indexes.
const maxDepth = 4

// pick takes the one image of an index that is for the architecture.
func pick(index v1.ImageIndex, arch string) (v1.Image, error) {
	found, others, err := collect(index, arch, 0)
	switch {
	case err != nil:
		return nil, err
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, fmt.Errorf("it holds %d images for linux/%s; keep one", len(found), arch)
	case len(others) > 0:
		return nil, fmt.Errorf("it has no image for linux/%s, only for %s", arch, strings.Join(others, ", "))
	}
	return nil, errors.New("it holds no image")
}

func collect(index v1.ImageIndex, arch string, depth int) (found []v1.Image, others []string, err error) {
	if depth > maxDepth {
		return nil, nil, fmt.Errorf("its indexes are nested more than %d deep", maxDepth)
	}
	man, err := index.IndexManifest()
	if err != nil {
		return nil, nil, err
	}
	other := func(p string) {
		if !slices.Contains(others, p) {
			others = append(others, p)
		}
	}
	for _, d := range man.Manifests {
		switch p := d.Platform; {
		case d.MediaType.IsIndex():
			sub, err := index.ImageIndex(d.Digest)
			if err != nil {
				return nil, nil, err
			}
			f, o, err := collect(sub, arch, depth+1)
			if err != nil {
				return nil, nil, err
			}
			found, others = append(found, f...), append(others, o...)
		case !d.MediaType.IsImage():
		case p != nil && p.OS == "unknown": // an attestation
		case p != nil && (p.OS != "linux" || p.Architecture != arch):
			other(p.OS + "/" + p.Architecture)
		default:
			img, err := index.Image(d.Digest)
			if err != nil {
				return nil, nil, err
			}
			if h, err := img.Digest(); err != nil || h != d.Digest {
				return nil, nil, errors.Join(err, fmt.Errorf("it is damaged: manifest %s has digest %s; fetch it again", d.Digest, h))
			}
			if err := fits(img, arch); err != nil {
				if p != nil {
					return nil, nil, err
				}
				if c, err := img.ConfigFile(); err == nil {
					other(c.OS + "/" + c.Architecture)
				}
				continue
			}
			found = append(found, img)
		}
	}
	return found, others, nil
}

// fits checks that an image is for the architecture.
func fits(img v1.Image, arch string) error {
	c, err := img.ConfigFile()
	if err != nil {
		return fmt.Errorf("its configuration: %w", err)
	}
	if c.OS != "linux" || c.Architecture != arch {
		return fmt.Errorf("it is for %s/%s, not for linux/%s", c.OS, c.Architecture, arch)
	}
	return nil
}
