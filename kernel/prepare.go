package kernel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"garboard.local/builder/recipe"
	"garboard.local/builder/store"
)

// Kernel is what a node uses of a kernel.
type Kernel struct {
	Version string   `json:"version"` // uname -r
	Origin  string   `json:"origin"`  // "deb linux-image-6.12... 6.12.1-1", for the manifest
	Cmdline string   `json:"cmdline,omitempty"`
	Notes   []string `json:"notes,omitempty"` // what a node on it goes without
	Boot    []Module `json:"boot"`            // in the order in which they must be loaded
	Disks   []Module `json:"disks"`           // Boot, and the drivers of disks; see DiskFile
	Load    []string `json:"load"`            // names, for PID 1 at every boot
	Modules []Module `json:"modules"`         // every module in the root image
	Index   []string `json:"index"`           // file names beside the modules that depmod made
	// Firmware is what the modules, and the drivers in the kernel, may ask for.
	Firmware []Firmware `json:"firmware,omitempty"`
	// Dir holds vmlinuz and lib/modules/<version>/.
	Dir string `json:"-"`
}

// Vmlinuz is the kernel's path on the build host.
func (k *Kernel) Vmlinuz() string { return filepath.Join(k.Dir, "vmlinuz") }

// File is the path on the build host of a file below /usr/lib/modules/<version>.
func (k *Kernel) File(rel string) string {
	return filepath.Join(k.Dir, "lib/modules", k.Version, rel)
}

// DiskFile is the path on the build host of a module of Disks.
func (k *Kernel) DiskFile(rel string) string { return filepath.Join(k.Dir, "disks", rel) }

// Run makes the command that runs a host tool.
type Run func(tool string, args ...string) *exec.Cmd

// Prepare unpacks the modules that the recipe names and those that every node needs,
// with what they depend on, and has depmod index them. They are stored decompressed, and otherwise as they
// came, a signature at their end included: the root image compresses them, and a
// node need not run xz at boot.
// A kernel that lacks what a node of the architecture needs is an error.
func Prepare(ctx context.Context, st *store.Store, run Run, toolKey, arch string, src *Source, want recipe.Kernel) (*Kernel, error) {
	wantKey, err := json.Marshal(want)
	if err != nil {
		return nil, err
	}
	key := store.Key("kernel 7", src.Key, toolKey, arch, string(requirements), string(wantKey))
	dir, _, err := st.Action(ctx, key, func(ctx context.Context, dir string) error {
		if err := prepare(ctx, dir, run, arch, src, want); err != nil {
			return fmt.Errorf("kernel %s (%s): %w", src.Version, src.Origin, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(filepath.Join(dir, "kernel.json"))
	if err != nil {
		return nil, err
	}
	k := &Kernel{}
	if err := json.Unmarshal(b, k); err != nil {
		return nil, err
	}
	k.Dir = dir
	return k, nil
}

func prepare(ctx context.Context, dir string, run Run, arch string, src *Source, want recipe.Kernel) error {
	k := &Kernel{Version: src.Version, Origin: src.Origin, Cmdline: src.Cmdline, Dir: dir}
	if err := copyFile(src.Vmlinuz, k.Vmlinuz()); err != nil {
		return err
	}
	x, err := scan(ctx, run, k.Version, src.Modules)
	if err != nil {
		return err
	}
	if err := k.check(arch, src, x); err != nil {
		return err
	}
	if k.Boot, err = x.closure(want.Boot); err != nil {
		return err
	}
	if k.Disks, err = x.closure(slices.Concat(want.Boot, want.Disks)); err != nil {
		return err
	}
	load, err := x.closure(want.Load)
	if err != nil {
		return err
	}
	for _, m := range load {
		k.Load = append(k.Load, m.Name)
	}
	// Boot modules are in the root image too: the kernel may ask for one again.
	needed, err := neededModules(arch)
	if err != nil {
		return err
	}
	wanted := slices.Concat(want.Boot, want.Load, want.Available, needed)
	if k.Modules, err = x.closure(wanted); err != nil {
		return err
	}
	for _, m := range k.Modules {
		if err := unpack(src.Modules[m.packed], k.File(m.File)); err != nil {
			return fmt.Errorf("module %s: %w", m.Name, err)
		}
	}
	for _, f := range []string{"modules.builtin", "modules.builtin.modinfo", "modules.order"} {
		if src.Modules[f] != "" {
			if err := copyFile(src.Modules[f], k.File(f)); err != nil {
				return err
			}
		}
	}
	if err := depmod(ctx, run, dir, k.Version); err != nil {
		return err
	}
	for _, m := range k.Disks { // after depmod, which must not count on them
		if err := unpack(src.Modules[m.packed], k.DiskFile(m.File)); err != nil {
			return fmt.Errorf("module %s: %w", m.Name, err)
		}
	}
	if k.Firmware, err = k.firmware(); err != nil {
		return err
	}
	k.Index = []string{"modules.dep", "modules.alias", "modules.softdep", "modules.builtin", "modules.builtin.modinfo"}
	b, err := json.MarshalIndent(k, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "kernel.json"), b, 0o644)
}

// check refuses a kernel that no node runs on, and notes what a node goes without.
func (k *Kernel) check(arch string, src *Source, x *index) error {
	var config Config
	if src.Config != nil {
		var err error
		if config, err = ReadConfig(src.Config); err != nil {
			return err
		}
	} else {
		k.Notes = append(k.Notes, "its configuration could not be checked, only its modules: "+src.Unknown)
	}
	missing, lost, err := Check(arch, config, x)
	if err != nil {
		return err
	}
	for _, g := range lost {
		k.Notes = append(k.Notes, g.String())
	}
	return Unfit(missing)
}

// Unfit is the error for what a kernel lacks; nil if it lacks nothing.
func Unfit(missing []Gap) error {
	if len(missing) == 0 {
		return nil
	}
	s := "it lacks what a node needs:"
	for _, g := range missing {
		s += "\n  " + g.String()
	}
	return errors.New(s + "\nchoose another kernel, or build one with these options (docs/kernels.md)")
}

// scan has depmod index every module of the package.
func scan(ctx context.Context, run Run, version string, all map[string]string) (*index, error) {
	tmp, err := os.MkdirTemp("", "garboard-depmod-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	base := filepath.Join(tmp, "lib/modules", version)
	if err := os.MkdirAll(base, 0o755); err != nil {
		return nil, err
	}
	for rel, src := range all {
		to := filepath.Join(base, rel)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return nil, err
		}
		if err := os.Symlink(src, to); err != nil {
			return nil, err
		}
	}
	if err := depmod(ctx, run, tmp, version); err != nil {
		return nil, err
	}
	var r [4]io.Reader
	for i, f := range []string{"modules.dep", "modules.softdep", "modules.alias", "modules.builtin"} {
		file, err := os.Open(filepath.Join(base, f))
		if errors.Is(err, os.ErrNotExist) && all[f] == "" && f == "modules.builtin" {
			r[i] = strings.NewReader("")
			continue
		}
		if err != nil {
			return nil, err
		}
		defer file.Close()
		r[i] = file
	}
	x, err := readIndex(r[0], r[1], r[2], r[3])
	if err == nil {
		x.complete = all["modules.builtin"] != ""
	}
	return x, err
}

func depmod(ctx context.Context, run Run, dir, version string) error {
	cmd := run("depmod", "-b", dir, version)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("depmod: %w: %s", err, out)
	}
	return ctx.Err()
}

// unpack writes a module decompressed.
func unpack(from, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := decompress(f)
	if err != nil {
		return err
	}
	return write(r, to)
}

func copyFile(from, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	return write(f, to)
}

func write(r io.Reader, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	w, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return errors.Join(err, w.Close())
}
