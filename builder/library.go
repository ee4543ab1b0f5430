package builder

import (
	"context"
	"fmt"
	"path"
	"sort"
	"strings"

	"garboard.local/builder/rootfs"
	"garboard.local/builder/source/debian"
	"garboard.local/builder/store"
)

// library finds files in the target packages by their path in the root image.
type library struct {
	ctx   context.Context
	store *store.Store
	debs  map[string]debian.Package

	files map[string]map[string]*libraryAt // by package, then path
	err   error
}

type libraryAt struct {
	deb  debian.Package
	dir  *debian.Contents
	file debian.File
}

// open reads a package's index and applies the usr-merge to its paths.
func (l *library) open(name string) (map[string]*libraryAt, error) {
	if m, ok := l.files[name]; ok {
		return m, nil
	}
	deb, ok := l.debs[name]
	if !ok {
		return nil, fmt.Errorf("package %s is not in the lock's closure of this recipe; run `garboard lock`", name)
	}
	c, err := debian.Files(l.ctx, l.store, deb)
	if err != nil {
		return nil, err
	}
	m := map[string]*libraryAt{}
	for _, f := range c.Files {
		m[rootfs.Merged(f.Path)] = &libraryAt{deb, c, f}
	}
	if l.files == nil {
		l.files = map[string]map[string]*libraryAt{}
	}
	l.files[name] = m
	return m, nil
}

func (at *libraryAt) entry(p string) (rootfs.Entry, error) {
	origin := fmt.Sprintf("deb %s %s", at.deb.Name, at.deb.Version)
	f := at.file
	switch f.Type {
	case "dir":
		return rootfs.Entry{Path: p, Kind: rootfs.Dir, Mode: f.Mode, UID: f.UID, GID: f.GID, Origin: origin}, nil
	case "symlink":
		return rootfs.Entry{Path: p, Kind: rootfs.Symlink, Mode: 0o777, UID: f.UID, GID: f.GID, Link: f.Link, Origin: origin}, nil
	case "file", "hardlink":
		e, err := rootfs.FromFile(p, f.Mode, at.dir.Content(f), f.SHA256, origin, "")
		e.UID, e.GID = f.UID, f.GID
		return e, err
	}
	return rootfs.Entry{}, fmt.Errorf("%s: /%s is a %s, which a root image cannot hold", origin, p, f.Type)
}

// glob lists the files of a package that a pattern (path.Match) means. A
// symlink brings what it leads to in the same package.
func (l *library) glob(name, pattern string) ([]rootfs.Entry, error) {
	m, err := l.open(name)
	if err != nil {
		return nil, err
	}
	pattern = strings.TrimPrefix(pattern, "/")
	var paths []string
	for p, at := range m {
		if ok, err := path.Match(pattern, p); err != nil {
			return nil, fmt.Errorf("package %s: pattern /%s: %w", name, pattern, err)
		} else if ok && at.file.Type != "dir" {
			paths = append(paths, p)
		}
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("package %s %s holds no file /%s; `garboard inspect --package %s` lists what it has", name, l.debs[name].Version, pattern, name)
	}
	sort.Strings(paths)
	var out []rootfs.Entry
	for _, p := range paths {
		chain, ok := l.follow(m, p)
		if !ok {
			// The link leads out of the package: the tree's own check decides.
			e, err := m[p].entry(p)
			if err != nil {
				return nil, err
			}
			chain = []rootfs.Entry{e}
		}
		out = append(out, chain...)
	}
	return out, l.err
}

// follow is the entries from a path to the file it leads to inside one package.
func (l *library) follow(m map[string]*libraryAt, p string) ([]rootfs.Entry, bool) {
	var out []rootfs.Entry
	for range 10 {
		at, ok := m[p]
		if !ok {
			return nil, false
		}
		e, err := at.entry(p)
		if err != nil {
			l.err = err
			return nil, false
		}
		out = append(out, e)
		if e.Kind != rootfs.Symlink {
			return out, true
		}
		if !path.IsAbs(e.Link) {
			e.Link = path.Join(path.Dir(p), e.Link)
		}
		p = rootfs.Merged(e.Link)
	}
	return nil, false
}

// Find implements rootfs.Library over every package of the recipe's closure.
func (l *library) Find(p string) ([]rootfs.Entry, bool) {
	for _, name := range keys(l.debs) {
		if strings.HasPrefix(name, "linux-image-") {
			continue
		}
		m, err := l.open(name)
		if err != nil {
			l.err = err
			return nil, false
		}
		if _, ok := m[p]; !ok {
			continue
		}
		if chain, ok := l.follow(m, p); ok {
			return chain, true
		}
	}
	return nil, false
}
