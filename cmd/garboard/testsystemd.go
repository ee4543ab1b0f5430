package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/xi2/xz"

	"garboard.local/builder"
	"garboard.local/builder/component"
	"garboard.local/builder/image"
	"garboard.local/builder/recipe"
	"garboard.local/builder/rootfs"
	"garboard.local/builder/source/debian"
	"garboard.local/kernel"
	"garboard.local/pod/systemd"
)

// observedImages builds what TestVMSystemd and TestVMServices boot: a node, a Debian
// with systemd, and a node of which PID 1 runs the same pods.
func (g *global) observedImages(ctx context.Context, o builder.Options, flags buildFlags) error {
	flags.outputs = []string{string(recipe.Initramfs)}
	results, err := flags.build(ctx, g, []string{filepath.Join(o.Root, "recipes/observed.yaml"), filepath.Join(o.Root, "recipes/observed-init.yaml")})
	if err != nil {
		return err
	}
	for _, r := range results {
		printResult(os.Stderr, r)
		if r.Recipe != "observed" {
			continue
		}
		if err := systemdImage(ctx, o, flags.output, r.Arch); err != nil {
			return fmt.Errorf("a Debian with systemd for %s: %w", r.Arch, err)
		}
	}
	return nil
}

// systemdTools is the Debian that the tests run generated units on.
var systemdTools = []string{"systemd", "mount"}

// systemdFiles is what of it is in the image: the manager with what it runs, and no
// service but the journal.
var systemdFiles = []recipe.Package{
	{Name: "systemd", Reason: "runs the generated units", Files: []string{
		"/usr/lib/systemd/systemd", "/usr/lib/systemd/systemd-executor", "/usr/lib/systemd/systemd-shutdown",
		"/usr/lib/systemd/systemd-journald", "/usr/lib/systemd/systemd-sysctl",
		"/usr/bin/systemctl", "/usr/bin/journalctl", "/usr/bin/systemd-tmpfiles", "/usr/bin/systemd-sysusers",
		"/usr/lib/systemd/system/*.target", "/usr/lib/systemd/system/*.slice",
		"/usr/lib/systemd/system/systemd-journald.service", "/usr/lib/systemd/system/systemd-journald.socket",
		"/usr/lib/systemd/system/systemd-journald-dev-log.socket", "/usr/lib/systemd/system/systemd-poweroff.service",
		"/usr/lib/systemd/system/sysinit.target.wants/systemd-journald.service", "/usr/lib/systemd/system/sockets.target.wants/systemd-journald*.socket",
	}},
	{Name: "mount", Reason: "systemd's mount units", Files: []string{"/usr/bin/mount", "/usr/bin/umount"}},
}

// systemdImage writes OUTPUT/systemd-ARCH: a Debian with systemd that boots from an
// initramfs and stays there, and the kernel that the test's nodes have. Its units come
// from the test.
func systemdImage(ctx context.Context, o builder.Options, output, arch string) error {
	debs, err := o.Lock.ToolClosure(arch, systemdTools)
	if err != nil {
		return err
	}
	tree, err := builder.FromPackages(ctx, o, arch, debs, systemdFiles)
	if err != nil {
		return err
	}
	own, err := component.Own(ctx, component.Options{Store: o.Store, Progress: o.Progress, RepoRoot: o.Root, GoVersion: goVersion(o.Lock)}, arch,
		map[string]string{"observer": "./images/observer", "probe": "./cmd/garboard-probe"})
	if err != nil {
		return err
	}
	for name, at := range map[string]string{"observer": "/observer", "probe": systemd.DefaultProbePath} {
		e, err := rootfs.FromFile(at, 0o755, own[name].Path, own[name].SHA256, "garboard", "what the units run")
		if err := errors.Join(err, tree.Add(e)); err != nil {
			return err
		}
	}
	for _, f := range []struct{ path, content string }{
		{"/etc/machine-id", "67617262d61f4e6f8a0173797374656d\n"}, // one that is there: no first boot
		{"/etc/os-release", "ID=debian\nNAME=Debian\n"},
		{"/etc/hostname", "garboard\n"},
		{"/etc/passwd", "root:x:0:0:root:/root:/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\nalice:x:1000:1000::/home/alice:/bin/sh\n"},
		// Of the pods' numbers one user and one group is somebody's, the others are to be made.
		{"/etc/group", "root:x:0:\ntty:x:5:\nsystemd-journal:x:999:\nnogroup:x:65534:\nalice:x:1000:\nstaff:x:3000:\n"},
		{"/etc/fstab", ""},
	} {
		if err := tree.Add(rootfs.FromBytes(f.path, 0o644, []byte(f.content), "garboard", "what Debian makes at installation")); err != nil {
			return err
		}
	}
	for path, mode := range map[string]uint32{"/var/lib/observed": 0o1777, "/var/lib/observed-host": 0o755} {
		if err := tree.Add(rootfs.Entry{Path: path, Kind: rootfs.Dir, Mode: mode, Origin: "garboard", Reason: "where observers write, and what they mount"}); err != nil {
			return err
		}
	}
	file, _, err := image.Initramfs(ctx, o.Store, nil, "", tree, o.Lock.Time)
	if err != nil {
		return err
	}
	dir := filepath.Join(output, "systemd-"+arch)
	kernel := filepath.Join(output, "observed-"+arch, builder.KernelName)
	overlay, err := overlayModule(ctx, o, arch)
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(dir, 0o755),
		os.WriteFile(filepath.Join(dir, "overlay.ko"), overlay, 0o644), // for containers that have images
		copyTo(filepath.Join(dir, builder.InitramfsName), file), copyTo(filepath.Join(dir, builder.KernelName), kernel),
		copyTo(filepath.Join(dir, "observer"), own["observer"].Path), // of which a test makes an image
		os.WriteFile(filepath.Join(dir, builder.CmdlineName), []byte("rdinit=/usr/lib/systemd/systemd systemd.unit=multi-user.target systemd.show_status=no quiet loglevel=5\n"), 0o644))
}

// overlayModule is the module of that name out of the package of the nodes' kernel.
func overlayModule(ctx context.Context, o builder.Options, arch string) ([]byte, error) {
	debs, err := o.Lock.Closure(arch, []string{"linux-image-cloud-" + arch})
	if err != nil {
		return nil, err
	}
	deb, err := kernel.Find(debs)
	if err != nil {
		return nil, err
	}
	if err := o.Archive.FetchAll(ctx, []debian.Package{deb}); err != nil {
		return nil, err
	}
	src, err := kernel.FromDebian(ctx, o.Store, deb)
	if err != nil {
		return nil, err
	}
	const name = "kernel/fs/overlayfs/overlay.ko.xz"
	f, err := os.Open(src.Modules[name])
	if err != nil {
		return nil, fmt.Errorf("%s has no %s: %w", deb.Name, name, err)
	}
	defer f.Close()
	r, err := xz.NewReader(f, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return io.ReadAll(r)
}

func copyTo(to, from string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o644)
}
