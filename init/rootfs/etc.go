package rootfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// Files are what a boot loader put into /etc of the initramfs, with archives of
// its own behind ours (Documentation/driver-api/early-userspace/buffer-format.rst):
// the kernel has unpacked them all, later ones over earlier ones. They are kept
// until there is an /etc to lay them over.
type Files []File

// File is a file, a directory or a symbolic link.
type File struct {
	Path     string // below /etc
	Mode     fs.FileMode
	UID, GID int
	Link     string
	Content  []byte
}

// filesLimit is the most that is read, in bytes: it is configuration, and in memory twice.
const filesLimit = 16 << 20

// ReadFiles reads what lies below dir. What is no file, directory or link, or too
// much, is left out and said in the error; the rest is returned.
func ReadFiles(dir string) (Files, error) {
	var out Files
	var errs []error
	left := int64(filesLimit)
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) && p == dir {
				return nil
			}
			errs = append(errs, err)
			return nil
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil || rel == "." {
			return err
		}
		info, err := d.Info()
		if err != nil {
			errs = append(errs, err)
			return nil
		}
		f := File{Path: rel, Mode: info.Mode()}
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			f.UID, f.GID = int(st.Uid), int(st.Gid)
		}
		switch d.Type() {
		case fs.ModeDir:
		case fs.ModeSymlink:
			f.Link, err = os.Readlink(p)
		case 0:
			if left -= info.Size(); left < 0 { // from here on nothing more is read
				err = fmt.Errorf("/etc/%s of the initramfs: with it there are more than %d MiB", rel, filesLimit>>20)
				break
			}
			f.Content, err = os.ReadFile(p)
		default:
			err = fmt.Errorf("/etc/%s of the initramfs is neither a file nor a directory nor a link", rel)
		}
		if err != nil {
			errs = append(errs, err)
			return nil
		}
		out = append(out, f)
		return nil
	})
	return out, errors.Join(append(errs, err)...)
}

// Write puts the files into dir, with their owners and modes. One that fails is
// said in the error; the others are there.
func (list Files) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	var errs []error
	for _, f := range list {
		errs = append(errs, f.write(root))
	}
	return errors.Join(errs...)
}

func (f File) write(root *os.Root) error {
	perm := f.Mode.Perm()
	switch f.Mode.Type() {
	case fs.ModeDir:
		if err := root.MkdirAll(f.Path, perm); err != nil {
			return err
		}
	case fs.ModeSymlink:
		if err := root.Remove(f.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := root.Symlink(f.Link, f.Path); err != nil {
			return err
		}
		return root.Lchown(f.Path, f.UID, f.GID)
	default:
		if err := root.WriteFile(f.Path, f.Content, perm); err != nil {
			return err
		}
	}
	// Lchown takes setuid bits away, so the mode comes last, whatever the umask.
	if err := root.Lchown(f.Path, f.UID, f.GID); err != nil && !errors.Is(err, unix.EPERM) {
		return err
	}
	return root.Chmod(f.Path, f.Mode&(fs.ModePerm|fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky))
}
