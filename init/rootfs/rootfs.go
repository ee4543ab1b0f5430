// Package rootfs leads from the initramfs to the read-only root image: it loads
// the few modules that takes, mounts the image (through a loop device if it lies in
// the initramfs, otherwise from its partition) and makes it the root, without
// copying it.
package rootfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/u-root/u-root/pkg/kmodule"
	"golang.org/x/sys/unix"

	"garboard.local/init/mounts"
)

// Image is where the initramfs holds the root image, if it does.
const Image = "/root.erofs"

const newRoot = "/newroot"

// Flags of the root's mount and of PID 1's own file, bound into it. A set-user-id
// program works where a recipe keeps one; there are no devices in an image.
const (
	Flags     = unix.MS_RDONLY | unix.MS_NODEV
	InitFlags = unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV
)

// Init is PID 1's program in the initramfs. The root image has an empty file at
// InitInRoot for it: modprobe and pinns are links to that, and one copy of the
// program is enough, in the image as in memory.
const (
	Init       = "/init"
	InitInRoot = "/usr/lib/garboard/init"
)

// InInitramfs says whether PID 1 is in an initramfs: there the image is, or the
// list of modules that lead to it. An initramfs that lost its image is still one.
func InInitramfs() bool {
	for _, p := range []string{Image, "/modules/order"} {
		if _, err := os.Stat(p); err == nil {
			return true
		}
	}
	return false
}

// LoadModules loads the modules named in dir/order, in that order: one a line, its
// file's name and the names of those it needs. One whose device the machine does
// not have (ENODEV) is none to speak of, and those that need it are left out, or
// the kernel would list what they miss. A module that does not load may be built
// into the kernel, so the errors are for whoever finds later that the root cannot
// be mounted.
func LoadModules(dir string, load func(path string) error) error {
	b, err := os.ReadFile(filepath.Join(dir, "order"))
	if errors.Is(err, os.ErrNotExist) {
		return nil // all of it is built in
	}
	if err != nil {
		return err
	}
	var errs []error
	absent := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		names := strings.Fields(line)
		if len(names) == 0 {
			continue
		}
		name := names[0]
		if name != filepath.Base(name) {
			errs = append(errs, fmt.Errorf("%s/order: %q is not a file name", dir, name))
			continue
		}
		if slices.ContainsFunc(names[1:], func(n string) bool { return absent[n] }) {
			absent[name] = true
			continue
		}
		err := load(filepath.Join(dir, name))
		switch {
		case errors.Is(err, unix.ENODEV):
			absent[name] = true
		case err != nil:
			errs = append(errs, fmt.Errorf("load %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// Insert gives the kernel one module file (finit_module(2)); one that is loaded
// already is fine. It returns when the driver has looked at its devices.
func Insert(path string) error { return insert(path, "") }

// InsertEarly does not wait for that (async_probe): in an initramfs the kernel
// would let a SATA controller with nothing behind it hold everything up, and who
// looks for the root waits for it anyway.
func InsertEarly(path string) error { return insert(path, "async_probe") }

func insert(path, options string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := kmodule.FileInit(f, options, 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}

// Attach puts a file behind a free loop device, read-only, and returns the
// device and a descriptor that keeps it until something is mounted from it
// (the device frees itself after the last user).
func Attach(file string) (string, *os.File, error) {
	back, err := os.Open(file)
	if err != nil {
		return "", nil, err
	}
	defer back.Close()
	ctl, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return "", nil, fmt.Errorf("loop devices (is the module \"loop\" in /modules/order?): %w", err)
	}
	defer ctl.Close()
	for range 8 { // another program may take the number we were told is free
		n, err := unix.IoctlRetInt(int(ctl.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return "", nil, fmt.Errorf("ask for a free loop device: %w", err)
		}
		name := fmt.Sprintf("/dev/loop%d", n)
		dev, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			return "", nil, err
		}
		// No direct I/O: the file lies in memory already.
		cfg := unix.LoopConfig{Fd: uint32(back.Fd()), Info: unix.LoopInfo64{
			Flags: unix.LO_FLAGS_READ_ONLY | unix.LO_FLAGS_AUTOCLEAR,
		}}
		copy(cfg.Info.File_name[:], file)
		err = unix.IoctlLoopConfigure(int(dev.Fd()), &cfg)
		if err == nil {
			return name, dev, nil
		}
		dev.Close()
		if !errors.Is(err, unix.EBUSY) {
			return "", nil, fmt.Errorf("put %s behind %s: %w", file, name, err)
		}
	}
	return "", nil, fmt.Errorf("put %s behind a loop device: each one offered was taken by somebody else", file)
}

// Mount mounts the root image of the initramfs at the place it is switched to from.
func Mount(sys mounts.Syscalls) error {
	dev, keep, err := Attach(Image)
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%w; the command line does not say where else the root image is (garboard.root=)", err)
	}
	if err != nil {
		return err
	}
	defer keep.Close()
	if err := os.MkdirAll(newRoot, 0o755); err != nil {
		return err
	}
	if err := sys.Mount(dev, newRoot, "erofs", Flags, ""); err != nil {
		return fmt.Errorf("mount the root image %s (erofs) from %s; a damaged image or no erofs module in /modules/order: %w", Image, dev, err)
	}
	return bindInit(sys)
}

// bindInit binds the program into the new root, for nobody to write to.
func bindInit(sys mounts.Syscalls) error {
	at := newRoot + InitInRoot
	if err := sys.Mount(Init, at, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s to %s: %w", Init, InitInRoot, err)
	}
	if err := sys.Mount("", at, "", unix.MS_BIND|unix.MS_REMOUNT|InitFlags, ""); err != nil {
		return fmt.Errorf("make %s read-only: %w", InitInRoot, err)
	}
	return nil
}

// Switch makes the mounted image the root of this process and of all it will
// start, as switch_root(8) does, and gives the initramfs' memory back except
// for the image itself.
func Switch(sys mounts.Syscalls) error {
	old, err := os.Open("/")
	if err != nil {
		return err
	}
	defer old.Close()
	if err := mounts.Move(sys, newRoot); err != nil {
		return err
	}
	if err := unix.Chdir(newRoot); err != nil {
		return fmt.Errorf("enter %s: %w", newRoot, err)
	}
	if err := sys.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move %s to /: %w", newRoot, err)
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("chroot to the root image: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	return free(int(old.Fd()))
}

// free removes the files of the initramfs. Only what is certainly one (ramfs or
// tmpfs) is touched, and only the names the builder puts there.
func free(dir int) error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(dir, &st); err != nil {
		return err
	}
	if int64(st.Type) != unix.TMPFS_MAGIC && int64(st.Type) != unix.RAMFS_MAGIC {
		return nil
	}
	for _, d := range []string{"modules", "kernel/x86/microcode"} {
		if err := emptyDir(dir, d); err != nil {
			return fmt.Errorf("free the initramfs: /%s: %w", d, err)
		}
	}
	return nil
}

// emptyDir removes the files of a directory below dir, if there is one.
func emptyDir(dir int, name string) error {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	d := os.NewFile(uintptr(fd), name)
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, n := range names {
		_ = unix.Unlinkat(fd, n, 0)
	}
	return nil
}
