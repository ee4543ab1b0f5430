package oci

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
)

// Transports are the ways to name an image, as containers-transports(5) has them.
const Transports = "oci:DIR[:NAME], oci-archive:FILE[:NAME], docker-archive:FILE[:NAME] or docker://REGISTRY/REPOSITORY:TAG"

// Find opens the image that a place means: one of Transports. A NAME there must be the
// image's, in place of the choice's name. temp is a directory for what has to be unpacked
// meanwhile. Of an image in a registry only the manifest and the configuration come now,
// its layers when they are read.
func Find(ctx context.Context, place string, w Choice, temp string) (*Image, error) {
	kind, rest, ok := strings.Cut(place, ":")
	if !ok || rest == "" {
		return nil, fmt.Errorf("image %q: name it as %s", place, Transports)
	}
	switch kind {
	case "docker":
		ref, ok := strings.CutPrefix(rest, "//")
		if !ok {
			return nil, fmt.Errorf("image %q: docker: is followed by //REGISTRY/REPOSITORY:TAG", place)
		}
		digest, err := Resolve(ctx, ref, w.Arch)
		if err != nil {
			return nil, err
		}
		return Pull(ctx, ref, digest, w.Arch)
	case "oci", "oci-archive", "docker-archive":
		return named(place, func() (*Image, error) { return find(kind, rest, w, temp) })
	}
	return nil, fmt.Errorf("image %q: %q is no way to name one; known are %s", place, kind, Transports)
}

func find(kind, rest string, w Choice, temp string) (*Image, error) {
	file, name := splitName(rest)
	if name != "" {
		w.Name, w.Must = name, true
	}
	switch fi, err := os.Stat(file); {
	case err != nil:
		return nil, err
	case kind == "oci" && !fi.IsDir():
		return nil, errors.New("it is no directory; an archive of a layout is oci-archive:FILE")
	case kind != "oci" && fi.IsDir():
		return nil, errors.New("it is a directory; a layout in one is oci:DIR")
	}
	var i *Image
	var err error
	if kind == "docker-archive" { // which may be an archive of a layout at the same time
		i, err = openDocker(file, w)
	} else {
		i, err = open(file, w, inside(temp))
	}
	if errors.As(err, new(*several)) {
		err = fmt.Errorf("%w, or take one by its name, as %s:%s:NAME", err, kind, file)
	}
	return i, err
}

// splitName takes FILE:NAME apart. What is a file with all its colons is one.
func splitName(s string) (file, name string) {
	if _, err := os.Stat(s); err == nil {
		return s, ""
	}
	file, name, _ = strings.Cut(s, ":")
	return file, name
}
