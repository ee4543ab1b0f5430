package data

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"strings"
	"testing"

	"github.com/diskfs/go-diskfs/partition/gpt"
)

const foreignType = gpt.Type("0FC63DAF-8483-4772-8E79-3D69D8477DE4")

// twoPartitions writes a table with a foreign partition and, behind it, ours.
func twoPartitions(t *testing.T, f volume, size int64) *table {
	t.Helper()
	tab, err := newTable(size, sector)
	if err != nil {
		t.Fatal(err)
	}
	tab.gpt.Partitions = append(tab.gpt.Partitions, &gpt.Partition{Index: 1, Start: 2048, End: 2048 + 64*2048 - 1, Size: 64 << 20,
		Type: foreignType, Name: "root \u00e9", GUID: "11111111-2222-4333-8444-555555555555", Attributes: 4})
	if _, err := tab.add(false); err != nil {
		t.Fatal(err)
	}
	tab.gpt.Partitions[1].Attributes = 0
	if err := tab.write(f); err != nil {
		t.Fatal(err)
	}
	return tab
}

func describe(tab *table) string {
	var s []string
	for _, p := range tab.gpt.Partitions {
		s = append(s, fmt.Sprintf("%d %s %d-%d %x %q", p.Index, p.GUID, p.Start, p.End, p.Attributes, p.Name))
	}
	return strings.Join(s, "; ")
}

func TestTableJudgedByOthers(t *testing.T) {
	for _, size := range []int64{400 * mib, 400*mib + 7*512, 3 << 40} {
		f := sparse(t, size)
		want := twoPartitions(t, f, size)
		got, err := readTable(f, size, sector)
		if err != nil {
			t.Fatal(err)
		}
		if describe(got) != describe(want) || got.grown() || got.recovered {
			t.Errorf("read %s, wrote %s", describe(got), describe(want))
		}
		sgdiskClean(t, f)
		if out, ok, err := pinned(t, "sgdisk", "-i", "2", f.Name()); ok && (err != nil || !strings.Contains(out, Type) || !strings.Contains(out, label)) {
			t.Errorf("sgdisk -i 2: %v\n%s", err, out)
		}
	}
}

// cuts calls f with the image as a power failure can leave it: after each
// write, and in each after each sector.
func cuts(t *testing.T, start func() *os.File, writes []write, f func(name string, d *os.File)) {
	t.Helper()
	for n, w := range writes {
		step := int64(1)
		if len(w.data) > 4096 {
			step = 8
		}
		for torn := int64(0); torn <= int64(len(w.data))/sector; torn += step {
			d := replay(t, start, writes, n, torn*sector)
			f(fmt.Sprintf("write %d of %d at %d, %d sectors of it", n+1, len(writes), w.off, torn), d)
			d.Close()
			os.Remove(d.Name())
		}
	}
}

func TestPowerCutWhileGrowing(t *testing.T) {
	const before, after = 400 * mib, 700*mib + 3*512
	grownImage := func() *os.File {
		f := sparse(t, before)
		twoPartitions(t, f, before)
		if err := f.Truncate(after); err != nil {
			t.Fatal(err)
		}
		return f
	}
	grow := func(d volume) (string, string) {
		tab, err := readTable(d, after, sector)
		if err != nil {
			t.Fatal(err)
		}
		old := describe(tab)
		ours := tab.data()
		if len(ours) != 1 {
			t.Fatalf("data partitions: %s", describe(tab))
		}
		if tab.recovered || tab.grown() {
			tab.stretch(ours[0])
			if err := tab.write(d); err != nil {
				t.Fatal(err)
			}
		}
		return old, describe(tab)
	}
	// GUIDs are random: every image begins as a copy of one.
	master := grownImage()
	copyMaster := func() *os.File {
		f := sparse(t, after)
		for _, at := range [][2]int64{{0, mib}, {before - mib, mib}} {
			b := make([]byte, at[1])
			if _, err := master.ReadAt(b, at[0]); err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteAt(b, at[0]); err != nil {
				t.Fatal(err)
			}
		}
		return f
	}
	r := &recorder{File: copyMaster(), t: t}
	oldState, newState := grow(r)
	if oldState == newState || len(r.writes) != 5 {
		t.Fatalf("%d writes from %s to %s", len(r.writes), oldState, newState)
	}
	sgdiskClean(t, r.File)
	tried := 0
	cuts(t, copyMaster, r.writes, func(name string, d *os.File) {
		tried++
		found, final := grow(d)
		if found != oldState && found != newState {
			t.Errorf("%s: found %s", name, found)
		}
		if final != newState {
			t.Errorf("%s: grown again to %s, want %s", name, final, newState)
		}
		if tab, err := readTable(d, after, sector); err != nil || tab.recovered || tab.grown() {
			t.Errorf("%s: %v after the repair", name, err)
		}
		if tried%5 == 0 {
			sgdiskClean(t, d)
		}
		// The disk is made larger once more before the next boot.
		if err := d.Truncate(after + 64*mib); err != nil {
			t.Fatal(err)
		}
	})
	// Cut, and the disk made larger again before anybody repaired the table.
	cuts(t, copyMaster, r.writes, func(name string, d *os.File) {
		const more = after + 64*mib
		if err := d.Truncate(more); err != nil {
			t.Fatal(err)
		}
		tab, err := readTable(d, more, sector)
		if err == nil {
			if got := describe(tab); got != oldState && got != newState {
				t.Errorf("%s, then larger: found %s", name, got)
			}
		} else {
			t.Errorf("%s, then larger: %v", name, err)
		}
	})
	t.Logf("%d cuts", tried)
}

// damage changes bytes of an image and mends the header's checksum, as somebody
// would who wants to harm the reader.
func damage(t *testing.T, f *os.File, lba int64, off int, value uint64, size int) {
	t.Helper()
	b := make([]byte, 92)
	if _, err := f.ReadAt(b, lba*sector); err != nil {
		t.Fatal(err)
	}
	v := make([]byte, 8)
	binary.LittleEndian.PutUint64(v, value)
	copy(b[off:off+size], v)
	clear(b[16:20])
	binary.LittleEndian.PutUint32(b[16:], crc32.ChecksumIEEE(b))
	if _, err := f.WriteAt(b, lba*sector); err != nil {
		t.Fatal(err)
	}
}

func TestHostileHeaders(t *testing.T) {
	for _, tt := range []struct {
		name  string
		off   int
		value uint64
		size  int
	}{
		{"entries of no size", 84, 0, 4},
		{"four thousand million entries", 80, 1<<32 - 1, 4},
		{"no entries", 80, 0, 4},
		{"entries behind the disk", 72, 1 << 60, 8},
		{"it is elsewhere", 24, 7, 8},
		{"no room", 40, 1 << 62, 8},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const size = 400 * mib
			f := sparse(t, size)
			want := describe(twoPartitions(t, f, size))
			damage(t, f, 1, tt.off, tt.value, tt.size)
			tab, err := readTable(f, size, sector)
			if err != nil || !tab.recovered || describe(tab) != want {
				t.Fatalf("the backup was not taken: %v", err)
			}
			damage(t, f, size/sector-1, tt.off, tt.value, tt.size)
			if _, err := readTable(f, size, sector); !errors.Is(err, errNoTable) {
				t.Fatalf("both damaged: %v", err)
			}
		})
	}
}

func TestOverlappingPartitionsAreRefused(t *testing.T) {
	const size = 600 * mib
	f := sparse(t, size)
	tab := twoPartitions(t, f, size)
	tab.gpt.Partitions[0].End += 4096
	tab.gpt.Partitions[0].Size += 4096 * 512
	if err := tab.write(f); err != nil {
		t.Fatal(err)
	}
	if _, err := readTable(f, size, sector); err == nil || !strings.Contains(err.Error(), "in another one") {
		t.Errorf("got %v", err)
	}
}

func TestHybridMBRIsLeftAlone(t *testing.T) {
	const size = 400 * mib
	f := sparse(t, size)
	mbr := make([]byte, 512)
	mbr[450], mbr[466], mbr[510], mbr[511] = 0xee, 0x83, 0x55, 0xaa
	if _, err := f.WriteAt(mbr, 0); err != nil {
		t.Fatal(err)
	}
	twoPartitions(t, f, size)
	got := make([]byte, 512)
	if _, err := f.ReadAt(got, 0); err != nil || string(got) != string(mbr) {
		t.Errorf("the MBR was changed: %v", err)
	}
}

func FuzzTable(f *testing.F) {
	img, err := os.CreateTemp(f.TempDir(), "disk")
	if err != nil {
		f.Fatal(err)
	}
	const size = 256 * mib
	img.Truncate(size)
	tab, err := newTable(size, sector)
	if err != nil {
		f.Fatal(err)
	}
	tab.gpt.Partitions = append(tab.gpt.Partitions, &gpt.Partition{Index: 1, Start: 2048, End: 4095, Type: Type, Name: "x", GUID: "11111111-2222-4333-8444-555555555555"})
	if err := tab.write(img); err != nil {
		f.Fatal(err)
	}
	head := make([]byte, 4096)
	img.ReadAt(head, 0)
	f.Add(head[512:604], head[1024:1152])
	f.Fuzz(func(t *testing.T, header, entry []byte) {
		// A small disk: 64 KiB, both copies from the input, all checksums right.
		const small = 128 * sector
		d := memory{b: make([]byte, small)}
		if len(header) > 92 {
			header = header[:92]
		}
		h := make([]byte, 92)
		copy(h, header)
		if n := binary.LittleEndian.Uint32(h[80:]); n <= 64 {
			array := make([]byte, n*128)
			copy(array, entry)
			binary.LittleEndian.PutUint32(h[88:], crc32.ChecksumIEEE(array))
			copy(d.b[1024:], array)
		}
		for _, lba := range []int64{1, small/sector - 1} {
			at := bytes.Clone(h)
			if binary.LittleEndian.Uint64(h[24:]) == 1 { // else the input says where it is
				binary.LittleEndian.PutUint64(at[24:], uint64(lba))
			}
			clear(at[16:20])
			binary.LittleEndian.PutUint32(at[16:], crc32.ChecksumIEEE(at))
			copy(d.b[lba*sector:], at)
		}
		tab, err := readTable(d, small, sector)
		if err != nil {
			return
		}
		for _, p := range tab.gpt.Partitions {
			if p.End < p.Start || p.Start < 2 {
				t.Fatalf("partition %d-%d", p.Start, p.End)
			}
		}
		if tab.end() > small*2 && tab.grown() {
			t.Fatal("a table larger than its disk has grown")
		}
	})
}

func FuzzSuper(f *testing.F) {
	f.Add(super(1 << 20))
	f.Fuzz(func(t *testing.T, b []byte) {
		d := make([]byte, 8192)
		copy(d[superOffset:], b)
		s, err := readSuper(bytes.NewReader(d))
		if err == nil && (s.size() <= 0 || s.blockSize < 1024 || s.blockSize > 65536) {
			t.Fatalf("%+v", s)
		}
	})
}
