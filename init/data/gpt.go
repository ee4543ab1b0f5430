package data

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/diskfs/go-diskfs/backend"
	"github.com/diskfs/go-diskfs/partition/gpt"
	"github.com/google/uuid"
)

// Type is the GPT partition type of Garboard's data partition.
const Type = "15E0D980-A13E-4FA0-AA2A-47E7F0E7E0D0"

const (
	// label is the name of partitions and file systems that are made here.
	label = "garboard-data"
	// making is an attribute of a partition whose file system is not finished:
	// what it holds is nobody's, and it is made anew. Bits 48 to 63 belong to
	// the partition's type (UEFI 2.10, 5.3.3).
	making = uint64(1) << 48
	// align is where partitions begin and end, in bytes.
	align = 1 << 20
	// smallest is the size below which no data partition is made, in bytes.
	smallest = 256 << 20

	headerBytes = 92
	entryBytes  = 128
	maxEntries  = 1024 // of a table; 128 is usual
)

// errNoTable is returned for a disk without a GPT that could be read.
var errNoTable = errors.New("no valid GPT")

// volume is a disk or an image of one. *os.File is a volume.
type volume interface {
	backend.WritableFile
	Sync() error
}

// table is the GPT of one disk.
type table struct {
	gpt       *gpt.Table
	size      int64 // of the disk, in bytes
	sector    int64 // in bytes
	recovered bool  // read from the backup: the primary is damaged or missing
	first     uint64
}

// header is what a GPT header says (UEFI 2.10, 5.3.2), as far as it matters here.
type header struct {
	self, other, first, last, entries uint64
	count                             int64
}

// readHeader reads a header and refuses one that no sane program wrote: go-diskfs
// believes the sizes of any header whose checksum is right.
func readHeader(d io.ReaderAt, lba, size, sector int64) (header, error) {
	b := make([]byte, headerBytes)
	if lba < 1 || (lba+1)*sector > size {
		return header{}, fmt.Errorf("header at sector %d: outside the disk", lba)
	}
	if _, err := d.ReadAt(b, lba*sector); err != nil {
		return header{}, err
	}
	le := binary.LittleEndian
	if !bytes.Equal(b[:8], []byte("EFI PART")) {
		return header{}, errNoTable
	}
	h := header{self: le.Uint64(b[24:]), other: le.Uint64(b[32:]), first: le.Uint64(b[40:]),
		last: le.Uint64(b[48:]), entries: le.Uint64(b[72:]), count: int64(le.Uint32(b[80:]))}
	sectors := uint64(size / sector)
	array := uint64(h.count) * entryBytes
	switch {
	case h.self != uint64(lba):
		return header{}, fmt.Errorf("header at sector %d: it says it is at %d", lba, h.self)
	case le.Uint32(b[12:]) != headerBytes || le.Uint32(b[84:]) != entryBytes:
		return header{}, fmt.Errorf("header at sector %d: header of %d bytes, entries of %d; only %d and %d are known",
			lba, le.Uint32(b[12:]), le.Uint32(b[84:]), headerBytes, entryBytes)
	case h.count < 1 || h.count > maxEntries || array%uint64(sector) != 0:
		return header{}, fmt.Errorf("header at sector %d: %d entries; at most %d that fill whole sectors are possible", lba, h.count, maxEntries)
	case h.entries < 2 || h.entries > sectors || h.entries+array/uint64(sector) > sectors:
		return header{}, fmt.Errorf("header at sector %d: entries at %d, outside the disk", lba, h.entries)
	case h.first < 2 || h.first > h.last || h.last > math.MaxInt64/uint64(sector):
		return header{}, fmt.Errorf("header at sector %d: room for partitions from %d to %d", lba, h.first, h.last)
	}
	return h, nil
}

// view is a volume that ends earlier, or in which some sectors read as zero.
type view struct {
	volume
	size int64
	zero [][2]int64 // from, to
}

func (v view) ReadAt(b []byte, off int64) (int, error) {
	n, err := v.volume.ReadAt(b, off)
	for i := range b[:n] {
		for _, z := range v.zero {
			if at := off + int64(i); at >= z[0] && at < z[1] {
				b[i] = 0
			}
		}
	}
	return n, err
}

func (v view) Seek(off int64, whence int) (int64, error) {
	if whence == io.SeekEnd {
		return v.size + off, nil
	}
	return v.volume.Seek(off, whence)
}

// readTable reads the GPT of a disk of that size with sectors of that size. If
// the primary is damaged it takes the backup: at the end of the disk or, on a
// disk that was made larger meanwhile, where the primary header says.
func readTable(d volume, size, sector int64) (*table, error) {
	if sector < 512 || sector > 1<<16 || sector&(sector-1) != 0 || size < 16*sector {
		return nil, fmt.Errorf("%w: a disk of %d bytes with sectors of %d", errNoTable, size, sector)
	}
	primary, primaryErr := readHeader(d, 1, size, sector)
	ends := []int64{size / sector}
	if primaryErr == nil && primary.other < uint64(size/sector) {
		ends = append(ends, int64(primary.other)+1)
	}
	var errs []error
	for _, end := range ends {
		v := view{volume: d, size: end * sector}
		_, backupErr := readHeader(d, end-1, size, sector)
		if primaryErr != nil {
			v.zero = append(v.zero, [2]int64{sector, 2 * sector})
		}
		if backupErr != nil {
			v.zero = append(v.zero, [2]int64{(end - 1) * sector, end * sector})
		}
		if primaryErr != nil && backupErr != nil {
			errs = append(errs, primaryErr, backupErr)
			continue
		}
		g, err := gpt.Read(v, int(sector), int(sector))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		t := &table{gpt: g, size: size, sector: sector, recovered: g.RecoveredFromBackup}
		if t.recovered {
			b, err := readHeader(d, end-1, size, sector)
			if err != nil {
				return nil, err
			}
			t.first = b.first
		} else {
			t.first = primary.first
		}
		return t, t.check()
	}
	return nil, fmt.Errorf("%w: %w", errNoTable, errors.Join(errs...))
}

// newTable is an empty table for a disk.
func newTable(size, sector int64) (*table, error) {
	if size < smallest {
		return nil, fmt.Errorf("a disk of %d MiB; a data partition needs %d", size>>20, smallest>>20)
	}
	t := &table{size: size, sector: sector, first: uint64(2 + 128*entryBytes/sector)}
	t.gpt = &gpt.Table{LogicalSectorSize: int(sector), PhysicalSectorSize: int(sector), GUID: uuid.NewString()}
	// go-diskfs lays a table out when it writes it for the first time.
	return t, t.gpt.Write(nowhere{}, size)
}

// nowhere takes writes and drops them.
type nowhere struct{ volume }

func (nowhere) WriteAt(b []byte, _ int64) (int, error) { return len(b), nil }
func (nowhere) Sync() error                            { return nil }

// end is the size of the disk that the table was written for, in bytes.
func (t *table) end() int64 { return int64(t.gpt.TotalSize()) }

// check refuses partitions that lie outside the table's room or in each other.
func (t *table) check() error {
	list := slices.Clone(t.gpt.Partitions)
	slices.SortFunc(list, func(a, b *gpt.Partition) int {
		switch {
		case a.Start < b.Start:
			return -1
		case a.Start > b.Start:
			return 1
		}
		return 0
	})
	free := t.first
	last := min(t.gpt.LastDataSector(), uint64(t.size/t.sector)-1)
	for _, p := range list {
		if p.Start < free || p.End < p.Start || p.End > last {
			return fmt.Errorf("partition table: partition %d from sector %d to %d lies outside the disk's room (%d to %d) or in another one", p.Index, p.Start, p.End, t.first, last)
		}
		free = p.End + 1
	}
	return nil
}

// data returns the table's data partitions.
func (t *table) data() []*gpt.Partition {
	var out []*gpt.Partition
	for _, p := range t.gpt.Partitions {
		if strings.EqualFold(string(p.Type), Type) {
			out = append(out, p)
		}
	}
	return out
}

// grown says that the disk is larger than the table knows.
func (t *table) grown() bool { return t.end() < t.size }

// stretch moves the end of the table to that of the disk, and the end of p with
// it if no other partition lies behind it. It changes memory only.
func (t *table) stretch(p *gpt.Partition) (larger bool) {
	t.gpt.Resize(uint64(t.size))
	for _, q := range t.gpt.Partitions {
		if q.Start > p.Start {
			return false
		}
	}
	end := t.lastAligned()
	if end <= p.End {
		return false
	}
	p.End = end
	p.Size = (p.End - p.Start + 1) * uint64(t.sector)
	return true
}

// lastAligned is the last sector of the room before a boundary of align bytes.
func (t *table) lastAligned() uint64 {
	per := uint64(align / t.sector)
	return (t.gpt.LastDataSector()+1)/per*per - 1
}

// add puts a data partition, marked as being made, into the largest gap, or
// behind the last partition only: gaps may be kept for something.
func (t *table) add(behind bool) (*gpt.Partition, error) {
	t.gpt.Resize(uint64(t.size))
	per := uint64(align / t.sector)
	list := slices.Clone(t.gpt.Partitions)
	slices.SortFunc(list, func(a, b *gpt.Partition) int { return int(min(max(int64(a.Start)-int64(b.Start), -1), 1)) })
	var start, length uint64
	from := t.first
	consider := func(to uint64) { // the first sector that is taken
		a, b := (from+per-1)/per*per, to/per*per
		if b > a && b-a > length {
			start, length = a, b-a
		}
	}
	used := map[int]bool{}
	where := "in the largest gap between partitions"
	for _, p := range list {
		if !behind {
			consider(p.Start)
		}
		from = p.End + 1
		used[p.Index] = true
	}
	if behind {
		where = "behind the last partition"
	}
	consider(t.gpt.LastDataSector() + 1)
	if length*uint64(t.sector) < smallest {
		return nil, fmt.Errorf("%d MiB are free %s; a data partition needs %d", length*uint64(t.sector)>>20, where, smallest>>20)
	}
	index := 1
	for used[index] {
		index++
	}
	p := &gpt.Partition{Index: index, Start: start, End: start + length - 1, Size: length * uint64(t.sector),
		Type: gpt.Type(Type), Name: label, GUID: strings.ToUpper(uuid.NewString()), Attributes: making}
	t.gpt.Partitions = append(t.gpt.Partitions, p)
	return p, nil
}

// write writes the table: backup entries, backup header, primary entries,
// primary header, each synced before the next, then the protective MBR. Cut
// anywhere, readTable finds either the old table or the new one.
func (t *table) write(d volume) error {
	t.gpt.ProtectiveMBR = false // below: go-diskfs wraps its size on large disks
	if err := t.gpt.Write(d, t.size); err != nil {
		return fmt.Errorf("write the partition table: %w", err)
	}
	t.recovered = false
	return writeMBR(d, uint64(t.size/t.sector))
}

// writeMBR makes the protective MBR (UEFI 2.10, 5.2.3) span the disk. An MBR
// with partitions of its own (hybrid) stays as it is.
func writeMBR(d volume, sectors uint64) error {
	b := make([]byte, 512)
	if _, err := d.ReadAt(b, 0); err != nil {
		return fmt.Errorf("read the MBR: %w", err)
	}
	old := bytes.Clone(b)
	signed := b[510] == 0x55 && b[511] == 0xaa
	if signed && (b[450] != 0xee || !allZero(b[462:510])) {
		return nil
	}
	clear(b[446:510])
	copy(b[447:450], []byte{0x00, 0x02, 0x00})
	b[450] = 0xee
	copy(b[451:454], []byte{0xff, 0xff, 0xff})
	binary.LittleEndian.PutUint32(b[454:], 1)
	binary.LittleEndian.PutUint32(b[458:], uint32(min(sectors-1, math.MaxUint32)))
	b[510], b[511] = 0x55, 0xaa
	if bytes.Equal(b, old) {
		return nil
	}
	if _, err := d.WriteAt(b, 0); err != nil {
		return fmt.Errorf("write the MBR: %w", err)
	}
	if err := d.Sync(); err != nil {
		return fmt.Errorf("write the MBR: %w", err)
	}
	return nil
}

// startsEmpty says whether the first MiB holds nothing but zeros.
func startsEmpty(d io.ReaderAt) (bool, error) {
	b := make([]byte, align)
	n, err := d.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return allZero(b[:n]), nil
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
