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
	"regexp"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"garboard.local/builder/recipe"
	"garboard.local/builder/source/debian"
	"garboard.local/builder/store"
)

// Kernel is what a node uses of a kernel package.
type Kernel struct {
	Version string   `json:"version"` // uname -r
	Package string   `json:"package"` // "linux-image-6.12... 6.12.1-1", for the manifest
	Boot    []Module `json:"boot"`    // in the order in which they must be loaded
	Disks   []Module `json:"disks"`   // Boot, and the drivers of disks; see DiskFile
	Load    []string `json:"load"`    // names, for PID 1 at every boot
	Modules []Module `json:"modules"` // every module in the root image
	Index   []string `json:"index"`   // file names beside the modules that depmod made
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

var imageRE = regexp.MustCompile(`^linux-image-[0-9]`)

// Find picks the kernel image among the packages that a recipe's kernel package leads to.
func Find(debs []debian.Package) (debian.Package, error) {
	for _, d := range debs {
		if imageRE.MatchString(d.Name) {
			return d, nil
		}
	}
	return debian.Package{}, errors.New("kernel.package: neither it nor what it depends on is a kernel image (linux-image-<version>)")
}

// Run makes the command that runs a host tool.
type Run func(tool string, args ...string) *exec.Cmd

// Prepare unpacks the modules that the recipe names, with what they depend on,
// and has depmod index them. They are stored decompressed: the root image
// compresses them, and a node need not run xz at boot.
func Prepare(ctx context.Context, st *store.Store, run Run, toolKey string, deb debian.Package, want recipe.Kernel) (*Kernel, error) {
	files, err := debian.Files(ctx, st, deb)
	if err != nil {
		return nil, err
	}
	wantKey, err := json.Marshal(want)
	if err != nil {
		return nil, err
	}
	key := store.Key("kernel 5", deb.SHA256, toolKey, required, string(wantKey))
	dir, _, err := st.Action(ctx, key, func(ctx context.Context, dir string) error {
		if err := prepare(ctx, dir, run, files, deb, want); err != nil {
			return fmt.Errorf("kernel %s: %w", deb.Name, err)
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

func prepare(ctx context.Context, dir string, run Run, files *debian.Contents, deb debian.Package, want recipe.Kernel) error {
	k := &Kernel{Version: strings.TrimPrefix(deb.Name, "linux-image-"), Package: deb.Name + " " + deb.Version, Dir: dir}
	all := map[string]string{} // path below /usr/lib/modules/<version> -> path on this host
	for _, f := range files.Files {
		p := strings.TrimPrefix(strings.TrimPrefix(f.Path, "usr/"), "lib/modules/"+k.Version+"/")
		switch {
		case f.Type != "file":
		case f.Path == "boot/vmlinuz-"+k.Version:
			if err := copyFile(files.Content(f), k.Vmlinuz()); err != nil {
				return err
			}
		case f.Path == "boot/config-"+k.Version:
			if err := checkConfigFile(files.Content(f)); err != nil {
				return err
			}
		case p != strings.TrimPrefix(f.Path, "usr/"):
			all[p] = files.Content(f)
		}
	}
	if _, err := os.Stat(k.Vmlinuz()); err != nil {
		return errors.New("the package holds no /boot/vmlinuz-" + k.Version)
	}
	x, err := scan(ctx, run, k.Version, all)
	if err != nil {
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
	wanted := slices.Concat(want.Boot, want.Load, want.Available)
	if k.Modules, err = x.closure(wanted); err != nil {
		return err
	}
	for _, m := range k.Modules {
		if err := unpack(all[m.packed], m.packed, k.File(m.File)); err != nil {
			return fmt.Errorf("module %s: %w", m.Name, err)
		}
	}
	for _, f := range []string{"modules.builtin", "modules.builtin.modinfo", "modules.order"} {
		if all[f] != "" {
			if err := copyFile(all[f], k.File(f)); err != nil {
				return err
			}
		}
	}
	if err := depmod(ctx, run, dir, k.Version); err != nil {
		return err
	}
	for _, m := range k.Disks { // after depmod, which must not count on them
		if err := unpack(all[m.packed], m.packed, k.DiskFile(m.File)); err != nil {
			return fmt.Errorf("module %s: %w", m.Name, err)
		}
	}
	k.Index = []string{"modules.dep", "modules.alias", "modules.softdep", "modules.builtin", "modules.builtin.modinfo"}
	b, err := json.MarshalIndent(k, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "kernel.json"), b, 0o644)
}

// scan has depmod index every module of the package.
func scan(ctx context.Context, run Run, version string, all map[string]string) (*index, error) {
	tmp, err := os.MkdirTemp("", "garboard-depmod-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	base := filepath.Join(tmp, "lib/modules", version)
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
	var r [3]io.ReadCloser
	for i, f := range []string{"modules.dep", "modules.softdep", "modules.builtin"} {
		if r[i], err = os.Open(filepath.Join(base, f)); err != nil {
			return nil, err
		}
		defer r[i].Close()
	}
	return readIndex(r[0], r[1], r[2])
}

func depmod(ctx context.Context, run Run, dir, version string) error {
	cmd := run("depmod", "-b", dir, version)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("depmod: %w: %s", err, out)
	}
	return ctx.Err()
}

// unpack writes a module decompressed. The suffix says how it is packed.
func unpack(from, packedName, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	var r io.Reader = f
	switch filepath.Ext(packedName) {
	case ".xz":
		r, err = xz.NewReader(f)
	case ".zst":
		r, err = zstd.NewReader(f)
	}
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

func checkConfigFile(p string) error {
	f, err := os.Open(p)
	if err != nil {
		return err
	}
	defer f.Close()
	return CheckConfig(f)
}
