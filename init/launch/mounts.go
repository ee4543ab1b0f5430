package launch

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"garboard.local/init/table"
)

// mountAll gives this thread a mount namespace with a service's root and mounts.
// Those of the node go on arriving in it, but in what is private, and nothing leaves it. The working
// directory was entered before there was a mount, and may be in one: it is entered
// again.
//
// Every source is opened before anything is mounted, so that none is looked up in
// what an image or a volume holds.
func mountAll(root string, s *table.Service) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount namespace: keep mounts from leaving it: %w", err)
	}
	var volumes []piece
	for _, m := range s.Mounts {
		p, err := copyOf(root+m.Source, m.Sub)
		if err != nil {
			return fmt.Errorf("mount %s at %s: %w", sourceName(m), m.Target, err)
		}
		p.target, p.name = m.Target, sourceName(m)
		if m.ReadOnly {
			if err := p.readOnly(); err != nil {
				return fmt.Errorf("mount %s at %s: %w", p.name, m.Target, err)
			}
		}
		if m.Private {
			if err := p.cutOff(); err != nil {
				return fmt.Errorf("mount %s at %s: %w", p.name, m.Target, err)
			}
		}
		volumes = append(volumes, p)
	}
	if s.Root != nil {
		if err := enter(root, s.Root, volumes); err != nil {
			return fmt.Errorf("root of image %s: %w", s.Root.Image, err)
		}
		root = ""
	}
	for _, p := range volumes {
		if err := p.attach(root); err != nil {
			return fmt.Errorf("mount %s at %s: %w", p.name, p.target, err)
		}
	}
	dir := s.Dir
	if dir == "" {
		dir = "/"
	}
	if err := changeDir(root + dir); err != nil {
		return fmt.Errorf("working directory %s: %w", dir, err)
	}
	return nil
}

// changeDir enters a directory that an image may name. This thread may look into any
// process yet, so /proc/1/root would lead to the node.
func changeDir(dir string) error {
	fd, err := lookAt(unix.AT_FDCWD, dir, unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Fchdir(fd)
}

// lookAt finds what is at a path in which no link leads through a process (proc(5):
// root, cwd, exe, fd), that is out of this thread's root.
func lookAt(at int, path string, flags uint64) (int, error) {
	fd, err := unix.Openat2(at, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | flags, Resolve: unix.RESOLVE_NO_MAGICLINKS})
	if errors.Is(err, unix.ELOOP) {
		err = fmt.Errorf("%w, or one of them leads through a process in /proc", err)
	}
	return fd, err
}

func sourceName(m table.Mount) string {
	if m.Sub != "" {
		return m.Source + "/" + m.Sub
	}
	return m.Source
}

// piece is a mount that is nowhere yet. Its descriptor is closed when the service's
// program is executed.
type piece struct {
	fd           int
	name, target string
}

// copyOf is a copy of the mounts at a path of the node, or at what sub names in it.
func copyOf(path, sub string) (piece, error) {
	at, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return piece{}, fmt.Errorf("%s: %w", path, err)
	}
	defer unix.Close(at)
	if sub != "" {
		// What a service has put into its volume does not decide what of the node it sees.
		in, err := unix.Openat2(at, sub, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS})
		if errors.Is(err, unix.EXDEV) {
			err = fmt.Errorf("%w: a symbolic link on its way leads out of %s", err, path)
		}
		if err != nil {
			return piece{}, fmt.Errorf("%s in %s: %w", sub, path, err)
		}
		defer unix.Close(in)
		at = in
	}
	fd, err := unix.OpenTree(at, "", unix.AT_EMPTY_PATH|copyTree)
	if err != nil {
		return piece{}, fmt.Errorf("%s: copy its mount: %w", path, err)
	}
	return piece{fd: fd, name: path}, nil
}

const copyTree = unix.AT_RECURSIVE | unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC

// copyIn is a copy of the mounts at a name in another piece that is mounted.
func copyIn(fd int, name string) (piece, error) {
	m, err := unix.OpenTree(fd, name, copyTree)
	return piece{fd: m, name: name}, err
}

func (p piece) readOnly() error {
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(p.fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		return fmt.Errorf("make it read-only: %w", err)
	}
	return nil
}

// cutOff keeps mounts of the node that are made later from arriving in it.
func (p piece) cutOff() error {
	attr := unix.MountAttr{Propagation: unix.MS_PRIVATE}
	if err := unix.MountSetattr(p.fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		return fmt.Errorf("keep later mounts from it: %w", err)
	}
	return nil
}

// attach mounts it at its target.
func (p piece) attach(root string) error {
	at, err := lookAt(unix.AT_FDCWD, root+p.target, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", root+p.target, err)
	}
	defer unix.Close(at)
	if err := p.attachTo(at); err != nil {
		return fmt.Errorf("%s: %w", root+p.target, err)
	}
	return nil
}

// attachIn mounts it at its target, which lies in another piece that is mounted: in
// that, whatever the names of an image lead to meanwhile.
func (p piece) attachIn(in piece) error {
	name := strings.TrimPrefix(p.target, in.target+"/")
	at, err := unix.Openat2(in.fd, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return fmt.Errorf("%s: %w", p.target, err)
	}
	defer unix.Close(at)
	if err := p.attachTo(at); err != nil {
		return fmt.Errorf("%s: %w", p.target, err)
	}
	return nil
}

func (p piece) attachTo(at int) error {
	err := unix.MoveMount(p.fd, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	if errors.Is(err, unix.EINVAL) && isDir(p.fd) != isDir(at) {
		return unix.ENOTDIR // which move_mount(2) does not say
	}
	return err
}

func isDir(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
}
