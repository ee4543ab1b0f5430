package settings

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"garboard.local/init/mounts"
	"garboard.local/init/table"
)

// old is how the directory of the volumes of an earlier boot is called until it is removed.
const old = ".old-"

// Volumes makes the volumes that services share, empty. What an earlier boot left in
// them is only moved aside, since it can be a lot: Leftovers removes it.
func Volumes(sys mounts.Syscalls, root string, list []table.Volume) error {
	var errs []error
	dir := filepath.Join(root, table.VolumeDir)
	if err := moveAside(dir); err != nil {
		errs = append(errs, fmt.Errorf("volumes of the boot before: %w", err))
	}
	for _, v := range list {
		p := filepath.Join(root, v.Path)
		if err := withRoom(root, func() error { return makeVolume(sys, root, p, v) }); err != nil {
			errs = append(errs, fmt.Errorf("volume %s: %w", v.Path, err))
		}
	}
	return errors.Join(errs...)
}

// moveAside gives the volumes of the boot before another name; no directory is made for
// that, for which a full disk may have no room. What cannot be moved is removed.
func moveAside(dir string) error {
	if _, err := os.Lstat(dir); err != nil {
		return nil
	}
	aside := dir + old
	for i := range 1000 {
		aside = dir + old + strconv.Itoa(i)
		if _, err := os.Lstat(aside); errors.Is(err, os.ErrNotExist) {
			break
		}
	}
	if err := os.Rename(dir, aside); err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	return nil
}

// withRoom does f, and once more if the disk was full of what is to be removed anyway.
func withRoom(root string, f func() error) error {
	err := f()
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		if lerr := Leftovers(root); lerr != nil {
			return errors.Join(err, lerr)
		}
		return f()
	}
	return err
}

func makeVolume(sys mounts.Syscalls, root, p string, v table.Volume) error {
	parent := table.VolumeDir
	if v.Memory {
		parent = table.MemoryVolumeDir
	}
	if err := os.MkdirAll(filepath.Join(root, filepath.Dir(parent)), 0o755); err != nil {
		return err
	}
	// Services that have a volume see it as a mount; nobody else needs to get there.
	if err := os.MkdirAll(p, 0o700); err != nil {
		return err
	}
	if v.Memory {
		size := "10%"
		if v.Size > 0 {
			size = fmt.Sprint(v.Size)
		}
		if err := sys.Mount("volume", p, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777,nr_inodes=64k,size="+size); err != nil {
			return err
		}
	}
	for _, d := range append([]string{p}, under(root, v.Dirs)...) {
		if err := os.MkdirAll(d, 0o777); err != nil {
			return err
		}
		if v.Group != nil {
			if err := os.Lchown(d, -1, int(*v.Group)); err != nil {
				return err
			}
		}
		if err := os.Chmod(d, mode(v, d == p)); err != nil { // after chown(2), which takes the set-group-ID bit
			return err
		}
	}
	return nil
}

// mode of a volume, or of a directory in it: what a kubelet's have.
func mode(v table.Volume, top bool) os.FileMode {
	m := os.FileMode(0o777)
	if v.Memory && top {
		m |= os.ModeSticky
	}
	if v.Group != nil {
		m |= os.ModeSetgid
	}
	return m
}

func under(root string, list []string) []string {
	var out []string
	for _, p := range list {
		out = append(out, filepath.Join(root, p))
	}
	return out
}

// Leftovers removes what Volumes moved aside, now or in an earlier boot.
func Leftovers(root string) error {
	dir := filepath.Join(root, table.VolumeDir)
	list, err := os.ReadDir(filepath.Dir(dir))
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}
	var errs []error
	for _, e := range list {
		if strings.HasPrefix(e.Name(), filepath.Base(dir)+old) {
			errs = append(errs, os.RemoveAll(filepath.Join(filepath.Dir(dir), e.Name())))
		}
	}
	return errors.Join(errs...)
}
