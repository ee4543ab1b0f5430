package builder

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"slices"
	"sort"
	"strings"

	"garboard.local/builder/recipe"
	"garboard.local/builder/rootfs"
	"garboard.local/builder/source/debian"
	"garboard.local/init/table"
	"garboard.local/pod"
)

// setuidBits are set-user-ID and set-group-ID (inode(7)).
const setuidBits = 0o6000

const (
	// initPath is PID 1 in the root image; modprobe and pinns are links to it.
	initPath = "/usr/lib/garboard/init"
)

// run makes commands of the host tools.
func (b *build) run(ctx context.Context) func(tool string, args ...string) *exec.Cmd {
	env := toolEnv(os.Environ())
	return func(tool string, args ...string) *exec.Cmd {
		cmd := debian.Command(ctx, b.tools, tool, args...)
		cmd.Env = env
		return cmd
	}
}

// assemble puts the root image together from every source the recipe names.
func (b *build) assemble(ctx context.Context) error {
	b.tree = rootfs.New()
	lib := &library{store: b.Store, debs: b.debs, ctx: ctx}
	for _, f := range []func(*library) error{
		b.addBase, b.addPackages, b.addComponents, b.addOwn, b.addPrograms, b.addKernelModules, b.addFirmware, b.addOverlays, b.addPins, b.addUsers, b.addTable, b.addNodePod,
	} {
		if err := f(lib); err != nil {
			return err
		}
	}
	if err := b.tree.Close(recipe.Triplet(b.arch), lib); err != nil {
		return err
	}
	if lib.err != nil {
		return lib.err
	}
	return b.tree.Check()
}

// addBase adds the directories to mount on and the usr-merge.
func (b *build) addBase(*library) error {
	for _, d := range []struct {
		path string
		mode uint32
		why  string
	}{
		{"/dev", 0o755, "devtmpfs"}, {"/proc", 0o555, "proc"}, {"/sys", 0o555, "sysfs"}, {"/run", 0o755, "tmpfs"},
		{"/tmp", 0o1777, "tmpfs"}, {"/var", 0o755, "tmpfs"}, {"/etc", 0o755, "lower layer of /etc"}, {"/mnt", 0o755, "mounts of pods"},
		{"/root", 0o700, "home of uid 0"}, {"/home", 0o755, "hostPath volumes may name it"},
	} {
		if err := b.tree.Add(rootfs.Entry{Path: d.path, Kind: rootfs.Dir, Mode: d.mode, Origin: "builder", Reason: "mount point: " + d.why}); err != nil {
			return err
		}
	}
	for from, to := range map[string]string{"/bin": "usr/bin", "/sbin": "usr/sbin", "/lib": "usr/lib", "/lib64": "usr/lib64"} {
		if from == "/lib64" && b.arch != "amd64" {
			continue
		}
		if err := b.tree.Add(rootfs.Entry{Path: from, Kind: rootfs.Symlink, Mode: 0o777, Link: to, Origin: "builder", Reason: "usr-merge"}); err != nil {
			return err
		}
	}
	for _, l := range b.recipe.Links {
		if err := b.tree.Add(rootfs.Entry{Path: l.Path, Kind: rootfs.Symlink, Mode: 0o777, Link: l.To, Origin: "recipe", Reason: l.Reason}); err != nil {
			return err
		}
	}
	return nil
}

func (b *build) addPackages(lib *library) error {
	for _, p := range b.recipe.Packages {
		for _, pattern := range p.Files {
			if err := b.addPattern(lib, p, pattern, p.Reason); err != nil {
				return err
			}
		}
		for _, pattern := range p.Dlopen {
			if err := b.addPattern(lib, p, pattern, p.Reason+" (dlopened)"); err != nil {
				return err
			}
		}
		if err := b.concat(lib, p); err != nil {
			return err
		}
	}
	return nil
}

func (b *build) addPattern(lib *library, p recipe.Package, pattern, reason string) error {
	files, err := lib.glob(p.Name, pattern)
	if err != nil {
		return err
	}
	for _, e := range files {
		e.Reason = reason
		if !slices.Contains(p.Setuid, "/"+e.Path) {
			e.Mode &^= setuidBits
		}
		if err := b.tree.Add(e); err != nil {
			return err
		}
	}
	return nil
}

// concat joins files of a package into one, in the order of their names, as
// Debian's ca-certificates does when it is installed.
func (b *build) concat(lib *library, p recipe.Package) error {
	for target, pattern := range p.Concat {
		files, err := lib.glob(p.Name, pattern)
		if err != nil {
			return err
		}
		var all bytes.Buffer
		for _, e := range files {
			part, err := os.ReadFile(e.Source())
			if err != nil {
				return err
			}
			all.Write(bytes.TrimSpace(part))
			all.WriteByte('\n')
		}
		if err := b.tree.Add(rootfs.FromBytes(target, 0o644, all.Bytes(), files[0].Origin, p.Reason)); err != nil {
			return err
		}
	}
	return nil
}

func (b *build) addComponents(*library) error {
	for _, c := range b.recipe.Components {
		part := b.parts[c.Name]
		for name, target := range c.Files {
			src, ok := part.Binaries[name]
			if !ok {
				return fmt.Errorf("recipe %s: component %s has no binary %q; it has %s", b.recipe.File, c.Name, name, strings.Join(keys(part.Binaries), ", "))
			}
			e, err := rootfs.FromFile(target, 0o755, src, "", "component "+c.Name+" "+part.Version, c.Reason)
			if err != nil {
				return err
			}
			if err := b.tree.Add(e); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *build) addOwn(*library) error {
	entries := []rootfs.Entry{
		rootfs.FromBytes(initPath, 0o755, nil, "garboard "+initProgram, "PID 1 binds its own file here: one copy in the image and in memory"),
		{Path: "/usr/sbin/modprobe", Kind: rootfs.Symlink, Mode: 0o777, Link: "../lib/garboard/init", Origin: "garboard", Reason: "the kernel runs /sbin/modprobe to load modules on demand"},
	}
	for _, e := range append(entries, b.images.root...) {
		if err := b.tree.Add(e); err != nil {
			return err
		}
	}
	return nil
}

func (b *build) addKernelModules(*library) error {
	dir := "/usr/lib/modules/" + b.kernel.Version
	origin := b.kernel.Origin
	for _, m := range b.kernel.Modules {
		e, err := rootfs.FromFile(path.Join(dir, m.File), 0o644, b.kernel.File(m.File), "", origin, m.Reason)
		if err != nil {
			return err
		}
		if err := b.tree.Add(e); err != nil {
			return err
		}
	}
	for _, f := range b.kernel.Index {
		e, err := rootfs.FromFile(path.Join(dir, f), 0o644, b.kernel.File(f), "", "depmod", "index of the kernel modules")
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := b.tree.Add(e); err != nil {
			return err
		}
	}
	return nil
}

// addOverlays lays directories of the repository over the tree.
func (b *build) addOverlays(*library) error {
	for _, o := range b.recipe.Overlays {
		if err := walkOverlay(o, b.tree.Add); err != nil {
			return fmt.Errorf("overlay %s: %w", o.Path, err)
		}
	}
	return nil
}

// addTable compiles the services and the rest of what PID 1 must know.
func (b *build) addTable(*library) error {
	compiled, err := pod.Compile(b.recipe.Services, pod.Node{Arch: b.arch, Kernel: b.kernel.Version}, b.serviceImage)
	if err != nil {
		return err
	}
	services := compiled.Services
	b.services = services
	if err := errors.Join(b.addVolumes(compiled), b.addServiceRoots(compiled)); err != nil {
		return err
	}
	t := &table.Table{
		Version: 1, Name: b.recipe.Name + "-" + b.arch, BuildTime: b.epoch, Hostname: b.recipe.Hostname, NTP: b.recipe.NTP, Watchdog: b.recipe.Watchdog,
		Modules: b.kernel.Load, Services: services, Volumes: compiled.Volumes,
	}
	for _, s := range b.recipe.Sysctls {
		t.Sysctls = append(t.Sysctls, table.Sysctl{Key: s.Key, Value: s.Value, Optional: s.Optional})
	}
	for _, d := range b.recipe.Dirs {
		perm, err := d.Perm()
		if err != nil {
			return err
		}
		own, err := b.owner(d.Owner)
		if err != nil {
			return fmt.Errorf("recipe %s: directory %s: %w", b.recipe.File, d.Path, err)
		}
		t.Dirs = append(t.Dirs, table.Dir{Path: d.Path, Mode: table.FileMode(perm), Link: d.Link, UID: own.uid, GID: own.gid})
	}
	js, err := pod.JSON(t)
	if err := errors.Join(err, t.Resolved()); err != nil {
		return err
	}
	for _, s := range services {
		for _, program := range s.Programs() {
			if s.Root == nil && b.tree.Get(program) == nil {
				return fmt.Errorf("service %s: %s is not in the root image", s.Name, program)
			}
		}
	}
	return b.tree.Add(rootfs.FromBytes(table.Path, 0o644, js, "recipe "+b.recipe.Name, "what PID 1 does at boot and which services it runs"))
}

// nodeLogs is the program whose image makes a recipe's node pod.
const nodeLogs = "images/nodelogs"

// addNodePod adds the static pod that shows the services' logs, if the recipe
// has its image and no overlay has put a file of its own there.
func (b *build) addNodePod(*library) error {
	for _, m := range b.recipe.Images {
		if m.Program != nodeLogs || b.tree.Get(pod.NodePodPath) != nil {
			continue
		}
		y, err := pod.NodePod(m.Name, b.services)
		if err != nil {
			return fmt.Errorf("node pod: %w", err)
		}
		return b.tree.Add(rootfs.FromBytes(pod.NodePodPath, 0o644, y, "recipe "+b.recipe.Name, "static pod whose containers show the logs of PID 1 and its services"))
	}
	return nil
}

// programName is how a program of ours is called among the compiled ones.
func programName(dir string) string { return strings.ReplaceAll(dir, "/", "-") }

func keys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}
