package builder

import (
	"context"
	"fmt"
	"path"

	"garboard.local/builder/recipe"
	"garboard.local/builder/rootfs"
	"garboard.local/builder/source/debian"
)

// FromPackages lays files out of Debian packages into a tree, with the shared
// libraries that they need: a system that is no node, for a test's machine. The
// packages must be in the lock's closure of what want names. No maintainer script runs.
func FromPackages(ctx context.Context, o Options, arch string, debs []debian.Package, want []recipe.Package) (*rootfs.Tree, error) {
	if err := o.Archive.FetchAll(ctx, debs); err != nil {
		return nil, err
	}
	b := &build{Options: o, arch: arch, debs: map[string]debian.Package{}, tree: rootfs.New(), recipe: &recipe.Recipe{Packages: want}}
	for _, d := range debs {
		b.debs[d.Name] = d
	}
	lib := &library{store: o.Store, debs: b.debs, ctx: ctx}
	if err := b.addBase(lib); err != nil {
		return nil, err
	}
	if err := b.addPackages(lib); err != nil {
		return nil, err
	}
	if err := b.tree.Close(recipe.Triplet(arch), private{lib, "usr/lib/" + recipe.Triplet(arch) + "/systemd/"}); err != nil {
		return nil, err
	}
	if lib.err != nil {
		return nil, fmt.Errorf("packages: %w", lib.err)
	}
	return b.tree, nil
}

// private also finds libraries in a directory that only programs name (RUNPATH): a
// library there that needs another finds that loaded already.
type private struct {
	*library
	dir string
}

func (l private) Find(p string) ([]rootfs.Entry, bool) {
	if found, ok := l.library.Find(p); ok {
		return found, true
	}
	return l.library.Find(l.dir + path.Base(p))
}
