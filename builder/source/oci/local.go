package oci

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Open opens the image in a file or directory: an OCI layout, an archive of one,
// or an archive as docker save writes it. temp is a directory for what has to be
// unpacked meanwhile.
func Open(path, arch, temp string) (*Image, error) {
	i, err := open(path, arch, temp)
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", path, err)
	}
	return i, nil
}

func open(path, arch, temp string) (*Image, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if fi.IsDir() {
		return openLayout(path, path, arch)
	}
	isLayout, err := LayoutArchive(path)
	if err != nil {
		return nil, err
	}
	if !isLayout {
		return openDocker(path, arch)
	}
	dir, err := os.MkdirTemp(temp, "oci-")
	if err != nil {
		return nil, err
	}
	var i *Image
	if err = Unpack(path, dir); err == nil {
		i, err = openLayout(path, dir, arch)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	i.temp = dir
	return i, nil
}

func openLayout(name, dir, arch string) (*Image, error) {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, fmt.Errorf("it is no OCI layout: %w", err)
	}
	img, err := pick(index, arch)
	if err != nil {
		return nil, err
	}
	h, err := img.Digest()
	if err != nil {
		return nil, err
	}
	return &Image{Image: img, Name: name, Sum: h.String()}, nil
}

func openDocker(path, arch string) (*Image, error) {
	opener := func() (io.ReadCloser, error) { return os.Open(path) }
	man, err := tarball.LoadManifest(opener)
	if err != nil {
		return nil, fmt.Errorf("it holds neither oci-layout nor manifest.json: %w", err)
	}
	if len(man) != 1 {
		return nil, fmt.Errorf("it holds %d images; save one alone", len(man))
	}
	img, err := tarball.Image(opener, nil)
	if err != nil {
		return nil, err
	}
	if err := fits(img, arch); err != nil {
		return nil, err
	}
	h, err := img.ConfigName() // layers were recompressed, or not compressed, on their way into the archive
	if err != nil {
		return nil, err
	}
	return &Image{Image: img, Name: path, Sum: h.String()}, nil
}

func holds(path, name string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	for t := tar.NewReader(f); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if filepath.Clean(h.Name) == name {
			return true, nil
		}
	}
}

// partRE are the files of a layout; anything else in an archive is passed over.
var partRE = regexp.MustCompile(`^(oci-layout|index\.json|blobs/sha(256|512)/[0-9a-f]+)$`)

// maxLayout bounds what a layout's archive may unpack to.
const maxLayout = 8 << 30

// LayoutArchive says whether a path is an archive of an OCI layout, and not a
// directory or what docker save writes.
func LayoutArchive(path string) (bool, error) {
	if fi, err := os.Stat(path); err != nil || fi.IsDir() {
		return false, err
	}
	is, err := holds(path, "oci-layout")
	if err != nil {
		err = fmt.Errorf("%s is no archive (tar) of an image: %w", path, err)
	}
	return is, err
}

// Unpack unpacks the archive of an OCI layout into a directory.
func Unpack(path, dir string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	left := int64(maxLayout)
	for t := tar.NewReader(f); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := filepath.Clean(h.Name)
		if h.Typeflag != tar.TypeReg || !partRE.MatchString(name) {
			continue
		}
		if left -= h.Size; left < 0 {
			return fmt.Errorf("it unpacks to more than %d bytes", int64(maxLayout))
		}
		to := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		w, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		_, err = io.Copy(w, t)
		if err := errors.Join(err, w.Close()); err != nil {
			return err
		}
	}
}
