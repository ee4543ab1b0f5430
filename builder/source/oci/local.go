package oci

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"garboard.local/builder/store"
)

// Open opens the image in a file or directory: an OCI layout, an archive of one,
// or an archive as docker save writes it. temp is a directory for what has to be
// unpacked meanwhile.
func Open(path string, w Choice, temp string) (*Image, error) {
	return named(path, func() (*Image, error) { return open(path, w, inside(temp)) })
}

// OpenCached is Open, and what has to be unpacked is kept in the store.
func OpenCached(ctx context.Context, st *store.Store, path string, w Choice) (*Image, error) {
	return named(path, func() (*Image, error) {
		return open(path, w, func(archive string) (string, func() error, error) {
			sum, err := store.HashFile(archive)
			if err != nil {
				return "", nil, err
			}
			dir, _, err := st.Action(ctx, store.Key("oci archive 1", sum), func(_ context.Context, dir string) error { return unpack(archive, dir) })
			return dir, nil, err
		})
	})
}

// named says which place an error is about.
func named(place string, f func() (*Image, error)) (*Image, error) {
	i, err := f()
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", place, err)
	}
	i.Name = place
	return i, nil
}

// unpacker unpacks the archive of a layout. done, unless nil, gives back the directory.
type unpacker func(archive string) (dir string, done func() error, err error)

// inside unpacks into new directories of one for temporary files.
func inside(temp string) unpacker {
	return func(archive string) (string, func() error, error) {
		dir, err := os.MkdirTemp(temp, "oci-")
		if err != nil {
			return "", nil, err
		}
		done := func() error { return os.RemoveAll(dir) }
		if err := unpack(archive, dir); err != nil {
			return "", nil, errors.Join(err, done())
		}
		return dir, done, nil
	}
}

func open(path string, w Choice, u unpacker) (*Image, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if fi.IsDir() {
		return openLayout(path, w)
	}
	isLayout, err := holds(path, layoutMark)
	if err != nil {
		return nil, err
	}
	if !isLayout {
		isDocker, err := holds(path, dockerList)
		if err == nil && !isDocker {
			err = fmt.Errorf("it holds neither %s nor %s: no tool has written an image there", layoutMark, dockerList)
		}
		if err != nil {
			return nil, err
		}
		return openDocker(path, w)
	}
	dir, done, err := u(path)
	if err != nil {
		return nil, err
	}
	i, err := openLayout(dir, w)
	if err != nil {
		if done != nil {
			err = errors.Join(err, done())
		}
		return nil, err
	}
	i.done = done
	return i, nil
}

func openLayout(dir string, w Choice) (*Image, error) {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, fmt.Errorf("it is no OCI layout: %w", err)
	}
	c := &collector{arch: w.Arch}
	if err := c.collect(index, nil, nil, 0); err != nil {
		return nil, err
	}
	return local(c, w)
}

// dockerList is the file with the list of the images in what docker save writes.
const dockerList = "manifest.json"

// openDocker opens what docker save writes.
func openDocker(path string, w Choice) (*Image, error) {
	opener := func() (io.ReadCloser, error) { return os.Open(path) }
	man, err := tarball.LoadManifest(opener)
	if err != nil {
		return nil, fmt.Errorf("its %s, which docker save writes: %w", dockerList, err)
	}
	c := &collector{arch: w.Arch}
	for _, d := range man {
		var tag *name.Tag
		switch {
		case len(man) == 1:
		case len(d.RepoTags) == 0: // it counts, but the library opens one of several by its name alone
			c.found = append(c.found, candidate{sum: d.Config})
			continue
		default:
			t, err := name.NewTag(d.RepoTags[0])
			if err != nil {
				return nil, err
			}
			tag = &t
		}
		i := candidate{names: d.RepoTags}
		if i.img, err = tarball.Image(opener, tag); err != nil {
			return nil, err
		}
		if i.config, err = i.img.RawConfigFile(); err != nil {
			return nil, fmt.Errorf("its configuration: %w", err)
		}
		i.sum = sum(i.config).String()
		if err := c.sort(i); err != nil {
			return nil, err
		}
	}
	return local(c, w)
}

// local takes the image that is meant out of what lies on this machine.
func local(c *collector, w Choice) (*Image, error) {
	i, err := choose(c.found, c.others, w)
	if errors.As(err, new(*otherArch)) {
		err = fmt.Errorf("%w; fetch it with --platform linux/%s", err, w.Arch)
	}
	if errors.As(err, new(*several)) {
		cure := "keep one"
		if w.Name != "" {
			cure += ", or save it under that name"
		}
		err = fmt.Errorf("%w; %s", err, cure)
	}
	if err != nil {
		return nil, err
	}
	return &Image{Image: i.img, Sum: i.sum, ManifestBytes: i.manifest, ConfigBytes: i.config}, nil
}
