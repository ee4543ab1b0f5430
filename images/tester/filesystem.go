package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Magic numbers of linux/magic.h.
const (
	magicEROFS   = 0xE0F5E1E2
	magicOverlay = 0x794c7630
	magicTmpfs   = 0x01021994
)

// checkRoot proves that the node's root is a read-only EROFS mount, /etc
// writable above it and /var too, seen through the hostPath mount of /.
func checkRoot(host string) error {
	for _, want := range []struct {
		path  string
		magic int64
		name  string
	}{
		{"/usr", magicEROFS, "EROFS"}, {"/etc", magicOverlay, "overlay"},
		{"/var", magicTmpfs, "tmpfs"}, {"/run", magicTmpfs, "tmpfs"},
	} {
		var st syscall.Statfs_t
		path := filepath.Join(host, want.path)
		if err := syscall.Statfs(path, &st); err != nil {
			return fmt.Errorf("statfs %s: %w", path, err)
		}
		if int64(st.Type)&0xffffffff != want.magic {
			return fmt.Errorf("%s of the node is of file system type %#x, not %s", want.path, st.Type, want.name)
		}
	}
	for _, path := range []string{"/garboard-test", "/usr/garboard-test", "/usr/bin/garboard-test"} {
		err := os.WriteFile(filepath.Join(host, path), nil, 0o600)
		if !errors.Is(err, syscall.EROFS) {
			return fmt.Errorf("writing %s: got %v, want the error of a read-only file system", path, err)
		}
	}
	for _, path := range []string{"/etc/garboard-test", "/var/garboard-test", "/etc/hosts"} {
		if err := appendTo(filepath.Join(host, path), "# written by the tester\n"); err != nil {
			return fmt.Errorf("the node's %s is not writable: %w", path, err)
		}
	}
	return nil
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// checkPivot proves that a container's root came about by pivot_root: it is
// another file system than the node's, the node's root is no longer mounted
// below it, and PID 1's own root is a mount, not the kernel's rootfs, which
// cannot be pivoted away from.
func checkPivot(proc, host string) error {
	var own, node syscall.Stat_t
	if err := errors.Join(syscall.Stat("/", &own), syscall.Stat(host, &node)); err != nil {
		return err
	}
	if own.Dev == node.Dev {
		return fmt.Errorf("the container's / is on the node's root file system (device %#x)", own.Dev)
	}
	self, err := rootMounts(filepath.Join(proc, "self/mountinfo"))
	if err != nil {
		return err
	}
	if len(self) != 1 || self[0] != "overlay" {
		return fmt.Errorf("the container's / is %v, want one overlay mount", self)
	}
	init, err := rootMounts(filepath.Join(proc, "1/mountinfo"))
	if err != nil {
		return err
	}
	if len(init) == 0 || init[len(init)-1] != "erofs" {
		return fmt.Errorf("PID 1's / is %v, want an erofs mount", init)
	}
	return nil
}

// rootMounts lists the file system types mounted at / (proc_pid_mountinfo(5)).
func rootMounts(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var types []string
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		before, after, ok := strings.Cut(lines.Text(), " - ")
		b, a := strings.Fields(before), strings.Fields(after)
		if !ok || len(b) < 5 || len(a) < 1 {
			return nil, fmt.Errorf("%s: cannot read %q", path, lines.Text())
		}
		if b[4] == "/" {
			types = append(types, a[0])
		}
	}
	return types, lines.Err()
}

// onDemand are file systems whose modules a node may hold without loading them.
var onDemand = []string{"iso9660", "vfat", "fuse", "squashfs", "xfs", "btrfs", "9p"}

// checkModprobe lets the kernel itself ask for a module: mount(2) of a file
// system type that is not registered makes it run /sbin/modprobe.
func checkModprobe(proc, host string, say func(string, ...any)) error {
	release, err := os.ReadFile(filepath.Join(proc, "sys/kernel/osrelease"))
	if err != nil {
		return err
	}
	index := filepath.Join(host, "usr/lib/modules", strings.TrimSpace(string(release)), "modules.alias")
	aliases, err := os.ReadFile(index)
	if err != nil {
		return err
	}
	for _, kind := range onDemand {
		known, err := registered(proc, kind)
		if err != nil {
			return err
		}
		if known || !strings.Contains(string(aliases), "\nalias fs-"+kind+" ") {
			continue
		}
		dir, err := os.MkdirTemp("/", "mount-") // the image has no /tmp
		if err != nil {
			return err
		}
		// The mount fails, for there is no such device; the type is looked up first.
		mountErr := syscall.Mount("none", dir, kind, 0, "")
		if known, err = registered(proc, kind); err != nil || !known {
			return errors.Join(err, fmt.Errorf("the kernel's request for file system %s loaded no module (mount: %v)", kind, mountErr))
		}
		say("tester: mount -t %s made the kernel load its module", kind)
		return nil
	}
	return fmt.Errorf("%s has none of the file systems %v that is not loaded yet: nothing to prove modprobe with", index, onDemand)
}

func registered(proc, kind string) (bool, error) {
	b, err := os.ReadFile(filepath.Join(proc, "filesystems"))
	if err != nil {
		return false, err
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 0 && f[len(f)-1] == kind {
			return true, nil
		}
	}
	return false, nil
}

// within repeats check until it returns nil, or its last error after d.
func within(d time.Duration, check func() error) error {
	deadline := time.Now().Add(d)
	for {
		err := check()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(250 * time.Millisecond)
	}
}

// checkHierarchy proves that the cgroup hierarchy still has the options that PID 1
// gave it, beside a privileged container, which the tester's own is.
func checkHierarchy(proc string) error {
	b, err := os.ReadFile(filepath.Join(proc, "1/mountinfo"))
	if err != nil {
		return err
	}
	all, err := parseMounts(string(b))
	if err != nil {
		return err
	}
	for _, m := range all {
		if m.Target == "/sys/fs/cgroup" && m.Type == "cgroup2" {
			if !slices.Contains(strings.Split(m.Super, ","), "nsdelegate") {
				return fmt.Errorf("cgroup2 has the options %s: a container took nsdelegate away", m.Super)
			}
			return nil
		}
	}
	return errors.New("PID 1 has no cgroup2 on /sys/fs/cgroup")
}
