package component

import (
	"bufio"
	"bytes"
	"cmp"
	"debug/buildinfo"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"garboard.local/builder/store"
	"golang.org/x/mod/modfile"
)

// Info is what the lock records of a component.
type Info struct {
	Module      string // k8s.io/kubernetes
	Version     string // v1.36.3
	Sum         string // the module's hash in go.sum, h1:…
	GoModSHA256 string // of the component's go.mod, in hexadecimal
	GoSumSHA256 string // of the component's go.sum, in hexadecimal
}

// Describe reads a component's directory; nothing is fetched or built.
func Describe(repoRoot, name string) (Info, error) {
	c, err := load(repoRoot, name)
	if err != nil {
		return Info{}, err
	}
	mod, err := store.HashFile(filepath.Join(c.dir, "go.mod"))
	if err != nil {
		return Info{}, fmt.Errorf("component %s: %w", name, err)
	}
	sum, err := store.HashFile(filepath.Join(c.dir, "go.sum"))
	if err != nil {
		return Info{}, fmt.Errorf("component %s: %w", name, err)
	}
	return Info{Module: c.Module, Version: c.version, Sum: c.sum, GoModSHA256: mod, GoSumSHA256: sum}, nil
}

// readModule finds the module's version in go.mod and its hash in go.sum.
func (c *component) readModule() error {
	file := filepath.Join(c.dir, "go.mod")
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if c.mod, err = modfile.Parse(file, data, nil); err != nil {
		return err
	}
	for _, r := range c.mod.Replace {
		_, replaced := c.Replace[r.Old.Path]
		if _, patched := c.Patch[r.Old.Path]; replaced || patched || r.Old.Path == c.Module {
			return fmt.Errorf("%s replaces %s, which component.yaml replaces; remove it from go.mod", file, r.Old.Path)
		}
	}
	sums, err := os.ReadFile(filepath.Join(c.dir, "go.sum"))
	if err != nil {
		return err
	}
	if c.pin, err = c.findPin(sums, c.Module); err != nil {
		return err
	}
	c.patched = map[string]pin{}
	for _, m := range slices.Sorted(maps.Keys(c.Patch)) {
		if c.patched[m], err = c.findPin(sums, m); err != nil {
			return fmt.Errorf("patch: %w", err)
		}
	}
	return nil
}

// pin is what go.mod and go.sum say of a module.
type pin struct{ version, sum string }

func (c *component) findPin(gosum []byte, mod string) (p pin, err error) {
	for _, r := range c.mod.Require {
		if r.Mod.Path == mod {
			p.version = r.Mod.Version
		}
	}
	if p.version == "" {
		return p, fmt.Errorf("%s does not require %s; run `go get %s@VERSION` there", filepath.Join(c.dir, "go.mod"), mod, mod)
	}
	if p.sum = findSum(gosum, mod, p.version); p.sum == "" {
		return p, fmt.Errorf("%s has no hash of %s %s; run `go mod download %s` there", filepath.Join(c.dir, "go.sum"), mod, p.version, mod)
	}
	return p, nil
}

// findSum is the hash of a module's content in go.sum, or "".
func findSum(gosum []byte, mod, version string) string {
	for s := bufio.NewScanner(bytes.NewReader(gosum)); s.Scan(); {
		if f := strings.Fields(s.Text()); len(f) == 3 && f[0] == mod && f[1] == version {
			return f[2]
		}
	}
	return ""
}

// Module is a module linked into a program.
type Module struct {
	Path    string
	Version string // empty for what lies in this repository and has none
	Sum     string // the hash of its upstream content, h1:…; empty where Replace is set
	Patched bool   // our patches or files are laid over it
	Replace string // the directory of this repository that stands in for it, or ""
}

// modules reads what the binaries themselves say is linked in.
func (c *component) modules(binaries map[string]string) ([]Module, error) {
	found := map[string]Module{}
	for _, name := range slices.Sorted(maps.Keys(binaries)) {
		info, err := buildinfo.ReadFile(binaries[name])
		if err != nil {
			return nil, err
		}
		for _, m := range append(slices.Clone(info.Deps), &info.Main) {
			found[m.Path] = c.module(m)
		}
	}
	for mod, dir := range c.Patch {
		if _, ok := found[mod]; !ok {
			return nil, fmt.Errorf("nothing of %s is linked in, but %s has patches for it; remove them and their line in component.yaml", mod, filepath.Join(c.dir, dir))
		}
	}
	return sortModules(found), nil
}

func (c *component) module(m *debug.Module) Module {
	if m.Path == c.Module {
		return Module{Path: m.Path, Version: c.version, Sum: c.sum, Patched: c.changesSource()}
	}
	if p, ours := c.patched[m.Path]; ours {
		return Module{Path: m.Path, Version: p.version, Sum: p.sum, Patched: true}
	}
	if dir, ours := c.Replace[m.Path]; ours {
		return Module{Path: m.Path, Version: m.Version, Replace: path.Join("overlays/src", c.name, dir)}
	}
	return plainModule(m)
}

func plainModule(m *debug.Module) Module {
	if m.Replace != nil {
		m = m.Replace
	}
	out := Module{Path: m.Path, Version: m.Version, Sum: m.Sum}
	if out.Version == "(devel)" {
		out.Version = ""
	}
	return out
}

func sortModules(found map[string]Module) []Module {
	return slices.SortedFunc(maps.Values(found), func(a, b Module) int { return cmp.Compare(a.Path, b.Path) })
}

// changesSource says whether anything is laid over the module's source.
func (c *component) changesSource() bool {
	for _, d := range []string{"patches", "files"} {
		if entries, err := os.ReadDir(filepath.Join(c.dir, d)); !errors.Is(err, os.ErrNotExist) && len(entries) > 0 {
			return true
		}
	}
	return len(c.Copy) > 0
}
