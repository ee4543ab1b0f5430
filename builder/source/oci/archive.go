package oci

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
)

// partRE are the files of a layout; anything else in an archive is passed over.
var partRE = regexp.MustCompile(`^(oci-layout|index\.json|blobs/sha(256|512)/[0-9a-f]+)$`)

// maxLayout bounds what a layout's archive may unpack to.
const maxLayout = 8 << 30

// layoutArchive says whether a file is an archive of an OCI layout, and not what
// docker save writes.
func layoutArchive(path string) (bool, error) {
	is, err := holds(path, "oci-layout")
	if err != nil {
		err = fmt.Errorf("it is no archive (tar) of an image: %w", err)
	}
	return is, err
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

// unpack unpacks the archive of an OCI layout into a directory.
func unpack(path, dir string) error {
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
