package debian

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"garboard.local/builder/store"
)

// contentsFormat names the form of unpacked packages in the cache.
const contentsFormat = "1"

// Contents is a package unpacked into the store: what it is, and its entries in
// the order of the archive. Paths are as the package ships them (usr/lib/...,
// but also lib/... in old packages: the usr-merge is for who lays out a root).
type Contents struct {
	Package       string `json:"package"`
	Version       string `json:"version"`
	Architecture  string `json:"architecture"`
	Source        string `json:"source"`
	SourceVersion string `json:"sourceVersion"`
	Maintainer    string `json:"maintainer,omitempty"`
	Homepage      string `json:"homepage,omitempty"`
	Description   string `json:"description,omitempty"` // its first line
	Files         []File `json:"files"`

	dir string
}

// Content is the path of the content of a file or hard link. It is read-only
// and in the store: copy it, do not change it.
func (c *Contents) Content(f File) string { return filepath.Join(c.dir, "files", f.SHA256) }

// Files returns the contents of a package whose .deb is in the store (Fetch).
// The package is unpacked once: into index.json and files/<sha256>, in a step
// named by the hash of the .deb.
func Files(ctx context.Context, st *store.Store, p Package) (*Contents, error) {
	dir, _, err := st.Action(ctx, store.Key("debian-contents", contentsFormat, p.SHA256), func(ctx context.Context, dir string) error {
		return unpackContents(ctx, st.Blob(p.SHA256), dir)
	})
	if err != nil {
		return nil, fmt.Errorf("package %s %s (%s): %w", p.Name, p.Version, p.fileName(), err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "index.json"))
	if err != nil {
		return nil, err
	}
	c := &Contents{dir: dir}
	if err := json.Unmarshal(b, c); err != nil {
		return nil, fmt.Errorf("%s/index.json: %w; remove that directory", dir, err)
	}
	if c.Package != p.Name || c.Version != p.Version {
		return nil, fmt.Errorf("package %s %s: its .deb says that it is %s %s; run `garboard lock`", p.Name, p.Version, c.Package, c.Version)
	}
	return c, nil
}

func unpackContents(ctx context.Context, blob, dir string) error {
	in, err := os.Open(blob)
	if err != nil {
		return fmt.Errorf("not fetched: %w", err)
	}
	defer in.Close()
	if err := os.Mkdir(filepath.Join(dir, "files"), 0o755); err != nil {
		return err
	}
	c := Contents{Files: []File{}}
	byPath := map[string]File{}
	ctl, err := readDeb(in, debLimits, func(f File, content io.Reader) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		switch f.Type {
		case TypeFile:
			if f.SHA256, err = putContent(filepath.Join(dir, "files"), content); err != nil {
				return err
			}
			byPath[f.Path] = f
		case TypeHardlink:
			f.Size, f.SHA256 = byPath[f.Link].Size, byPath[f.Link].SHA256
		}
		c.Files = append(c.Files, f)
		return nil
	})
	if err != nil {
		return err
	}
	c.Package, c.Version, c.Architecture, c.Source, c.SourceVersion = ctl.Package, ctl.Version, ctl.Architecture, ctl.Source, ctl.SourceVersion
	c.Maintainer, c.Homepage, c.Description = ctl.Maintainer, ctl.Homepage, ctl.Description
	b, err := json.MarshalIndent(c, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "index.json"), b, 0o444)
}

// putContent writes a file named by its sha256 to dir.
func putContent(dir string, content io.Reader) (sum string, err error) {
	f, err := os.CreateTemp(dir, ".new-")
	if err != nil {
		return "", err
	}
	h := sha256.New()
	_, err = io.Copy(io.MultiWriter(f, h), content)
	if err = errors.Join(err, f.Chmod(0o444), f.Close()); err != nil {
		return "", err
	}
	sum = hex.EncodeToString(h.Sum(nil))
	return sum, os.Rename(f.Name(), filepath.Join(dir, sum))
}
