package launch

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"garboard.local/init/table"
)

// What a container that is not privileged sees of the kernel: what cri-o closes and
// hides (DefaultReadOnlyPaths and DefaultMaskedPaths of go.podman.io/common, and
// /proc/asound), by the view that it lies in. A name may have a * for its directories.
var (
	closed  = map[string][]string{"/proc": {"bus", "fs", "irq", "sys", "sysrq-trigger"}}
	hidden  = map[string][]string{"/proc": {"acpi", "asound", "interrupts", "kcore", "keys", "latency_stats", "sched_debug", "scsi", "timer_list", "timer_stats"}, "/sys": {"devices/virtual/powercap", "firmware", "fs/selinux", "devices/system/cpu/cpu*/thermal_throttle"}}
	devices = []string{"full", "null", "random", "tty", "urandom", "zero"}
	links   = map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx"}
)

// enter makes the root that PID 1 has mounted this thread's, with the views of the
// kernel that belong into it, and leaves nothing of the node's.
//
// A service can write to its root, and be at it while its probe begins. So no name in it
// is trusted: views stand on directories, not on links, and what lies in a view is
// found from that.
func enter(root string, r *table.Root, volumes []piece) error {
	views, err := viewsOf(root, r.Host)
	if err != nil {
		return err
	}
	var dev []piece
	if !r.Host {
		if dev, err = ownDevices(volumes); err != nil {
			return err
		}
		views = append(views, dev[0])
	}
	top := root + r.Path
	// A mount of its own to stand on, also in a test, where nobody has mounted one.
	if err := unix.Mount(top, top, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("%s: %w", top, err)
	}
	if err := unix.Chdir(top); err != nil {
		return fmt.Errorf("%s: %w", top, err)
	}
	// pivot_root(2), "pivot_root(".", ".")": the old root lies over the new one then.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("make %s the root: %w", top, err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the node's root: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	for _, p := range views {
		if err := p.attachView(); err != nil {
			return err
		}
	}
	if r.Host {
		return nil
	}
	for _, p := range dev[1:] {
		if err := p.attachIn(dev[0]); err != nil {
			return err
		}
	}
	for _, p := range views {
		if err := contain(p); err != nil {
			return err
		}
	}
	return nil
}

// attachView mounts a view on a directory of the root itself.
func (p piece) attachView() error {
	at, err := unix.Open(p.target, unix.O_PATH|unix.O_CLOEXEC|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err == nil {
		defer unix.Close(at)
		err = p.attachTo(at)
	}
	switch {
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("%s: %w: the image is not mounted, and PID 1 has said why when the node booted", p.target, err)
	case err != nil:
		return fmt.Errorf("%s: %w", p.target, err)
	}
	return nil
}

// viewsOf copies what of the node is seen in every root: what the kernel shows, the
// files of /etc that PID 1 writes, and the devices of a root that has not its own.
func viewsOf(root string, host bool) ([]piece, error) {
	list := []struct {
		source, target string
		readOnly       bool
	}{{"/proc", "/proc", false}, {"/sys", "/sys", !host}, {root + table.EtcDir, table.EtcTarget, true}}
	if host {
		list = append(list, struct {
			source, target string
			readOnly       bool
		}{"/dev", "/dev", false})
	}
	var out []piece
	for _, v := range list {
		p, err := copyOf(v.source, "")
		if err != nil {
			return nil, err
		}
		if v.readOnly {
			if err := p.readOnly(); err != nil {
				return nil, fmt.Errorf("%s: %w", v.source, err)
			}
		}
		if !host { // what the node mounts in /sys later would be neither read-only nor hidden
			if err := p.cutOff(); err != nil {
				return nil, fmt.Errorf("%s: %w", v.source, err)
			}
		}
		p.target = v.target
		out = append(out, p)
	}
	return out, nil
}

// ownDevices is a /dev with what every container has, the node's shared memory (services
// share its IPC namespace), and places for the volumes that are mounted in it; and what
// is mounted in that. A device that a process with MKNOD makes there does not work.
func ownDevices(volumes []piece) ([]piece, error) {
	dev, err := newMount("tmpfs", unix.MOUNT_ATTR_NODEV, "mode", "755", "size", "65536")
	if err != nil {
		return nil, fmt.Errorf("/dev: %w", err)
	}
	dev.target = "/dev"
	pts, err := newMount("devpts", 0, "newinstance", "", "ptmxmode", "0666", "mode", "0620")
	if err != nil {
		return nil, fmt.Errorf("/dev/pts: %w", err)
	}
	pts.target = "/dev/pts"
	out := []piece{dev, pts}
	for _, name := range append(devices[:len(devices):len(devices)], "shm") {
		p, err := copyOf("/dev/"+name, "")
		if err != nil {
			return nil, err
		}
		p.target = "/dev/" + name
		out = append(out, p)
	}
	for name, to := range links {
		if err := unix.Symlinkat(to, dev.fd, name); err != nil {
			return nil, fmt.Errorf("/dev/%s: %w", name, err)
		}
	}
	for _, p := range append(out[1:len(out):len(out)], volumes...) {
		if name, ok := strings.CutPrefix(p.target, "/dev/"); ok {
			if err := placeIn(dev.fd, name, isDir(p.fd)); err != nil {
				return nil, fmt.Errorf("%s: %w", p.target, err)
			}
		}
	}
	return out, nil
}

// placeIn makes something to mount over in an empty file system, if it is not there.
func placeIn(fd int, name string, dir bool) error {
	for i, c := range name {
		if c == '/' {
			if err := unix.Mkdirat(fd, name[:i], 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
				return err
			}
		}
	}
	if dir {
		if err := unix.Mkdirat(fd, name, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
		return nil
	}
	at, err := unix.Openat(fd, name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o666)
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	if err != nil {
		return err
	}
	return unix.Close(at)
}

// newMount is a file system that is mounted nowhere, with flags of fsmount(2) beside
// nosuid and noexec, and options by name and value; one without a value is a flag.
func newMount(kind string, flags int, options ...string) (piece, error) {
	fs, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return piece{}, err
	}
	defer unix.Close(fs)
	for i := 0; i+1 < len(options); i += 2 {
		if options[i+1] == "" {
			err = unix.FsconfigSetFlag(fs, options[i])
		} else {
			err = unix.FsconfigSetString(fs, options[i], options[i+1])
		}
		if err != nil {
			return piece{}, fmt.Errorf("%s=%s: %w", options[i], options[i+1], err)
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return piece{}, err
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, flags|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
	return piece{fd: fd, name: kind}, err
}

// contain closes and hides what of a view would change the node or tell too much. What
// a kernel does not have needs neither.
func contain(view piece) error {
	for _, name := range closed[view.target] {
		m, err := copyIn(view.fd, name)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err == nil {
			m.target = view.target + "/" + name
			if err = m.readOnly(); err == nil {
				err = m.attachIn(view)
			}
		}
		if err != nil {
			return fmt.Errorf("close %s/%s: %w", view.target, name, err)
		}
	}
	for _, pattern := range hidden[view.target] {
		names, err := matches(view.fd, pattern)
		for _, name := range names {
			if err == nil {
				err = hide(view, name)
			}
		}
		if err != nil {
			return fmt.Errorf("hide %s/%s: %w", view.target, pattern, err)
		}
	}
	return nil
}

// hide puts an empty directory over a directory of a view, and nothing over a file.
func hide(view piece, name string) error {
	var st unix.Stat_t
	err := unix.Fstatat(view.fd, name, &st, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	var m piece
	switch {
	case err != nil:
		return err
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		m, err = newMount("tmpfs", unix.MOUNT_ATTR_NODEV, "mode", "755", "size", "0")
	default:
		m, err = copyOf("/dev/null", "")
	}
	if err != nil {
		return err
	}
	m.target = view.target + "/" + name
	if err := m.readOnly(); err != nil {
		return err
	}
	return m.attachIn(view)
}

// matches are the names in a view that a pattern means.
func matches(fd int, pattern string) ([]string, error) {
	before, after, ok := strings.Cut(pattern, "*")
	if !ok {
		return []string{pattern}, nil
	}
	parent, prefix := path.Split(before)
	dir, err := unix.Openat(fd, path.Clean(parent), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(dir), parent)
	defer f.Close()
	list, err := f.Readdirnames(-1)
	var out []string
	for _, name := range list {
		if strings.HasPrefix(name, prefix) {
			out = append(out, parent+name+after)
		}
	}
	return out, err
}
