package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// linkTree makes hard links below dst of the files below src that keep wants,
// by their names; nil wants all. Where a link cannot be made the file is copied.
func linkTree(dst, src string, keep func(name string) bool) error {
	return filepath.WalkDir(src, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(src, p)
		if err != nil {
			return err
		}
		to := filepath.Join(dst, rel)
		switch {
		case d.IsDir():
			return os.MkdirAll(to, 0o755)
		case keep != nil && !keep(d.Name()):
			return nil
		}
		if os.Link(p, to) == nil {
			return nil
		}
		return copyPlain(to, p, 0o755)
	})
}

// notSources are what lies in a repository without being of it.
var notSources = map[string]bool{".git": true, "out": true, "bin": true, "dist": true}

// copySources copies a repository's files without the permissions for others,
// as somebody with umask 077 would have them, and with times of long ago.
func copySources(dst, src string) error {
	old := time.Date(2001, 9, 9, 1, 46, 40, 0, time.UTC)
	return filepath.WalkDir(src, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(src, p)
		if err != nil {
			return err
		}
		if notSources[rel] {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		to := filepath.Join(dst, rel)
		switch d.Type() {
		case fs.ModeDir:
			return os.MkdirAll(to, 0o700)
		case fs.ModeSymlink:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			return os.Symlink(target, to)
		case 0:
			fi, err := d.Info()
			if err != nil {
				return err
			}
			if err := copyPlain(to, p, fi.Mode().Perm()&0o700); err != nil {
				return err
			}
			return os.Chtimes(to, old, old)
		}
		return nil // a socket or the like
	})
}

func copyPlain(to, from string, mode fs.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
