// Package content says whether the files of a container image are whole: the
// host sums up the files it puts into an image, and the guest the files it finds
// in a container or in the container store (github.com/containers/storage, on
// disk format of the overlay driver). Equal sums mean equal files.
package content

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Tops are the names in the root directory of a test image; a container's root
// has others too, which are not the image's.
var Tops = []string{"data", "payload"}

// File is a file of an image.
type File struct {
	Path   string // relative to the root
	Mode   fs.FileMode
	Size   int64
	SHA256 string // of a regular file
	Target string // of a symbolic link
}

// Sum is one value for all files; their order does not matter.
func Sum(files []File) string {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%q %v %d %s %q\n", f.Path, f.Mode, f.Size, f.SHA256, f.Target)
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// Of describes a regular file by what it holds; mode has its permissions alone.
func Of(path string, mode int64, data []byte) File {
	sum := sha256.Sum256(data)
	return File{Path: path, Mode: fs.FileMode(mode), Size: int64(len(data)), SHA256: hex.EncodeToString(sum[:])}
}

// Link describes a symbolic link.
func Link(path, target string) File {
	return File{Path: path, Mode: fs.ModeSymlink | 0o777, Target: target}
}

// Read lists the files below Tops in the layers, the upper one first: a file of
// an upper layer hides the same path in lower ones. Directories do not count.
func Read(layers ...string) ([]File, error) {
	found := map[string]bool{}
	var all []File
	for _, layer := range layers {
		for _, top := range Tops {
			err := filepath.WalkDir(filepath.Join(layer, top), func(path string, e fs.DirEntry, err error) error {
				switch {
				case errors.Is(err, fs.ErrNotExist) && path == filepath.Join(layer, top):
					return nil // not every layer has each
				case err != nil:
					return err
				case e.IsDir():
					return nil
				}
				rel, err := filepath.Rel(layer, path)
				if err != nil || found[rel] {
					return err
				}
				found[rel] = true
				f, err := read(path, rel)
				all = append(all, f)
				return err
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

func read(path, rel string) (File, error) {
	fi, err := os.Lstat(path)
	if err != nil {
		return File{}, err
	}
	f := File{Path: rel, Mode: fi.Mode()}
	switch {
	case fi.Mode()&fs.ModeSymlink != 0:
		f.Target, err = os.Readlink(path)
		return f, err
	case !fi.Mode().IsRegular():
		return f, fmt.Errorf("%s: neither a file nor a link: %v", path, fi.Mode())
	}
	in, err := os.Open(path)
	if err != nil {
		return f, err
	}
	defer in.Close()
	h := sha256.New()
	if f.Size, err = io.Copy(h, in); err != nil {
		return f, fmt.Errorf("read %s: %w", path, err)
	}
	f.SHA256 = hex.EncodeToString(h.Sum(nil))
	return f, nil
}

// Image is an image as the store's own records have it.
type Image struct {
	ID    string
	Names []string
	// Layers are the directories with the files, the upper one first.
	Layers []string
}

// Store reads the records of a container store.
func Store(dir string) ([]Image, error) {
	var layers []struct{ ID, Parent string }
	var images []struct {
		ID, Layer string
		Names     []string
	}
	if err := decode(filepath.Join(dir, "overlay-layers/layers.json"), &layers); err != nil {
		return nil, err
	}
	if err := decode(filepath.Join(dir, "overlay-images/images.json"), &images); err != nil {
		return nil, err
	}
	parent := map[string]string{}
	for _, l := range layers {
		parent[l.ID] = l.Parent
	}
	var out []Image
	for _, i := range images {
		im := Image{ID: i.ID, Names: i.Names}
		for l := i.Layer; l != ""; l = parent[l] {
			if _, known := parent[l]; !known || len(im.Layers) > len(layers) {
				return nil, fmt.Errorf("%s: image %s %v: layer %q is unknown or its own ancestor", dir, i.ID, i.Names, l)
			}
			im.Layers = append(im.Layers, filepath.Join(dir, "overlay", l, "diff"))
		}
		out = append(out, im)
	}
	return out, nil
}

// decode reads a record; the store writes it with its first entry.
func decode(path string, v any) error {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
