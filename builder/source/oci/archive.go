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

// layoutMark is the file that makes a layout of a directory, or of an archive.
const layoutMark = "oci-layout"

// holds says whether there is a file in an archive.
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
			return false, fmt.Errorf("it is no archive (tar) of an image: %w", err)
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
			return fmt.Errorf("it cannot be unpacked to its end: %w", err)
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
			return fmt.Errorf("%s in it: %w", name, err)
		}
	}
}
