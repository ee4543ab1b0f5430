// Package kernel takes from a kernel, out of a Debian package or an OCI image,
// what a node uses of it: the kernel, the modules a recipe names with all they
// depend on, and an index of them made by the real depmod. It knows which options
// a node needs (requirements.yaml) and refuses a kernel that lacks one.
package kernel

import (
	"bufio"
	"fmt"
	"io"
	"path"
	"sort"
	"strings"

	"garboard.local/builder/recipe"
)

// name is a module's canonical name: kernel/fs/erofs/erofs.ko.xz is "erofs";
// the kernel takes - and _ for the same.
func name(file string) string {
	base, _, _ := strings.Cut(path.Base(file), ".ko")
	return strings.ReplaceAll(base, "-", "_")
}

// index is what depmod and the package say about the modules of a kernel.
type index struct {
	files   map[string]string   // name -> path below /usr/lib/modules/<version>
	deps    map[string][]string // name -> names that must be loaded before, nearest first
	soft    map[string][]string // name -> names or aliases that are wanted along with it
	alias   map[string][]string // what a soft dependency may be called -> names
	builtin map[string]bool

	complete bool // builtin is all there is
}

// Has implements Modules.
func (x *index) Has(n string) bool {
	n = strings.ReplaceAll(n, "-", "_")
	return x.files[n] != "" || x.builtin[n]
}

// Complete implements Modules.
func (x *index) Complete() bool { return x.complete }

func readIndex(dep, softdep, alias, builtin io.Reader) (*index, error) {
	x := &index{files: map[string]string{}, deps: map[string][]string{}, soft: map[string][]string{}, alias: map[string][]string{}, builtin: map[string]bool{}}
	err := lines(dep, func(l string) error {
		file, rest, ok := strings.Cut(l, ":")
		if !ok {
			return fmt.Errorf("modules.dep: %q has no colon", l)
		}
		n := name(file)
		x.files[n] = file
		for _, d := range strings.Fields(rest) {
			x.deps[n] = append(x.deps[n], name(d))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = lines(softdep, func(l string) error {
		f := strings.Fields(l)
		if len(f) < 3 || f[0] != "softdep" {
			return nil
		}
		for _, w := range f[2:] {
			if !strings.HasSuffix(w, ":") {
				x.soft[name(f[1])] = append(x.soft[name(f[1])], name(w))
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = lines(alias, func(l string) error {
		if f := strings.Fields(l); len(f) == 3 && f[0] == "alias" && !strings.ContainsAny(f[1], ":*?[") { // those with a colon are devices'
			a := strings.ReplaceAll(f[1], "-", "_")
			x.alias[a] = append(x.alias[a], name(f[2]))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return x, lines(builtin, func(l string) error { x.builtin[name(l)] = true; return nil })
}

func lines(r io.Reader, f func(string) error) error {
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		if l := strings.TrimSpace(s.Text()); l != "" && l[0] != '#' {
			if err := f(l); err != nil {
				return err
			}
		}
	}
	return s.Err()
}

// Module is one module file that the node carries.
type Module struct {
	Name   string `json:"name"`
	File   string `json:"file"` // below /usr/lib/modules/<version>, without the compression's suffix
	Reason string `json:"reason"`
	// Needs are the names of modules that must be loaded before.
	Needs  []string `json:"needs,omitempty"`
	packed string   // the file as the package has it
}

// closure lists what the wanted modules need, dependencies first, each once.
func (x *index) closure(want []recipe.Module) ([]Module, error) {
	var out []Module
	seen := map[string]bool{}
	var visit func(n, reason string)
	visit = func(n, reason string) {
		if seen[n] || x.builtin[n] || x.files[n] == "" {
			return
		}
		seen[n] = true
		for i := len(x.deps[n]) - 1; i >= 0; i-- {
			visit(x.deps[n][i], "needed by "+n)
		}
		for _, s := range x.soft[n] {
			visit(s, "wanted along with "+n)
			if x.files[s] == "" { // the checksums that a file system asks the crypto layer for are only known by their alias
				for _, m := range x.alias[s] {
					visit(m, "wanted along with "+n+" as "+s)
				}
			}
		}
		packed := x.files[n]
		stem, _, _ := strings.Cut(packed, ".ko")
		out = append(out, Module{Name: n, File: stem + ".ko", Reason: reason, Needs: x.deps[n], packed: packed})
	}
	for _, w := range want {
		names := x.match(w.Name)
		if len(names) == 0 && !w.Optional {
			return nil, fmt.Errorf("kernel module %q is neither in this kernel's package nor built in", w.Name)
		}
		for _, n := range names {
			visit(n, w.Reason)
		}
	}
	return out, nil
}

// match lists the modules a recipe's word means: a name, a name with
// wildcards, or a directory below kernel/ with a slash at its end.
func (x *index) match(word string) []string {
	plain := strings.ReplaceAll(word, "-", "_")
	if x.builtin[plain] || x.files[plain] != "" {
		return []string{plain}
	}
	var out []string
	for n, f := range x.files {
		if strings.HasSuffix(word, "/") {
			if strings.HasPrefix(f, "kernel/"+word) {
				out = append(out, n)
			}
		} else if ok, _ := path.Match(plain, n); ok {
			out = append(out, n)
		}
	}
	sort.Strings(out)
	return out
}
