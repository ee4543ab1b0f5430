package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/cavaliergopher/cpio"
	"github.com/klauspost/compress/zstd"

	"garboard.local/builder/rootfs"
	"garboard.local/builder/store"
)

// cpioLimit is the largest size that the newc format's eight hexadecimal digits hold.
const cpioLimit = 1<<32 - 1

// Initramfs writes an initramfs of up to three concatenated archives: updates of
// the processor's microcode, if there are any, which the kernel looks for at the
// very beginning; the root image, stored as it is because it is compressed
// already; and the early files (PID 1, modules), compressed with zstd. The kernel
// unpacks all (Documentation/driver-api/early-userspace/buffer-format.rst). With
// rootImage "" the root image lies elsewhere.
func Initramfs(ctx context.Context, st *store.Store, microcode *rootfs.Tree, rootImage string, early *rootfs.Tree, epoch time.Time) (file string, cached bool, err error) {
	rootSum := ""
	if rootImage != "" {
		if rootSum, err = store.HashFile(rootImage); err != nil {
			return "", false, err
		}
	}
	first := ""
	if microcode != nil {
		first = microcode.Key()
	}
	key := store.Key("initramfs 3", first, rootSum, early.Key(), epoch.UTC().Format(time.RFC3339))
	dir, cached, err := st.Action(ctx, key, func(ctx context.Context, dir string) error {
		w, err := os.Create(filepath.Join(dir, "initramfs.img"))
		if err != nil {
			return err
		}
		defer w.Close()
		if microcode != nil {
			if err := errors.Join(WriteCPIO(w, microcode, epoch), pad(w)); err != nil {
				return err
			}
			if _, err := w.Seek(0, io.SeekEnd); err != nil {
				return err
			}
		}
		if rootImage != "" {
			if err := writeRootArchive(w, rootImage, rootSum, epoch); err != nil {
				return err
			}
		}
		z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1))
		if err != nil {
			return err
		}
		if err := errors.Join(writeDevices(z, epoch), WriteCPIO(z, early, epoch), z.Close()); err != nil {
			return err
		}
		return errors.Join(pad(w), w.Close(), ctx.Err())
	})
	return filepath.Join(dir, "initramfs.img"), cached, err
}

func writeRootArchive(w io.Writer, rootImage, sum string, epoch time.Time) error {
	e, err := rootfs.FromFile("root.erofs", 0o444, rootImage, sum, "builder", "the root image")
	if err != nil {
		return err
	}
	t := rootfs.New()
	if err := t.Add(e); err != nil {
		return err
	}
	return WriteCPIO(w, t, epoch)
}

// block is what an initramfs is padded to, so that a boot loader may append
// another archive: the kernel looks for an uncompressed one at multiples of 4.
const block = 512

func pad(f *os.File) error {
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	return f.Truncate((end + block - 1) / block * block)
}

// WriteCPIO writes a tree as a cpio archive in the newc format (cpio(5)).
// There are no hard links in it: each file has its own content and an inode
// number counted from 1, so that none collide however the build host numbers them.
func WriteCPIO(w io.Writer, t *rootfs.Tree, mtime time.Time) error {
	cw := cpio.NewWriter(w)
	for i, e := range t.Entries() {
		h := &cpio.Header{Name: e.Path, Mode: cpio.FileMode(e.Mode), Uid: e.UID, Guid: e.GID, Links: 1, Inode: int64(i + 1), ModTime: mtime}
		switch e.Kind {
		case rootfs.Dir:
			h.Mode |= cpio.TypeDir
			h.Links = 2
		case rootfs.Symlink:
			h.Mode |= cpio.TypeSymlink
			h.Linkname, h.Size = e.Link, int64(len(e.Link))
		case rootfs.File:
			h.Mode |= cpio.TypeReg
			h.Size = e.Size
		}
		if h.Size > cpioLimit {
			return fmt.Errorf("initramfs: /%s has %d bytes; the cpio format holds at most %d", e.Path, h.Size, int64(cpioLimit))
		}
		if err := cw.WriteHeader(h); err != nil {
			return fmt.Errorf("initramfs: /%s: %w", e.Path, err)
		}
		if e.Kind == rootfs.Symlink {
			if _, err := io.WriteString(cw, e.Link); err != nil {
				return fmt.Errorf("initramfs: /%s: %w", e.Path, err)
			}
		}
		if e.Kind == rootfs.File {
			if err := copyEntry(cw, e); err != nil {
				return fmt.Errorf("initramfs: /%s: %w", e.Path, err)
			}
		}
	}
	return cw.Close()
}

// devices are what PID 1 needs before it has mounted devtmpfs: descriptors 0 to
// 2, which Go's runtime opens on /dev/null if the kernel found no console.
var devices = []struct {
	name         string
	mode         uint32
	major, minor uint32
}{
	{"dev", 0o040755, 0, 0},
	{"dev/console", 0o020600, 5, 1},
	{"dev/null", 0o020666, 1, 3},
	{"TRAILER!!!", 0, 0, 0},
}

// writeDevices writes a small archive of its own, since the cpio library has no
// field for a device's number. The format is that of cpio(5), "new ASCII".
func writeDevices(w io.Writer, mtime time.Time) error {
	for i, d := range devices {
		header := fmt.Sprintf("070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s\x00",
			i+1, d.mode, 0, 0, 1, mtime.Unix(), 0, 0, 0, d.major, d.minor, len(d.name)+1, 0, d.name)
		for len(header)%4 != 0 {
			header += "\x00"
		}
		if _, err := io.WriteString(w, header); err != nil {
			return fmt.Errorf("initramfs: /%s: %w", d.name, err)
		}
	}
	return nil
}

func copyEntry(w io.Writer, e *rootfs.Entry) error {
	r, err := e.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	n, err := io.Copy(w, r)
	if err == nil && n != e.Size {
		err = fmt.Errorf("read %d bytes of %d", n, e.Size)
	}
	return err
}

// modulesDir is where the initramfs keeps modules; its file "order" lists them.
const modulesDir = "modules"

// BootModule is a kernel module that must be loaded to reach the root image.
type BootModule struct {
	Name, File, Reason string
	Needs              []string // names of modules that are loaded before it
}

// Early is what lies in the initramfs beside the root image: PID 1, the modules
// in the order of loading, and the directories PID 1 mounts on.
func Early(init rootfs.Entry, mods []BootModule, origin string) (*rootfs.Tree, error) {
	t := rootfs.New()
	init.Path, init.Mode = "init", 0o755
	if err := t.Add(init); err != nil {
		return nil, err
	}
	for _, d := range []string{"dev", "newroot", "proc", "sys"} {
		if err := t.Add(rootfs.Entry{Path: d, Kind: rootfs.Dir, Mode: 0o755, Origin: "builder", Reason: "PID 1 mounts on it"}); err != nil {
			return nil, err
		}
	}
	var order []string
	files := map[string]string{}
	for _, m := range mods {
		base := path.Base(m.File)
		e, err := rootfs.FromFile(modulesDir+"/"+base, 0o444, m.File, "", origin, m.Reason)
		if err != nil {
			return nil, err
		}
		if err := t.Add(e); err != nil {
			return nil, err
		}
		files[m.Name] = base
		line := base
		for _, n := range m.Needs {
			if f := files[n]; f != "" { // else it is built in
				line += " " + f
			}
		}
		order = append(order, line)
	}
	if len(order) == 0 {
		return t, errors.New("initramfs: no boot modules; kernel.boot names what is needed to reach the root image")
	}
	return t, t.Add(rootfs.FromBytes(modulesDir+"/order", 0o444, []byte(strings.Join(order, "\n")+"\n"), "builder", "the order in which PID 1 loads the modules"))
}
