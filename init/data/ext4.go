package data

import (
	"encoding/binary"
	"fmt"
	"io"
)

// superblock is what PID 1 asks of an ext4 superblock
// (Documentation/filesystems/ext4/super.rst); all else is e2fsck's business.
type superblock struct {
	blocks    uint64
	blockSize int64 // bytes
}

func (s superblock) size() int64 { return int64(s.blocks) * s.blockSize }

const (
	superOffset  = 1024
	superMagic   = 0xEF53
	incompat64   = 0x80
	maxBlockLog  = 6       // 64 KiB
	maxBlocks    = 1 << 46 // keeps sizes within an int64
	superScanned = 0x154
)

// readSuper reads the superblock. An error means that there is none to speak of.
func readSuper(d io.ReaderAt) (superblock, error) {
	b := make([]byte, superScanned)
	if _, err := d.ReadAt(b, superOffset); err != nil {
		return superblock{}, fmt.Errorf("read the superblock: %w", err)
	}
	le := binary.LittleEndian
	if m := le.Uint16(b[0x38:]); m != superMagic {
		return superblock{}, fmt.Errorf("no ext4 superblock (magic %#x)", m)
	}
	shift := le.Uint32(b[0x18:])
	blocks := uint64(le.Uint32(b[0x4:]))
	if le.Uint32(b[0x60:])&incompat64 != 0 {
		blocks |= uint64(le.Uint32(b[0x150:])) << 32
	}
	if shift > maxBlockLog || blocks == 0 || blocks > maxBlocks {
		return superblock{}, fmt.Errorf("ext4 superblock: %d blocks of 2^%d KiB", blocks, shift)
	}
	return superblock{blocks: blocks, blockSize: 1024 << shift}, nil
}

// copies are where mke2fs puts copies of the superblock, in bytes: groups 1 and
// 3 with blocks of 4, 2 and 1 KiB.
var copies = []int64{32768 << 12, 98304 << 12, 16384 << 11, 49152 << 11, 8193 << 10, 24577 << 10}

// hasCopy says whether there is a copy of a superblock where one may be.
func hasCopy(d io.ReaderAt) bool {
	b := make([]byte, 2)
	for _, at := range copies {
		if _, err := d.ReadAt(b, at+0x38); err == nil && binary.LittleEndian.Uint16(b) == superMagic {
			return true
		}
	}
	return false
}
