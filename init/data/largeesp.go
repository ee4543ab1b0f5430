package data

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/diskfs/go-diskfs/partition/gpt"
)

// FAT counts in the sectors of the disk that it is on: Linux does not mount one that
// counts in smaller ones, and firmware need not. So an ISO brings a second form of its
// ESP, for disks with sectors of 4096 bytes. The file in it, which is nearly all of it,
// is on the medium once: both forms have it in one piece.

const (
	// LargeSector is that of the disks which the second form is for, in bytes.
	LargeSector = 4096
	// LargeESPType is the type of the ISO's partition with the second form.
	LargeESPType = gpt.Type("9B0C6E57-6C3A-4D8F-8E21-54B7D4A90C1E")

	largeMagic = "garboard esp 1\n\x00"
	// maxLargeHead is what the file system may take before the file, in bytes: tables
	// for 8 GiB.
	maxLargeHead = 32 << 20
)

// LargeESP is an ESP for sectors of LargeSector bytes with one file in one piece.
type LargeESP struct {
	Head []byte // all of it before the file's content; behind it nothing counts
	From int64  // where the content is in the medium's ESP, in bytes
	Size int64  // of the content
}

// largeHeader is how the partition begins; compressed (gzip) the head follows.
type largeHeader struct {
	Magic                    [16]byte
	Head, From, Size, Packed uint64 // bytes
}

// Marshal is what the ISO's partition holds, from its beginning.
func (l LargeESP) Marshal() ([]byte, error) {
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(l.Head); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	h := largeHeader{Head: uint64(len(l.Head)), From: uint64(l.From), Size: uint64(l.Size), Packed: uint64(packed.Len())}
	copy(h.Magic[:], largeMagic)
	var out bytes.Buffer
	err = binary.Write(&out, binary.LittleEndian, h)
	out.Write(packed.Bytes())
	return out.Bytes(), err
}

// readLargeESP reads what Marshal wrote, for a medium whose ESP has esp bytes.
func readLargeESP(r io.Reader, esp int64) (LargeESP, error) {
	var h largeHeader
	if err := binary.Read(r, binary.LittleEndian, &h); err != nil {
		return LargeESP{}, err
	}
	switch {
	case string(h.Magic[:]) != largeMagic:
		return LargeESP{}, errors.New("it begins with something else")
	case h.Head == 0 || h.Head > maxLargeHead || h.Head%LargeSector != 0 || h.Packed > maxLargeHead:
		return LargeESP{}, fmt.Errorf("%d bytes before the file, compressed %d; whole sectors of %d, at most %d bytes are possible", h.Head, h.Packed, LargeSector, maxLargeHead)
	case h.Size == 0 || h.Size > uint64(esp) || h.From > uint64(esp)-h.Size:
		return LargeESP{}, fmt.Errorf("a file of %d bytes at %d, outside the medium's EFI system partition of %d", h.Size, h.From, esp)
	}
	z, err := gzip.NewReader(io.LimitReader(r, int64(h.Packed)))
	if err != nil {
		return LargeESP{}, err
	}
	head, err := io.ReadAll(io.LimitReader(z, int64(h.Head)+1)) // to its end, and so past gzip's checksum
	if err == nil && len(head) != int(h.Head) {
		err = fmt.Errorf("%d bytes before the file, not %d", len(head), h.Head)
	}
	return LargeESP{Head: head, From: int64(h.From), Size: int64(h.Size)}, err
}

// espFor is the ESP for a disk with sectors of that size, out of the medium, and
// its size in bytes.
func (from *medium) espFor(sector int64, device io.ReaderAt) (io.Reader, int64, error) {
	switch {
	case sector == isoSector:
		return io.NewSectionReader(device, from.start, from.size), from.size, nil
	case sector != LargeSector || from.large == 0:
		return nil, 0, fmt.Errorf("sectors of %d bytes; this ISO has an EFI system partition for disks with %s; many disks can be told to have those (nvme format --lbaf, sg_format --size=%d)", sector, from.sectors(), isoSector)
	}
	l, err := readLargeESP(io.NewSectionReader(device, from.large, from.largeSize), from.size)
	if err != nil {
		return nil, 0, fmt.Errorf("the medium's partition for disks with sectors of %d bytes: %w", LargeSector, err)
	}
	return io.MultiReader(bytes.NewReader(l.Head), io.NewSectionReader(device, from.start+l.From, l.Size)), int64(len(l.Head)) + l.Size, nil
}

func (from *medium) sectors() string {
	if from.large == 0 {
		return fmt.Sprint(isoSector)
	}
	return fmt.Sprintf("%d or %d", isoSector, LargeSector)
}
