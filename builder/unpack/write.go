package unpack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"garboard.local/builder/preload"
)

// Directories of a writer below its own.
const (
	imageName = "image"
	rootName  = imageName + "/rootfs"
	blobsName = "blobs"
)

// writer writes one image. It is where the bytes of the files are kept until their
// places are known (preload.Blobs): they are moved there then, not copied.
type writer struct {
	ctx   context.Context
	dir   string
	root  *os.Root // of dir: nothing that is written here can be elsewhere
	asked bool     // is root, and can give files away

	blobs   int
	placed  map[string]string // blob -> where its first link is
	foreign int               // files that belong to somebody else
	devices []string
	caps    []string // files with capabilities, which only root can give
	others  int      // extended attributes of other kinds
}

func newWriter(ctx context.Context, dir string) (*writer, error) {
	for _, d := range []string{imageName, rootName, blobsName} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			return nil, err
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &writer{ctx: ctx, dir: dir, root: root, asked: os.Geteuid() == 0, placed: map[string]string{}}, nil
}

func (w *writer) close() { w.root.Close() }

func (w *writer) image() string { return filepath.Join(w.dir, imageName) }

// Put keeps the bytes of one file.
func (w *writer) Put(r io.Reader) (sum string, size int64, err error) {
	w.blobs++
	sum = strconv.Itoa(w.blobs)
	f, err := w.root.OpenFile(w.Blob(sum), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", 0, err
	}
	size, err = io.Copy(f, r)
	return sum, size, errors.Join(err, f.Close())
}

// Blob is where it keeps them.
func (w *writer) Blob(sum string) string { return blobsName + "/" + sum }

// write makes the root directory.
func (w *writer) write(entries []preload.Entry) error {
	for _, e := range entries {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		if err := w.make(e); err != nil {
			return fmt.Errorf("/%s: %w", e.Path, err)
		}
	}
	// Directories get their mode and time last, those inside first: before, nothing
	// could be put into one that is not to be written to.
	for _, e := range slices.Backward(entries) {
		if e.Type != preload.TypeDir {
			continue
		}
		if err := w.finish(e, w.at(e)); err != nil {
			return fmt.Errorf("/%s: %w", e.Path, err)
		}
	}
	return nil
}

func (w *writer) at(e preload.Entry) string { return path.Join(rootName, e.Path) }

func (w *writer) make(e preload.Entry) error {
	at := w.at(e)
	switch e.Type {
	case preload.TypeDir:
		if e.Path == "" {
			return nil
		}
		return w.root.Mkdir(at, 0o700)
	case preload.TypeSymlink:
		if err := w.root.Symlink(e.Link, at); err != nil {
			return err
		}
		if err := w.own(e, at); err != nil || e.Extra == nil || e.Extra.Modified.IsZero() {
			return err
		}
		return w.in(at, func(dir int, name string) error {
			t := unix.NsecToTimespec(e.Extra.Modified.UnixNano())
			return unix.UtimesNanoAt(dir, name, []unix.Timespec{t, t}, unix.AT_SYMLINK_NOFOLLOW)
		})
	case preload.TypeDevice:
		w.devices = append(w.devices, "/"+e.Path)
		return nil
	case preload.TypeFifo:
		if err := w.in(at, func(dir int, name string) error { return unix.Mkfifoat(dir, name, 0o600) }); err != nil {
			return err
		}
	default:
		if first, ok := w.placed[e.ContentPath]; ok {
			return w.root.Link(first, at)
		}
		if err := w.root.Rename(e.ContentPath, at); err != nil {
			return err
		}
		w.placed[e.ContentPath] = at
	}
	return w.finish(e, at)
}

// in does what package os has no word for, in the open directory of a path.
func (w *writer) in(at string, do func(dir int, name string) error) error {
	dir, err := w.root.Open(path.Dir(at))
	if err != nil {
		return err
	}
	defer dir.Close()
	return do(int(dir.Fd()), path.Base(at))
}

func (w *writer) own(e preload.Entry, at string) error {
	if w.asked {
		return w.root.Lchown(at, e.UID, e.GID)
	}
	if e.UID != os.Geteuid() || e.GID != os.Getegid() {
		w.foreign++
	}
	return nil
}

// finish gives a file its owner, attributes, mode and time, in this order: a new owner
// takes capabilities and set-user-ID away, and what may not be written to takes no attributes.
func (w *writer) finish(e preload.Entry, at string) error {
	if err := w.own(e, at); err != nil {
		return err
	}
	if e.Extra != nil {
		if err := w.attributes(e, at); err != nil {
			return err
		}
	}
	mode := e.Mode
	if !w.asked {
		// It would not be the right one's rights that it gives.
		if e.UID != os.Geteuid() {
			mode &^= fs.ModeSetuid
		}
		if e.GID != os.Getegid() && e.Type != preload.TypeDir {
			mode &^= fs.ModeSetgid
		}
		if e.Type == preload.TypeDir {
			mode |= 0o700 // or its owner, another than the image's, could not remove it
		}
	}
	if err := w.root.Chmod(at, mode); err != nil {
		return err
	}
	if e.Extra == nil || e.Extra.Modified.IsZero() {
		return nil
	}
	return w.root.Chtimes(at, e.Extra.Modified, e.Extra.Modified)
}

// capabilityXattr holds what a program's file grants (capabilities(7)).
const capabilityXattr = "security.capability"

// attributes are those that mean something in a container: capabilities, and users' own.
// A label of SELinux is the building machine's, one of overlayfs another storage's.
func (w *writer) attributes(e preload.Entry, at string) error {
	for name, value := range e.Extra.Xattrs {
		switch {
		case name == capabilityXattr && e.Type == preload.TypeFile && !w.asked:
			w.caps = append(w.caps, "/"+e.Path)
			continue
		case e.Type == preload.TypeFifo, name != capabilityXattr && !strings.HasPrefix(name, "user."):
			w.others++
			continue
		}
		f, err := w.root.Open(at)
		if err != nil {
			return err
		}
		err = unix.Fsetxattr(int(f.Fd()), name, []byte(value), 0)
		f.Close()
		if errors.Is(err, unix.ENOTSUP) && name != capabilityXattr {
			w.others++
			continue
		}
		if err != nil {
			return fmt.Errorf("extended attribute %s: %w", name, err)
		}
	}
	return nil
}

// lost is what the root directory lacks of the image.
func (w *writer) lost() []string {
	var out []string
	if w.foreign > 0 {
		out = append(out, fmt.Sprintf("%d files are of other owners in the image, and here of who unpacked it; as root they get their owners", w.foreign))
	}
	if len(w.devices) > 0 {
		out = append(out, fmt.Sprintf("devices are left out (%s): a unit has those that its DevicePolicy= allows in a /dev of its own", list(w.devices)))
	}
	if len(w.caps) > 0 {
		out = append(out, fmt.Sprintf("capabilities of files can be given by root alone (%s)", list(w.caps)))
	}
	if w.others > 0 {
		out = append(out, fmt.Sprintf("%d extended attributes are left out: they belong to another machine, or this file system has none", w.others))
	}
	return out
}

// list is the first few of many names.
func list(names []string) string {
	const few = 4
	if len(names) > few {
		return strings.Join(names[:few], ", ") + fmt.Sprintf(" and %d more", len(names)-few)
	}
	return strings.Join(names, ", ")
}

// sync has the file system write down what was written so far.
func (w *writer) sync() error {
	f, err := w.root.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}
