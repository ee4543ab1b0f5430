package inspect

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/diskfs/go-diskfs/backend"
	"github.com/diskfs/go-diskfs/filesystem/ext4"
	"github.com/diskfs/go-diskfs/filesystem/fat32"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"
	"github.com/diskfs/go-diskfs/partition/gpt"
	"github.com/erofs/go-erofs"
)

// uncompressed hides from go-erofs that an image has compressed files, whose
// content it cannot read and whose images it refuses to list; inodes, directories and
// links are the same with and without (Documentation/filesystems/erofs.rst).
type uncompressed struct{ io.ReaderAt }

// Places in the superblock (struct erofs_super_block in fs/erofs/erofs_fs.h).
const (
	erofsIncompat = 1024 + 80 // features: padding of LZ4 1, settings of compressors 2, inlined tails 0x10
	erofsAlgs     = 1024 + 84 // compressors in use, 2 bytes
)

func (u uncompressed) ReadAt(p []byte, off int64) (int, error) {
	n, err := u.ReaderAt.ReadAt(p, off)
	for at, hide := range map[int64]byte{erofsIncompat: 0x13, erofsAlgs: 0xff, erofsAlgs + 1: 0xff} {
		if i := at - off; i >= 0 && i < int64(n) {
			p[i] &^= hide
		}
	}
	return n, err
}

// erofs lists an image; for the hashes of its files it is unpacked.
func (in *inspector) erofs(n *Node, r io.ReaderAt, _ int) error {
	fsys, err := erofs.Open(uncompressed{r})
	if err != nil {
		return err
	}
	var unpacked string
	if in.Hash && in.Extract != nil {
		if unpacked, err = in.unpack(n, r); err != nil {
			return err
		}
		defer os.RemoveAll(filepath.Dir(unpacked))
	}
	links, _ := fsys.(interface{ ReadLink(string) (string, error) })
	return fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == "." {
			return err
		}
		if err := in.count(); err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		c := fromInfo(fi)
		if st, ok := fi.Sys().(*erofs.Stat); ok {
			c.UID, c.GID, c.Mode = int(st.UID), int(st.GID), uint32(fi.Mode())&0o7777 // setuid bits are where the disk has them
		}
		if c.Kind == Symlink && links != nil {
			if c.Link, err = links.ReadLink(p); err != nil {
				return err
			}
		}
		if c.Kind == File && unpacked != "" {
			f, err := os.Open(filepath.Join(unpacked, filepath.FromSlash(p)))
			if err != nil {
				return err
			}
			c.SHA256, err = hash(f)
			if err = errors.Join(err, f.Close()); err != nil {
				return err
			}
		}
		n.add(p, c)
		return nil
	})
}

// unpack extracts an EROFS image below a new directory of its own.
func (in *inspector) unpack(n *Node, r io.ReaderAt) (string, error) {
	tmp, err := os.MkdirTemp("", "garboard-inspect-")
	if err != nil {
		return "", fmt.Errorf("%w; set TMPDIR", err)
	}
	image, dir := filepath.Join(tmp, "image"), filepath.Join(tmp, "root")
	f, err := os.Create(image)
	if err == nil {
		_, err = io.Copy(f, io.NewSectionReader(r, 0, n.Size))
		err = errors.Join(err, f.Close())
	}
	if err == nil {
		err = in.Extract(in.ctx, image, dir)
	}
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(tmp))
	}
	return dir, nil
}

func fromInfo(fi fs.FileInfo) *Node {
	c := &Node{Name: fi.Name(), Mode: uint32(fi.Mode().Perm()), Kind: Device}
	for bit, m := range map[fs.FileMode]uint32{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if fi.Mode()&bit != 0 {
			c.Mode |= m
		}
	}
	switch fi.Mode().Type() {
	case 0:
		c.Kind, c.Size = File, fi.Size()
	case fs.ModeDir:
		c.Kind = Dir
	case fs.ModeSymlink:
		c.Kind = Symlink
	}
	return c
}

func (in *inspector) fat(n *Node, r io.ReaderAt, depth int) error {
	f, err := fat32.Read(newStorage(r, n.Size), n.Size, 0, 512)
	if err != nil {
		return err
	}
	return in.library(n, f, "", depth)
}

func (in *inspector) ext4(n *Node, r io.ReaderAt, depth int) error {
	f, err := ext4.Read(newStorage(r, n.Size), n.Size, 0, 512)
	if err != nil {
		return err
	}
	return in.library(n, f, "", depth)
}

func (in *inspector) iso(n *Node, r io.ReaderAt, depth int) error {
	f, err := iso9660.Read(newStorage(r, n.Size), n.Size, 0, 2048)
	if err != nil {
		return err
	}
	if err := in.library(n, f, "", depth); err != nil {
		return err
	}
	if t, err := readTable(r, n.Size); err == nil {
		return in.partitions(n, r, t, depth)
	}
	return nil
}

// readTable reads a GPT. go-diskfs believes the sizes of any header whose
// checksum is right, and entries of no size make it loop: such are refused first.
func readTable(r io.ReaderAt, size int64) (*gpt.Table, error) {
	head := make([]byte, 92)
	if _, err := r.ReadAt(head, 512); err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	entries, count, entry := le.Uint64(head[72:]), le.Uint32(head[80:]), le.Uint32(head[84:])
	if string(head[:8]) != "EFI PART" || le.Uint32(head[12:]) != 92 || entry != 128 || count < 1 || count > 1024 ||
		entries < 2 || entries > uint64(size)/512 || entries*512+uint64(count)*128 > uint64(size) {
		return nil, fmt.Errorf("damaged: %d entries of %d bytes at sector %d are no partition table of this disk", count, entry, entries)
	}
	return gpt.Read(newStorage(r, size), 512, 512)
}

// library reads a file system of go-diskfs below dir.
func (in *inspector) library(n *Node, fsys fs.ReadDirFS, dir string, depth int) error {
	if strings.Count(dir, "/") > 64 {
		return fmt.Errorf("%s: directories lie too deep", dir)
	}
	at := dir
	if at == "" {
		at = "."
	}
	entries, err := fsys.ReadDir(at)
	if err != nil {
		return fmt.Errorf("/%s: %w", dir, err)
	}
	for _, e := range entries {
		if e.Name() == "." || e.Name() == ".." {
			continue
		}
		if err := in.count(); err != nil {
			return err
		}
		fi, err := e.Info()
		if err != nil {
			return err
		}
		p := path.Join(dir, e.Name())
		c := fromInfo(fi)
		if e.IsDir() { // FAT has no modes
			c.Kind, c.Size = Dir, 0
		}
		n.add(p, c)
		switch c.Kind {
		case Dir:
			if err := in.library(n, fsys, p, depth); err != nil {
				return err
			}
		case File:
			f, err := fsys.Open(p)
			if err != nil {
				return fmt.Errorf("/%s: %w", p, err)
			}
			if s, ok := f.(io.ReadSeeker); ok {
				err = in.deep(c, &seekReader{s}, depth)
			}
			if err = errors.Join(err, f.Close()); err != nil {
				return fmt.Errorf("/%s: %w", p, err)
			}
		}
	}
	return nil
}

func (in *inspector) gpt(n *Node, r io.ReaderAt, depth int) error {
	t, err := readTable(r, n.Size)
	if err != nil {
		return err
	}
	return in.partitions(n, r, t, depth)
}

func (in *inspector) partitions(n *Node, r io.ReaderAt, t *gpt.Table, depth int) error {
	for _, p := range t.Partitions {
		if p.Type == gpt.Unused {
			continue
		}
		if err := in.count(); err != nil {
			return err
		}
		start, size := int64(p.Start)*512, (int64(p.End)-int64(p.Start)+1)*512
		if start < 0 || size <= 0 || start+size > n.Size {
			return fmt.Errorf("partition %d (%s) ends behind the disk", p.Index, p.Name)
		}
		c := &Node{Name: fmt.Sprintf("partition %d", p.Index), Kind: Partition, Size: size, Reason: strings.TrimSpace(p.Name + " " + string(p.Type))}
		if _, err := in.content(c, io.NewSectionReader(r, start, size), depth); err != nil {
			return err
		}
		n.Children = append(n.Children, c)
	}
	return nil
}

// deep looks into a file of a library's file system. One that holds others, and is
// read all over for that, is copied first: go-diskfs follows the chain of a FAT's
// clusters from the beginning for each read.
func (in *inspector) deep(n *Node, r *seekReader, depth int) error {
	head := make([]byte, 6)
	if _, err := r.ReadAt(head, 0); err != nil && err != io.EOF {
		return err
	}
	if n.Size < spoolFrom || !at(0, "MZ")(head) && !isCPIO(head) {
		_, err := in.content(n, r, depth)
		return err
	}
	f, err := os.CreateTemp("", "garboard-inspect-")
	if err != nil {
		return err
	}
	defer f.Close()
	if err := os.Remove(f.Name()); err != nil {
		return err
	}
	if _, err := io.CopyBuffer(struct{ io.Writer }{f}, io.NewSectionReader(r, 0, n.Size), make([]byte, 4<<20)); err != nil {
		return err
	}
	_, err = in.content(n, f, depth)
	return err
}

// spoolFrom is the size in bytes from which a copy is worth it.
const spoolFrom = 1 << 20

// seekReader reads at offsets from what can only seek; one caller at a time.
type seekReader struct{ io.ReadSeeker }

func (s *seekReader) ReadAt(p []byte, off int64) (int, error) {
	if _, err := s.Seek(off, io.SeekStart); err != nil {
		return 0, err
	}
	n, err := io.ReadFull(s, p)
	if err == io.ErrUnexpectedEOF {
		err = io.EOF
	}
	return n, err
}

// storage is what go-diskfs reads from: a part of a file, and never written to.
type storage struct{ *io.SectionReader }

func newStorage(r io.ReaderAt, size int64) backend.Storage {
	return &storage{io.NewSectionReader(r, 0, size)}
}

func (s *storage) Stat() (fs.FileInfo, error)              { return storageInfo{s.Size()}, nil }
func (s *storage) Close() error                            { return nil }
func (s *storage) Sys() (*os.File, error)                  { return nil, backend.ErrNotSuitable }
func (s *storage) Writable() (backend.WritableFile, error) { return nil, backend.ErrIncorrectOpenMode }
func (s *storage) Path() string                            { return "" }

type storageInfo struct{ size int64 }

func (i storageInfo) Name() string       { return "image" }
func (i storageInfo) Size() int64        { return i.size }
func (i storageInfo) Mode() fs.FileMode  { return 0o444 }
func (i storageInfo) ModTime() time.Time { return time.Time{} }
func (i storageInfo) IsDir() bool        { return false }
func (i storageInfo) Sys() any           { return nil }

// ExtractWith makes an Options.Extract of a function that prepares fsck.erofs.
func ExtractWith(run func(ctx context.Context, args ...string) error) func(ctx context.Context, image, dir string) error {
	return func(ctx context.Context, image, dir string) error {
		return run(ctx, "--extract="+dir, "--no-preserve-owner", "--no-preserve-perms", image)
	}
}
