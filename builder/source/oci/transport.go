package oci

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// refName is the annotation by which images in one layout are told apart (OCI image
// spec, annotations.md).
const refName = "org.opencontainers.image.ref.name"

// Transports are the ways to name an image, as containers-transports(5) has them.
const Transports = "oci:DIR[:NAME], oci-archive:FILE[:NAME], docker-archive:FILE[:NAME] or docker://REGISTRY/REPOSITORY:TAG"

// Find opens the image that a place means: one of Transports. temp is a directory for
// what has to be unpacked meanwhile. Of an image in a registry only the manifest and the
// configuration come now, its layers when they are read.
func Find(ctx context.Context, place, arch, temp string) (*Image, error) {
	kind, rest, ok := strings.Cut(place, ":")
	if !ok || rest == "" {
		return nil, fmt.Errorf("image %q: name it as %s", place, Transports)
	}
	if kind == "docker" {
		ref, ok := strings.CutPrefix(rest, "//")
		if !ok {
			return nil, fmt.Errorf("image %q: docker: is followed by //REGISTRY/REPOSITORY:TAG", place)
		}
		digest, err := Resolve(ctx, ref, arch)
		if err != nil {
			return nil, err
		}
		return Pull(ctx, ref, digest, arch)
	}
	file, tag := splitName(rest)
	var i *Image
	var err error
	switch fi, serr := os.Stat(file); {
	case kind != "oci" && kind != "oci-archive" && kind != "docker-archive":
		return nil, fmt.Errorf("image %q: %q is no way to name one; known are %s", place, kind, Transports)
	case serr != nil:
		err = serr
	case kind == "oci" && !fi.IsDir():
		err = errors.New("it is no directory; an archive of a layout is oci-archive:FILE")
	case kind != "oci" && fi.IsDir():
		err = errors.New("it is a directory; a layout in one is oci:DIR")
	case kind == "docker-archive":
		i, err = openDockerNamed(file, tag, arch)
	case tag == "":
		i, err = open(file, arch, temp)
	default:
		i, err = openNamed(file, tag, arch, temp)
	}
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", place, err)
	}
	return i, nil
}

// splitName takes FILE:NAME apart. What is a file with all its colons is one.
func splitName(s string) (file, name string) {
	if _, err := os.Stat(s); err == nil {
		return s, ""
	}
	file, name, _ = strings.Cut(s, ":")
	return file, name
}

// openNamed opens one image of a layout that holds several.
func openNamed(file, tag, arch, temp string) (*Image, error) {
	dir, made := file, ""
	if fi, err := os.Stat(file); err == nil && !fi.IsDir() {
		if made, err = os.MkdirTemp(temp, "oci-"); err != nil {
			return nil, err
		}
		dir = made
		if err := Unpack(file, dir); err != nil {
			return nil, errors.Join(fmt.Errorf("it is no archive of a layout: %w", err), os.RemoveAll(made))
		}
	}
	img, err := namedImage(dir, tag, arch)
	if err != nil {
		if made != "" {
			err = errors.Join(err, os.RemoveAll(made))
		}
		return nil, err
	}
	h, err := img.Digest()
	return &Image{Image: img, Name: file + ":" + tag, Sum: h.String(), temp: made}, err
}

func namedImage(dir, tag, arch string) (v1.Image, error) {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, fmt.Errorf("it is no OCI layout: %w", err)
	}
	man, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, d := range man.Manifests {
		switch n := d.Annotations[refName]; {
		case n != tag:
			names = append(names, n)
		case d.MediaType.IsIndex():
			sub, err := index.ImageIndex(d.Digest)
			if err != nil {
				return nil, err
			}
			return pick(sub, arch)
		default:
			img, err := index.Image(d.Digest)
			if err != nil {
				return nil, err
			}
			if h, err := img.Digest(); err != nil || h != d.Digest {
				return nil, errors.Join(err, fmt.Errorf("it is damaged: manifest %s has digest %s; fetch it again", d.Digest, h))
			}
			return img, fits(img, arch)
		}
	}
	names = slices.DeleteFunc(names, func(n string) bool { return n == "" })
	return nil, fmt.Errorf("it holds no image that is named %q; named are %s", tag, orNone(names))
}

func openDockerNamed(path, tag, arch string) (*Image, error) {
	if tag == "" {
		return openDocker(path, arch)
	}
	t, err := name.NewTag(tag)
	if err != nil {
		return nil, err
	}
	opener := func() (io.ReadCloser, error) { return os.Open(path) }
	img, err := tarball.Image(opener, &t)
	if err != nil {
		return nil, fmt.Errorf("as %s: %w", tag, err)
	}
	if err := fits(img, arch); err != nil {
		return nil, err
	}
	h, err := img.ConfigName()
	return &Image{Image: img, Name: path + ":" + tag, Sum: h.String()}, err
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
