// Package mounts holds the node's mounts as typed data, makes them, reads the
// kernel's list of them, and takes them all down again.
package mounts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Mount is one call of mount(2).
type Mount struct {
	Source, Target, Type string
	Flags                uintptr
	Data                 string
	Mode                 os.FileMode // of the target directory, made if missing; 0 = do not make
	Optional             bool        // a kernel without it is fine
}

func (m Mount) String() string {
	return fmt.Sprintf("mount %s (%s) on %s", m.Source, m.Type, m.Target)
}

// Syscalls is what this package asks of the kernel; tests put a fake in its place.
type Syscalls interface {
	Mount(source, target, fstype string, flags uintptr, data string) error
	Unmount(target string, flags int) error
}

// Kernel is the real thing.
type Kernel struct{}

// Mount is mount(2).
func (Kernel) Mount(source, target, fstype string, flags uintptr, data string) error {
	return unix.Mount(source, target, fstype, flags, data)
}

// Unmount is umount2(2).
func (Kernel) Unmount(target string, flags int) error { return unix.Unmount(target, flags) }

const (
	nosuid = unix.MS_NOSUID
	nodev  = unix.MS_NODEV
	noexec = unix.MS_NOEXEC
)

// early is what the first lines on the console and the search for the root need.
var early = []Mount{
	{Source: "dev", Target: "/dev", Type: "devtmpfs", Flags: nosuid, Data: "mode=0755", Mode: 0o755},
	{Source: "proc", Target: "/proc", Type: "proc", Flags: nosuid | nodev | noexec, Mode: 0o555},
	{Source: "sysfs", Target: "/sys", Type: "sysfs", Flags: nosuid | nodev | noexec, Mode: 0o555},
}

// Early returns the mounts made before anything else; they move into the root.
func Early() []Mount { return slices.Clone(early) }

// Base returns the mounts of a node on its root that its services need, in
// order; all but /var, see Data and Memory.
//
// /var, /tmp and /etc stay executable: CNI installers put programs below
// /opt (/var/opt), and volumes of pods lie below /var/lib/kubelet. /run is noexec,
// as it is on Debian and Ubuntu: what pods expect there is sockets and state.
func Base() []Mount {
	return []Mount{
		{Source: "devpts", Target: "/dev/pts", Type: "devpts", Flags: nosuid | noexec, Data: "mode=0620,gid=5,ptmxmode=0666", Mode: 0o755},
		{Source: "shm", Target: "/dev/shm", Type: "tmpfs", Flags: nosuid | nodev | noexec, Data: "mode=1777" + small, Mode: 0o1777},
		{Source: "mqueue", Target: "/dev/mqueue", Type: "mqueue", Flags: nosuid | nodev | noexec, Mode: 0o1777, Optional: true},
		{Source: "run", Target: "/run", Type: "tmpfs", Flags: nosuid | nodev | noexec, Data: "mode=0755" + small},
		{Source: "tmp", Target: "/tmp", Type: "tmpfs", Flags: nosuid | nodev, Data: "mode=1777" + small},
		{Source: "cgroup2", Target: "/sys/fs/cgroup", Type: "cgroup2", Flags: nosuid | nodev | noexec, Data: "nsdelegate"},
		// Shared, or CSI's and CNI's mounts do not reach the pods.
		{Source: "none", Target: "/", Flags: unix.MS_SHARED | unix.MS_REC},
	}
}

// small caps the tmpfs of which nobody needs much: a tenth of the memory each.
// A file costs about a KiB of memory beside its content, and that has a cap, too.
const small = ",size=10%,nr_inodes=64k"

// Memory returns /var of a node without a data partition: a tmpfs of at most two
// fifths of the memory, so that with the others full to the brim there is
// enough left to run.
func Memory() Mount {
	return Mount{Source: "var", Target: "/var", Type: "tmpfs", Flags: nosuid | nodev, Data: "mode=0755,size=40%,nr_inodes=256k"}
}

// Data returns /var on the data partition. nosuid holds for volumes only: a
// container's root is an overlay mount, which has flags of its own.
func Data(device string) Mount {
	return Mount{Source: device, Target: "/var", Type: "ext4", Flags: nosuid | nodev | unix.MS_NOATIME}
}

// Later returns the mounts that nothing waits for. That of bpf is slow: the
// kernel calls modprobe for a module of it that nobody has.
func Later() []Mount {
	return []Mount{
		{Source: "securityfs", Target: "/sys/kernel/security", Type: "securityfs", Flags: nosuid | nodev | noexec, Optional: true},
		{Source: "tracefs", Target: "/sys/kernel/tracing", Type: "tracefs", Flags: nosuid | nodev | noexec, Data: "mode=0700", Optional: true},
		{Source: "bpf", Target: "/sys/fs/bpf", Type: "bpf", Flags: nosuid | nodev | noexec, Data: "mode=0700", Optional: true},
	}
}

// EtcOverlay returns the mounts that make /etc writable: the image's below, above
// it further read-only layers, the topmost first, and above all what was written,
// in dir (EtcDirs).
func EtcOverlay(dir string, layers ...string) []Mount {
	upper, work := EtcDirs(dir)
	return []Mount{{
		Source: "etc", Target: "/etc", Type: "overlay", Flags: nosuid | nodev,
		Data: "lowerdir=" + strings.Join(append(layers, "/etc"), ":") + ",upperdir=" + upper + ",workdir=" + work,
	}}
}

// EtcDirs are the directories in dir that the overlay on /etc needs.
func EtcDirs(dir string) (upper, work string) {
	return filepath.Join(dir, "upper"), filepath.Join(dir, "work")
}

// Make carries out list below root and returns what failed, each failure naming
// its entry. An optional file system the kernel lacks is no failure, nor is one
// that is already mounted.
func Make(sys Syscalls, root string, list []Mount) error {
	var errs []error
	for _, m := range list {
		target := filepath.Join(root, m.Target)
		if m.Mode != 0 {
			if err := os.MkdirAll(target, m.Mode.Perm()); err != nil {
				errs = append(errs, fmt.Errorf("%s: make the directory: %w", m, err))
				continue
			}
		}
		err := sys.Mount(m.Source, target, m.Type, m.Flags, m.Data)
		switch {
		case err == nil:
		case errors.Is(err, unix.EBUSY):
		case m.Optional && (errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL)):
		default:
			errs = append(errs, fmt.Errorf("%s: %w", m, err))
		}
	}
	return errors.Join(errs...)
}

// Move moves the early mounts below newRoot.
func Move(sys Syscalls, newRoot string) error {
	for _, m := range early {
		if err := sys.Mount(m.Target, newRoot+m.Target, "", unix.MS_MOVE, ""); err != nil {
			return fmt.Errorf("move %s to %s: %w", m.Target, newRoot+m.Target, err)
		}
	}
	return nil
}

// links are the names below /dev that programs expect and devtmpfs does not make.
var links = [][2]string{
	{"/proc/self/fd", "/dev/fd"},
	{"fd/0", "/dev/stdin"},
	{"fd/1", "/dev/stdout"},
	{"fd/2", "/dev/stderr"},
	{"pts/ptmx", "/dev/ptmx"},
}

// DevLinks makes the usual links below /dev.
func DevLinks(root string) error {
	var errs []error
	for _, l := range links {
		p := filepath.Join(root, l[1])
		if l[1] == "/dev/ptmx" {
			if _, err := os.Lstat(p); err == nil {
				continue // devtmpfs has the device node, which opens the same pts instance
			}
		}
		if err := os.Symlink(l[0], p); err != nil && !errors.Is(err, os.ErrExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// pseudo file systems hold no data and stay mounted to the end: the last lines
// on the console and the list of mounts itself come through them.
var pseudo = strings.Fields("proc sysfs devtmpfs devpts cgroup2 securityfs tracefs debugfs bpf mqueue configfs efivarfs fusectl pstore")

// Pseudo says whether fstype is a view of the kernel rather than a store.
func Pseudo(fstype string) bool { return slices.Contains(pseudo, fstype) }

// Stays says whether a mount stays to the end: a view of the kernel in its usual
// place. One that was bound elsewhere (a volume with a device, a pinned
// namespace) would keep what it lies on busy.
func Stays(m Info) bool {
	top, _, _ := strings.Cut(strings.TrimPrefix(m.Target, "/"), "/")
	return Pseudo(m.Type) && (top == "dev" || top == "proc" || top == "sys")
}

// Volatile says whether what fstype holds is gone with the power anyway, so
// that a busy one leaves nothing unclean behind.
func Volatile(fstype string) bool {
	return fstype == "tmpfs" || fstype == "ramfs" || fstype == "nsfs" || fstype == "overlay"
}
