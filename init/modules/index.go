// Package modules loads kernel modules of the read-only image by name or alias,
// at boot from the node's list and later when the kernel calls /sbin/modprobe.
//
// u-root's kmodule gives modules to the kernel; names are resolved here, because
// kmodule knows neither aliases nor soft dependencies, and looks a name up by
// walking its whole map.
package modules

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"garboard.local/init/rootfs"
)

// ErrNotFound is returned for a name that no module of this kernel answers to.
var ErrNotFound = errors.New("no such module or alias in this image")

// Index is what depmod(8) wrote about the modules of one kernel.
type Index struct {
	dir     string
	load    func(path string) error
	file    map[string]string   // canonical name -> path below dir
	deps    map[string][]string // path -> paths, nearest first
	builtin map[string]bool

	once     sync.Once // the aliases, a long list, are read when first needed
	aliases  aliases
	aliasErr error
	soft     map[string][2][]string // canonical name -> pre, post

	mu   sync.Mutex
	done map[string]error // path -> result of loading it
}

// Open reads the index in dir (/usr/lib/modules/<release>). load gives one
// module file to the kernel; nil means finit_module(2).
func Open(dir string, load func(path string) error) (*Index, error) {
	if load == nil {
		load = rootfs.Insert
	}
	x := &Index{dir: dir, load: load, file: map[string]string{}, deps: map[string][]string{},
		builtin: map[string]bool{}, soft: map[string][2][]string{}, done: map[string]error{}}
	err := eachLine(filepath.Join(dir, "modules.dep"), func(line string) {
		p, deps, ok := strings.Cut(line, ":")
		if !ok {
			return
		}
		x.file[name(p)] = p
		x.deps[p] = strings.Fields(deps)
	})
	if err != nil {
		return nil, fmt.Errorf("modules of this kernel: %w", err)
	}
	err = eachLine(filepath.Join(dir, "modules.builtin"), func(line string) { x.builtin[name(line)] = true })
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	err = eachLine(filepath.Join(dir, "modules.softdep"), func(line string) {
		if m, pre, post, ok := parseSoft(line); ok {
			x.soft[m] = [2][]string{append(x.soft[m][0], pre...), append(x.soft[m][1], post...)}
		}
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return x, nil
}

// name is the kernel's name of a module file: no suffix, underscores.
func name(p string) string {
	n, _, _ := strings.Cut(path.Base(p), ".ko")
	return canonical(n)
}

func canonical(n string) string { return strings.ReplaceAll(n, "-", "_") }

// LoadAll loads every module of the image, before no more can be, except drivers
// of devices: those that the machine has are loaded already. It returns how many
// the kernel has taken; one that it refuses is no fault.
func (x *Index) LoadAll() (loaded int) {
	if err := x.readAliases(); err != nil {
		return 0
	}
	for _, m := range slices.Sorted(maps.Keys(x.file)) {
		if !x.aliases.device[m] && x.loadNamed(m, map[string]bool{}) == nil {
			loaded++
		}
	}
	return loaded
}

// Has says whether the image has a module of that name, or the kernel has it built in.
func (x *Index) Has(n string) bool {
	c := canonical(n)
	return x.builtin[c] || x.file[c] != ""
}

// Load loads the module called n, or every module that has it as an alias, with
// what they depend on.
func (x *Index) Load(n string) error {
	names, err := x.resolve(n)
	if err != nil {
		return err
	}
	// Of several modules behind one alias some may not suit this machine: one
	// that loads is enough, as with modprobe(8).
	var errs []error
	for _, m := range names {
		if err := x.loadNamed(m, map[string]bool{}); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) == len(names) {
		return errors.Join(errs...)
	}
	return nil
}

// resolve returns the canonical names behind n.
func (x *Index) resolve(n string) ([]string, error) {
	c := canonical(n)
	if x.builtin[c] || x.file[c] != "" {
		return []string{c}, nil
	}
	if err := x.readAliases(); err != nil {
		return nil, err
	}
	out := x.aliases.find(c)
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: %w", n, ErrNotFound)
	}
	return out, nil
}

func (x *Index) loadNamed(m string, way map[string]bool) error {
	if x.builtin[m] || way[m] {
		return nil
	}
	way[m] = true
	p := x.file[m]
	if p == "" {
		return fmt.Errorf("%s: %w", m, ErrNotFound)
	}
	soft := x.soft[m]
	for _, s := range soft[0] {
		x.loadSoft(s, way)
	}
	deps := x.deps[p]
	for i := len(deps) - 1; i >= 0; i-- { // depmod lists the nearest first
		if err := x.insert(deps[i]); err != nil {
			return fmt.Errorf("%s: %w", m, err)
		}
	}
	if err := x.insert(p); err != nil {
		return err
	}
	for _, s := range soft[1] {
		x.loadSoft(s, way)
	}
	return nil
}

// loadSoft tries what a module would like to have beside it.
func (x *Index) loadSoft(n string, way map[string]bool) {
	names, err := x.resolve(n)
	if err != nil {
		return
	}
	for _, m := range names {
		_ = x.loadNamed(m, way)
	}
}

func (x *Index) insert(p string) error {
	x.mu.Lock()
	err, ok := x.done[p]
	x.mu.Unlock()
	if ok {
		return err
	}
	file := p
	if !path.IsAbs(file) {
		file = filepath.Join(x.dir, p)
	}
	if err = x.load(file); err != nil {
		err = fmt.Errorf("load %s: %w", path.Base(p), err)
	}
	x.mu.Lock()
	x.done[p] = err
	x.mu.Unlock()
	return err
}

func (x *Index) readAliases() error {
	x.once.Do(func() {
		add := func(line string) {
			f := strings.Fields(line)
			if len(f) == 3 && f[0] == "alias" {
				x.aliases.add(f[1], canonical(f[2]))
			}
		}
		x.aliasErr = eachLine(filepath.Join(x.dir, "modules.alias"), add)
	})
	return x.aliasErr
}

func eachLine(file string, f func(line string)) error {
	r, err := os.Open(file)
	if err != nil {
		return err
	}
	defer r.Close()
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 64<<10), 1<<20)
	for sc.Scan() {
		if line := strings.TrimSpace(sc.Text()); line != "" && line[0] != '#' {
			f(line)
		}
	}
	return sc.Err()
}

// parseSoft reads "softdep NAME pre: A B post: C".
func parseSoft(line string) (module string, pre, post []string, ok bool) {
	f := strings.Fields(line)
	if len(f) < 2 || f[0] != "softdep" {
		return "", nil, nil, false
	}
	var into *[]string
	for _, w := range f[2:] {
		switch {
		case w == "pre:":
			into = &pre
		case w == "post:":
			into = &post
		case into != nil:
			*into = append(*into, w)
		}
	}
	return canonical(f[1]), pre, post, true
}
