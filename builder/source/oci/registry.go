package oci

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"garboard.local/builder/store"
)

// Resolve asks a registry which image a reference means today for an
// architecture, and returns the digest of its manifest.
func Resolve(ctx context.Context, ref, arch string) (digest string, err error) {
	if digest, err = resolve(ctx, ref, arch); err != nil {
		return "", fmt.Errorf("image %s: %w", ref, err)
	}
	return digest, nil
}

func resolve(ctx context.Context, ref, arch string) (string, error) {
	r, err := name.ParseReference(ref)
	if err != nil {
		return "", err
	}
	d, err := remote.Get(r, options(ctx)...)
	if err != nil {
		return "", err
	}
	if !d.MediaType.IsIndex() {
		img, err := d.Image()
		if err != nil {
			return "", err
		}
		i, err := fetched(img, ref, d.Digest, arch)
		if err != nil {
			return "", err
		}
		return i.Sum, nil
	}
	index, err := d.ImageIndex()
	if err != nil {
		return "", err
	}
	c := &collector{arch: arch}
	if err := c.collect(index, nil, nil, 0); err != nil {
		return "", err
	}
	i, err := choose(c.found, c.others, Choice{Arch: arch})
	if errors.As(err, new(*several)) {
		err = fmt.Errorf("%w; name one by its digest, as %s@sha256:...", err, r.Context())
	}
	if err != nil {
		return "", err
	}
	return i.sum, nil
}

// Pull opens the image of a registry that has the digest; the bytes that come are
// checked against it.
func Pull(ctx context.Context, ref, digest, arch string) (*Image, error) {
	i, err := pull(ctx, ref, digest, arch)
	if err != nil {
		return nil, fmt.Errorf("image %s (%s): %w", ref, digest, err)
	}
	return i, nil
}

func pull(ctx context.Context, ref, digest, arch string) (*Image, error) {
	r, err := name.ParseReference(ref)
	if err != nil {
		return nil, err
	}
	h, err := v1.NewHash(digest)
	if err != nil {
		return nil, err
	}
	img, err := remote.Image(r.Context().Digest(digest), options(ctx)...)
	if err != nil {
		return nil, err
	}
	return fetched(img, ref, h, arch)
}

func fetched(img v1.Image, ref string, digest v1.Hash, arch string) (*Image, error) {
	manifest, config, err := vouched(img, digest)
	if err != nil {
		return nil, err
	}
	return &Image{Image: img, Name: ref, Sum: digest.String(), ManifestBytes: manifest, ConfigBytes: config}, fits(config, arch)
}

// Fetch is Pull by way of the store, which keeps the image as a layout: once it is
// there, no registry is asked. cached says that it was there.
func Fetch(ctx context.Context, st *store.Store, ref, digest, arch string) (i *Image, cached bool, err error) {
	dir, cached, err := st.Action(ctx, store.Key("oci layout 1", digest), func(ctx context.Context, dir string) error {
		i, err := Pull(ctx, ref, digest, arch)
		if err != nil {
			return err
		}
		return i.Layout(dir)
	})
	if err != nil {
		return nil, false, err
	}
	i, err = openLayout(dir, Choice{Arch: arch})
	if err == nil && i.Sum != digest {
		err = fmt.Errorf("its manifest has digest %s: %s", i.Sum, damaged)
	}
	if err != nil {
		return nil, false, fmt.Errorf("image %s (%s), kept in %s: %w", ref, digest, dir, err)
	}
	i.Name = ref
	return i, cached, nil
}

func options(ctx context.Context) []remote.Option {
	return []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithUserAgent("garboard")}
}
