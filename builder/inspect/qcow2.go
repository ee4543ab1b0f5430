package inspect

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// qcow2 reads the disk in an image of QEMU's format, as far as ours use it: no
// backing file, no encryption, no compressed clusters, no snapshots
// (docs/interop/qcow2.rst). No library for it is at hand.
func (in *inspector) qcow2(n *Node, r io.ReaderAt, depth int) error {
	q, err := openQCOW2(r)
	if err != nil {
		return err
	}
	disk := &Node{Name: "disk", Kind: File, Size: q.size}
	if _, err := in.content(disk, q, depth); err != nil {
		return err
	}
	n.Format = "qcow2, " + disk.Format
	n.Children, n.Note = disk.Children, disk.Note
	return nil
}

type qcow2Reader struct {
	r    io.ReaderAt
	size int64 // of the disk, bytes
	bits uint  // log2 of the cluster size
	l1   []uint64
	l2   map[uint64][]uint64
}

// offsetMask are the bits of a table entry that hold an offset in the file.
const offsetMask = 0x00fffffffffffe00

func openQCOW2(r io.ReaderAt) (*qcow2Reader, error) {
	head := make([]byte, 72)
	if _, err := r.ReadAt(head, 0); err != nil {
		return nil, err
	}
	be := binary.BigEndian
	version, backing, bits, size, crypt := be.Uint32(head[4:]), be.Uint64(head[8:]), be.Uint32(head[20:]), be.Uint64(head[24:]), be.Uint32(head[32:])
	l1Size, l1Offset := be.Uint32(head[36:]), be.Uint64(head[40:])
	switch {
	case version != 2 && version != 3:
		return nil, fmt.Errorf("qcow2 version %d; convert it: qemu-img convert -O raw", version)
	case backing != 0 || crypt != 0:
		return nil, errors.New("it has a backing file or is encrypted; convert it: qemu-img convert -O raw")
	case bits < 9 || bits > 21 || size > 1<<50:
		return nil, fmt.Errorf("clusters of 2^%d bytes, a disk of %d bytes: damaged", bits, size)
	}
	q := &qcow2Reader{r: r, size: int64(size), bits: uint(bits), l2: map[uint64][]uint64{}}
	perTable := uint64(1) << (2*bits - 3) // bytes of disk that one L1 entry covers
	if want := (size + perTable - 1) / perTable; uint64(l1Size) < want || l1Size > 4<<20 {
		return nil, fmt.Errorf("%d entries in the first table and %d are needed: damaged", l1Size, want)
	}
	if version == 3 {
		var features [8]byte
		if _, err := r.ReadAt(features[:], 72); err != nil {
			return nil, err
		}
		if f := be.Uint64(features[:]) &^ 1; f != 0 { // bit 0: not shut down cleanly
			return nil, fmt.Errorf("incompatible features %#x; convert it: qemu-img convert -O raw", f)
		}
	}
	var err error
	q.l1, err = q.table(l1Offset, int(l1Size))
	return q, err
}

func (q *qcow2Reader) table(off uint64, entries int) ([]uint64, error) {
	if off > 1<<56 {
		return nil, fmt.Errorf("a table at byte %d: damaged", off)
	}
	b := make([]byte, entries*8)
	if _, err := q.r.ReadAt(b, int64(off)); err != nil {
		return nil, fmt.Errorf("table at byte %d: %w", off, err)
	}
	t := make([]uint64, entries)
	for i := range t {
		t[i] = binary.BigEndian.Uint64(b[i*8:])
	}
	return t, nil
}

// ReadAt reads the disk.
func (q *qcow2Reader) ReadAt(p []byte, off int64) (int, error) {
	done := 0
	for done < len(p) {
		at := off + int64(done)
		if at < 0 || at >= q.size {
			return done, io.EOF
		}
		cluster := int64(1) << q.bits
		n := int(min(int64(len(p)-done), cluster-at%cluster, q.size-at))
		host, err := q.cluster(uint64(at) >> q.bits)
		if err != nil {
			return done, err
		}
		if host == 0 {
			clear(p[done : done+n])
		} else if _, err := q.r.ReadAt(p[done:done+n], int64(host)+at%cluster); err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

// cluster is where a cluster of the disk lies in the file; 0 is one of zeros.
func (q *qcow2Reader) cluster(i uint64) (uint64, error) {
	per := uint64(1) << (q.bits - 3)
	l1 := q.l1[i/per] & offsetMask
	if l1 == 0 {
		return 0, nil
	}
	t, ok := q.l2[l1]
	if !ok {
		var err error
		if t, err = q.table(l1, int(per)); err != nil {
			return 0, err
		}
		q.l2[l1] = t
	}
	e := t[i%per]
	if e>>62&1 != 0 {
		return 0, errors.New("it has compressed clusters; convert it: qemu-img convert -O raw")
	}
	if e&1 != 0 {
		return 0, nil
	}
	return e & offsetMask, nil
}
