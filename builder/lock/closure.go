package lock

import (
	"fmt"
	"maps"
	"slices"

	"garboard.local/builder/source/debian"
)

// Closure returns the locked packages of a node's architecture that the named
// ones need, themselves included, sorted by name.
func (l *Lock) Closure(arch string, names []string) ([]debian.Package, error) {
	return closure("debian.packages."+arch, l.Debian.Packages[arch], names)
}

// ToolClosure is Closure for the tools of a build host of the given architecture.
func (l *Lock) ToolClosure(hostArch string, names []string) ([]debian.Package, error) {
	return closure("tools."+hostArch, l.Tools[hostArch], names)
}

func closure(where string, all []debian.Package, names []string) ([]debian.Package, error) {
	byName := map[string]debian.Package{}
	for _, p := range all {
		byName[p.Name] = p
	}
	in := map[string]debian.Package{}
	var visit func(name, by string) error
	visit = func(name, by string) error {
		if _, ok := in[name]; ok {
			return nil
		}
		p, ok := byName[name]
		if !ok {
			return fmt.Errorf("lock: package %q%s is not in %s of garboard.lock; run `garboard lock`", name, by, where)
		}
		in[name] = p
		for _, d := range p.Depends {
			if err := visit(d, fmt.Sprintf(", which %s needs,", name)); err != nil {
				return err
			}
		}
		return nil
	}
	for _, n := range names {
		if err := visit(n, ""); err != nil {
			return nil, err
		}
	}
	var out []debian.Package
	for _, n := range slices.Sorted(maps.Keys(in)) {
		out = append(out, in[n])
	}
	return out, nil
}
