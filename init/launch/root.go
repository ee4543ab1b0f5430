package launch

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"garboard.local/init/table"
)

// What a container that is not privileged sees of the kernel, as container runtimes
// have it by default (OCI runtime-spec, config-linux.md; the lists are those of runc
// and crun).
var (
	closed = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
	hidden = []string{"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug",
		"/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/sys/devices/virtual/powercap", "/sys/firmware"}
	devices = []string{"full", "null", "random", "tty", "urandom", "zero"}
	links   = map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx"}
)

// enter makes the root that PID 1 has mounted this thread's, with the views of the
// kernel that belong into it, and leaves nothing of the node's.
func enter(root string, r *table.Root) error {
	views, err := viewsOf(root, r.Host)
	if err != nil {
		return err
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
		if err := p.attach(""); err != nil {
			return err
		}
	}
	if r.Host {
		return nil
	}
	return contain()
}

// viewsOf copies what of the node is seen in every root: what the kernel shows, the
// files of /etc that PID 1 writes, and the devices or those that anybody may use.
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
		p.target = v.target
		out = append(out, p)
	}
	if host {
		return out, nil
	}
	dev, err := ownDevices()
	return append(out, dev...), err
}

// ownDevices is a /dev with what every container has, and the node's shared memory:
// services share its IPC namespace.
func ownDevices() ([]piece, error) {
	dev, err := newMount("tmpfs", "mode", "755", "size", "65536")
	if err != nil {
		return nil, fmt.Errorf("/dev: %w", err)
	}
	dev.target = "/dev"
	pts, err := newMount("devpts", "newinstance", "", "ptmxmode", "0666", "mode", "0620")
	if err != nil {
		return nil, fmt.Errorf("/dev/pts: %w", err)
	}
	pts.target = "/dev/pts"
	for _, d := range []string{"pts", "shm"} {
		if err := unix.Mkdirat(dev.fd, d, 0o755); err != nil {
			return nil, fmt.Errorf("/dev/%s: %w", d, err)
		}
	}
	for name, to := range links {
		if err := unix.Symlinkat(to, dev.fd, name); err != nil {
			return nil, fmt.Errorf("/dev/%s: %w", name, err)
		}
	}
	out := []piece{dev, pts}
	for _, name := range append(devices[:len(devices):len(devices)], "shm") {
		p, err := copyOf("/dev/"+name, "")
		if err != nil {
			return nil, err
		}
		p.target = "/dev/" + name
		if name != "shm" {
			fd, err := unix.Openat(dev.fd, name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o666)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.target, err)
			}
			unix.Close(fd)
		}
		out = append(out, p)
	}
	return out, nil
}

// newMount is a file system that is mounted nowhere, with options by name and value;
// one without a value is a flag.
func newMount(kind string, options ...string) (piece, error) {
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
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
	return piece{fd: fd, name: kind}, err
}

// contain closes and hides what of the kernel would change the node or tell too much.
// What a kernel does not have needs neither.
func contain() error {
	for _, p := range closed {
		m, err := copyOf(p, "")
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err == nil {
			m.target = p
			if err = m.readOnly(); err == nil {
				err = m.attach("")
			}
		}
		if err != nil {
			return fmt.Errorf("close %s: %w", p, err)
		}
	}
	for _, p := range hidden {
		var st unix.Stat_t
		err := unix.Stat(p, &st)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		var m piece
		switch {
		case err != nil:
		case st.Mode&unix.S_IFMT == unix.S_IFDIR:
			m, err = newMount("tmpfs", "mode", "755", "size", "0")
		default:
			m, err = copyOf("/dev/null", "")
		}
		if err == nil {
			m.target = p
			if err = m.readOnly(); err == nil {
				err = m.attach("")
			}
		}
		if err != nil {
			return fmt.Errorf("hide %s: %w", p, err)
		}
	}
	return nil
}
