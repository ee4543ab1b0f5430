package rootfs

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

// Library finds a file among the packages that the lock allows, by its
// canonical path (usr-merged, no leading slash). The entries lead from the
// path asked for to a file: a shared library is often a link beside its file.
type Library interface {
	Find(p string) ([]Entry, bool)
}

// needs is what an ELF file asks of the system.
type needs struct {
	interp  string
	libs    []string
	runpath []string
}

// Close adds to the tree the loader and the shared libraries of every dynamic
// ELF file in it, and those that these need in turn. A library that is found
// neither in the tree nor in lib is an error naming who asked for it.
func (t *Tree) Close(triplet string, lib Library) error {
	todo := t.Entries()
	for len(todo) > 0 {
		e := todo[0]
		todo = todo[1:]
		if e.Kind != File || e.Inner || strings.HasSuffix(e.Path, ".ko") {
			continue
		}
		n, err := e.needs()
		if err != nil {
			return fmt.Errorf("root image: /%s (from %s): %w", e.Path, e.Origin, err)
		}
		if n == nil {
			continue
		}
		wanted := n.libs
		if n.interp != "" {
			wanted = append([]string{n.interp}, wanted...)
		}
		for _, w := range wanted {
			added, err := t.provide(w, e, n.runpath, triplet, lib)
			if err != nil {
				return err
			}
			todo = append(todo, added...)
		}
	}
	return nil
}

// provide makes sure that the loader finds the library (a soname or a path).
func (t *Tree) provide(want string, by *Entry, runpath []string, triplet string, lib Library) ([]*Entry, error) {
	dirs := append(slices.Clone(runpath), "usr/lib/"+triplet, "usr/lib")
	if strings.Contains(want, "/") {
		dirs = []string{path.Dir(Merged(want))}
	}
	base := path.Base(want)
	for _, d := range dirs {
		if to, ok := t.Resolve(d + "/" + base); ok && t.Get(to) != nil {
			return nil, nil
		}
	}
	for _, d := range dirs {
		found, ok := lib.Find(d + "/" + base)
		if !ok {
			continue
		}
		var added []*Entry
		for _, f := range found {
			f.Reason = "shared library of /" + by.Path
			if err := t.Add(f); err != nil {
				return nil, err
			}
			added = append(added, t.Get(f.Path))
		}
		return added, nil
	}
	return nil, fmt.Errorf("root image: /%s (from %s) needs %s, which is in no package of the lock; looked in /%s", by.Path, by.Origin, want, strings.Join(dirs, ", /"))
}

// Merged is a path with the usr-merge applied: /lib64/x is /usr/lib64/x.
func Merged(p string) string {
	p = clean(p)
	switch top, _, _ := strings.Cut(p, "/"); top {
	case "lib", "lib64", "bin", "sbin":
		return "usr/" + p
	}
	return p
}

// needs is nil where the entry is not a dynamic ELF file.
func (e *Entry) needs() (*needs, error) {
	r, err := e.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	ra, ok := r.(io.ReaderAt)
	if !ok {
		return nil, nil // content in memory is configuration, never a program
	}
	var magic [4]byte
	if _, err := ra.ReadAt(magic[:], 0); err != nil || string(magic[:]) != elf.ELFMAG {
		return nil, nil
	}
	f, err := elf.NewFile(ra)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	n := &needs{}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			b, err := io.ReadAll(io.LimitReader(p.Open(), 4096))
			if err != nil {
				return nil, err
			}
			n.interp = strings.TrimRight(string(b), "\x00")
		}
	}
	if n.libs, err = f.ImportedLibraries(); err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return nil, err
	}
	for _, tag := range []elf.DynTag{elf.DT_RUNPATH, elf.DT_RPATH} {
		rp, err := f.DynString(tag)
		if err != nil {
			return nil, err
		}
		for _, d := range strings.Split(strings.Join(rp, ":"), ":") {
			if d != "" {
				d = strings.NewReplacer("$ORIGIN", "/"+path.Dir(e.Path), "${ORIGIN}", "/"+path.Dir(e.Path)).Replace(d)
				n.runpath = append(n.runpath, Merged(d))
			}
		}
	}
	if n.interp == "" && len(n.libs) == 0 {
		return nil, nil
	}
	return n, nil
}
