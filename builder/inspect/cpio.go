package inspect

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"github.com/cavaliergopher/cpio"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

const (
	zstdMagic = "\x28\xb5\x2f\xfd"
	gzipMagic = "\x1f\x8b"
)

func isCPIO(head []byte) bool {
	head = bytes.TrimLeft(head, "\x00")
	if bytes.HasPrefix(head, []byte(gzipMagic)) { // many other things are compressed with it
		z, err := gzip.NewReader(bytes.NewReader(head))
		if err != nil {
			return false
		}
		head = make([]byte, 6)
		_, _ = io.ReadFull(z, head) // what came is looked at
	}
	for _, m := range []string{"070701", "070702", zstdMagic} {
		if bytes.HasPrefix(head, []byte(m)) {
			return true
		}
	}
	return false
}

// initramfs reads archives one after the other as the kernel does, with zeros
// between them (Documentation/driver-api/early-userspace/buffer-format.rst). One
// alone lies directly in n; of several each is a node.
func (in *inspector) initramfs(n *Node, file io.ReaderAt, depth int) error {
	var parts []*Node
	for off := int64(0); ; {
		off = skipZeros(file, off, n.Size)
		if off >= n.Size {
			break
		}
		part := &Node{Name: fmt.Sprintf("archive %d", len(parts)+1), Kind: Archive}
		used, err := in.archive(part, io.NewSectionReader(file, off, n.Size-off), depth)
		if err != nil {
			return fmt.Errorf("archive %d, at byte %d: %w", len(parts)+1, off, err)
		}
		part.Size = used
		off += used
		parts = append(parts, part)
	}
	if len(parts) == 1 {
		n.Format, n.Children = "initramfs, "+parts[0].Format, parts[0].Children
		return nil
	}
	n.Children = parts
	return nil
}

// archive reads one archive, compressed or not, and says how long it is.
func (in *inspector) archive(n *Node, r *io.SectionReader, depth int) (int64, error) {
	head := make([]byte, 6)
	if _, err := r.ReadAt(head, 0); err != nil && err != io.EOF {
		return 0, err
	}
	switch {
	case bytes.HasPrefix(head, []byte(zstdMagic)):
		n.Format = "cpio, zstd"
		size, err := zstdFrame(r)
		if err != nil {
			return 0, err
		}
		z, err := zstd.NewReader(io.NewSectionReader(r, 0, size), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			return 0, err
		}
		defer z.Close()
		return size, in.entriesOf(n, z, nil, depth)
	case bytes.HasPrefix(head, []byte(gzipMagic)):
		n.Format = "cpio, gzip"
		counted := &counter{r: r}
		buf := bufio.NewReader(counted) // gzip takes single bytes from it, and no more than it needs
		z, err := gzip.NewReader(buf)
		if err != nil {
			return 0, err
		}
		z.Multistream(false)
		if err := in.entriesOf(n, z, nil, depth); err != nil {
			return 0, err
		}
		if _, err := io.Copy(io.Discard, z); err != nil {
			return 0, err
		}
		return counted.n - int64(buf.Buffered()), nil
	case bytes.HasPrefix(head, []byte("07070")):
		n.Format = "cpio"
		counted := &counter{r: r}
		if err := in.entriesOf(n, counted, r, depth); err != nil {
			return 0, err
		}
		return (counted.n + 3) &^ 3, nil
	}
	return 0, fmt.Errorf("neither a cpio archive nor compressed with zstd or gzip: it begins with %q", head)
}

// entriesOf reads the archives of one stream; several may follow each other in
// it. at, where there is one, lets contents be read in place.
func (in *inspector) entriesOf(n *Node, r io.Reader, at *io.SectionReader, depth int) error {
	counted := &counter{r: r}
	for {
		c := cpio.NewReader(counted)
		for {
			h, err := c.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				return err
			}
			if err := in.count(); err != nil {
				return err
			}
			if err := in.entry(n, h, c, at, counted.n, depth); err != nil {
				return fmt.Errorf("/%s: %w", h.Name, err)
			}
		}
		if at != nil {
			return nil // the caller looks for the next
		}
		// Inside a compressed stream another one may follow after padding.
		one := []byte{0}
		for one[0] == 0 {
			if _, err := io.ReadFull(r, one); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
		}
		counted = &counter{r: io.MultiReader(bytes.NewReader(one), r)}
	}
}

func (in *inspector) entry(n *Node, h *cpio.Header, c *cpio.Reader, at *io.SectionReader, off int64, depth int) error {
	e := &Node{Size: h.Size, Mode: uint32(h.Mode) & 0o7777, UID: h.Uid, GID: h.Guid}
	switch h.Mode & cpio.ModeType {
	case cpio.TypeDir:
		e.Kind = Dir
	case cpio.TypeSymlink:
		e.Kind, e.Link = Symlink, h.Linkname
	case cpio.TypeReg:
		e.Kind = File
		var content io.ReaderAt
		if at != nil && off+h.Size <= at.Size() {
			content = io.NewSectionReader(at, off, h.Size)
		} else {
			b, err := io.ReadAll(io.LimitReader(c, h.Size))
			if err != nil {
				return err
			}
			if int64(len(b)) != h.Size {
				return io.ErrUnexpectedEOF
			}
			content = bytes.NewReader(b)
		}
		if _, err := in.content(e, content, depth); err != nil {
			return err
		}
	default:
		e.Kind = Device
	}
	if p := strings.Trim(h.Name, "/"); p != "" && p != "." {
		n.add(p, e)
	}
	return nil
}

// zstdFrame is the length of the frames at the beginning of r, up to what is
// none (RFC 8878, section 3.1.1).
func zstdFrame(r *io.SectionReader) (int64, error) {
	off := int64(0)
	for {
		head := make([]byte, zstd.HeaderMaxSize)
		n, _ := r.ReadAt(head, off)
		if n < 4 || string(head[:4]) != zstdMagic {
			return off, nil
		}
		var h zstd.Header
		if err := h.Decode(head[:n]); err != nil {
			return 0, err
		}
		off += int64(h.HeaderSize)
		for last := false; !last; {
			var b [4]byte
			if _, err := r.ReadAt(b[:3], off); err != nil {
				return 0, fmt.Errorf("zstd: the frame ends early: %w", err)
			}
			v := binary.LittleEndian.Uint32(b[:])
			last = v&1 != 0
			size := int64(v >> 3)
			if v>>1&3 == 1 { // one byte, repeated
				size = 1
			}
			off += 3 + size
		}
		if h.HasCheckSum {
			off += 4
		}
		if off > r.Size() {
			return 0, fmt.Errorf("zstd: the frame ends early: %w", io.ErrUnexpectedEOF)
		}
	}
}

func skipZeros(r io.ReaderAt, off, size int64) int64 {
	buf := make([]byte, 4096)
	for off < size {
		n, _ := r.ReadAt(buf[:min(int64(len(buf)), size-off)], off)
		if n == 0 {
			return size
		}
		if rest := bytes.TrimLeft(buf[:n], "\x00"); len(rest) > 0 {
			return off + int64(n-len(rest))
		}
		off += int64(n)
	}
	return size
}

// counter counts what was read through it.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}
