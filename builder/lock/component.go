package lock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"

	"garboard.local/builder/store"
)

// readComponent pins the component whose go.mod and go.sum are in dir: its module
// is the one that go.mod's tool directives are about.
func readComponent(dir string) (Component, error) {
	var c Component
	path := filepath.Join(dir, "go.mod")
	b, err := os.ReadFile(path)
	if err != nil {
		return c, err
	}
	f, err := modfile.Parse(path, b, nil)
	if err != nil {
		return c, err
	}
	if len(f.Tool) == 0 {
		return c, fmt.Errorf("%s: it has no tool directive that names the command to build", path)
	}
	for _, t := range f.Tool {
		module, version := "", ""
		for _, r := range f.Require {
			p := r.Mod.Path
			if (t.Path == p || strings.HasPrefix(t.Path, p+"/")) && len(p) > len(module) {
				module, version = p, r.Mod.Version
			}
		}
		switch {
		case module == "":
			return c, fmt.Errorf("%s: no required module holds the tool %s", path, t.Path)
		case c.Module != "" && c.Module != module:
			return c, fmt.Errorf("%s: its tools are of two modules, %s and %s: a component is one", path, c.Module, module)
		}
		c.Module, c.Version = module, version
	}
	sums, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	if err != nil {
		return c, err
	}
	for line := range strings.Lines(string(sums)) {
		if w := strings.Fields(line); len(w) == 3 && w[0] == c.Module && w[1] == c.Version {
			c.Sum = w[2]
		}
	}
	if c.Sum == "" {
		return c, fmt.Errorf("%s: no sum of %s %s; run `go mod tidy` there", filepath.Join(dir, "go.sum"), c.Module, c.Version)
	}
	if c.GoMod, err = store.HashFile(path); err != nil {
		return c, err
	}
	c.GoSum, err = store.HashFile(filepath.Join(dir, "go.sum"))
	return c, err
}

// readComponents pins every directory below dir that holds a go.mod.
func readComponents(dir string) (map[string]Component, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("lock: components: %w", err)
	}
	out := map[string]Component{}
	for _, e := range entries {
		d := filepath.Join(dir, e.Name())
		if _, err := os.Stat(filepath.Join(d, "go.mod")); errors.Is(err, os.ErrNotExist) {
			continue
		}
		c, err := readComponent(d)
		if err != nil {
			return nil, fmt.Errorf("lock: component %s: %w", e.Name(), err)
		}
		out[e.Name()] = c
	}
	return out, nil
}

// VerifyComponent checks that the go.mod and go.sum in dir are those that the
// lock pins for the component.
func (l *Lock) VerifyComponent(name, dir string) error {
	locked, ok := l.Components[name]
	if !ok {
		return fmt.Errorf("lock: component %q is not in garboard.lock; run `garboard lock`", name)
	}
	c, err := readComponent(dir)
	if err != nil {
		return fmt.Errorf("lock: component %s: %w", name, err)
	}
	switch {
	case c.Module != locked.Module || c.Version != locked.Version:
		return fmt.Errorf("lock: component %s: %s requires %s %s, the lock has %s %s; run `garboard lock`", name, dir, c.Module, c.Version, locked.Module, locked.Version)
	case c.Sum != locked.Sum:
		return fmt.Errorf("lock: component %s: %s/go.sum has %s for %s %s, the lock has %s; if that is meant, run `garboard lock`", name, dir, c.Sum, c.Module, c.Version, locked.Sum)
	case c.GoMod != locked.GoMod || c.GoSum != locked.GoSum:
		return fmt.Errorf("lock: component %s: go.mod or go.sum in %s is not the one that was locked; run `garboard lock`", name, dir)
	}
	return nil
}
