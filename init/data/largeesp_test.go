package data

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

// A disk with sectors of 4096 bytes gets a table in them, and the medium's second form
// of the ESP. sfdisk reads the table as such a disk's.
func TestInstallLargeSectors(t *testing.T) {
	to := sparse(t, bigEnough)
	m, esp := installer(t, to)
	m.sysfile("block/vda/queue/logical_block_size", "4096")
	if err := m.Install(t.Context(), Install{Target: "/dev/vda", Arch: "amd64"}); err != nil {
		t.Fatalf("%v; said %q", err, m.said)
	}
	tab, err := readTable(to, bigEnough, LargeSector)
	if err != nil {
		t.Fatal(err)
	}
	layout, err := InstalledLayout("amd64")
	if err != nil || len(tab.gpt.Partitions) != len(layout) {
		t.Fatalf("%s, %v", describe(tab), err)
	}
	for i, p := range tab.gpt.Partitions {
		if l := layout[i]; p.Index != l.Number || p.Type != l.Type || int64(p.Start)*LargeSector != l.Start*mib || l.Size != 0 && int64(p.Size) != l.Size*mib {
			t.Errorf("partition %+v, want %+v", p, l)
		}
	}
	large := largeOf(esp)
	want := append(bytes.Clone(large.Head), esp[large.From:large.From+large.Size]...)
	got := make([]byte, len(want))
	if _, err := to.ReadAt(got, layout[espNumber-1].Start*mib); err != nil || !bytes.Equal(got, want) {
		t.Errorf("there is something else in the ESP (%v)", err)
	}
	sfdiskClean(t, to.Name(), len(layout))

	// The first boot makes the data partition there.
	next := newMachine(t)
	next.disk("vda", to.Name())
	next.sysfile("block/vda/queue/logical_block_size", "4096")
	p, err := next.Prepare(t.Context())
	if err != nil || p == nil || filepath.Base(p.Device) != "vda5" || !p.fresh {
		t.Errorf("the first boot: %+v, %v, said %q", p, err, next.said)
	}
}

// sfdiskClean has sfdisk look at the table of a disk with large sectors: as one with
// small ones it has none.
func sfdiskClean(t *testing.T, path string, partitions int) {
	t.Helper()
	for _, tt := range []struct {
		sector     string
		gpt        bool
		partitions int
	}{{"4096", true, partitions}, {"512", false, 1}} {
		out, ok, err := pinned(t, "sfdisk", "--sector-size="+tt.sector, "--verify", path)
		dump, _, err2 := pinned(t, "sfdisk", "--sector-size="+tt.sector, "--dump", path)
		if !ok {
			return
		}
		if err != nil || err2 != nil || !strings.Contains(out, "No errors detected") ||
			strings.Contains(dump, "label: gpt") != tt.gpt || strings.Count(dump, " : start=") != tt.partitions {
			t.Errorf("sfdisk with sectors of %s: %v\n%s\n%v\n%s", tt.sector, err, out, err2, dump)
		}
	}
}

// A data partition on an empty disk with large sectors, and on one that has grown.
func TestLargeSectors(t *testing.T) {
	f := sparse(t, 600*mib)
	tab, err := newTable(600*mib, LargeSector)
	if err != nil {
		t.Fatal(err)
	}
	p, err := tab.add(false)
	if err != nil {
		t.Fatal(err)
	}
	if err := tab.write(f); err != nil {
		t.Fatal(err)
	}
	if p.Start != 256 || p.Size != uint64(598*mib) {
		t.Errorf("the partition begins at sector %d and has %d MiB", p.Start, p.Size>>20)
	}
	sfdiskClean(t, f.Name(), 1)
	if err := f.Truncate(900 * mib); err != nil {
		t.Fatal(err)
	}
	tab, err = readTable(f, 900*mib, LargeSector)
	if err != nil || !tab.grown() {
		t.Fatalf("a disk that was made larger: %v", err)
	}
	if p := tab.gpt.Partitions[0]; !tab.stretch(p) || p.Size != uint64(898*mib) {
		t.Errorf("the partition now has %d MiB", p.Size>>20)
	}
	if err := tab.write(f); err != nil {
		t.Fatal(err)
	}
	sfdiskClean(t, f.Name(), 1)
	// Without its primary, by the backup.
	if _, err := f.WriteAt(make([]byte, mib), 0); err != nil {
		t.Fatal(err)
	}
	if tab, err = readTable(f, 900*mib, LargeSector); err != nil || !tab.recovered || len(tab.gpt.Partitions) != 1 {
		t.Errorf("without the primary: %v", err)
	}
}

func largeESP(t testing.TB, change func(*LargeESP)) []byte {
	t.Helper()
	l := LargeESP{Head: make([]byte, 3*LargeSector), From: 512, Size: 1000}
	l.Head[5] = 7
	if change != nil {
		change(&l)
	}
	b, err := l.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestReadLargeESP(t *testing.T) {
	const esp = 4096
	good := largeESP(t, nil)
	l, err := readLargeESP(bytes.NewReader(append(bytes.Clone(good), make([]byte, 2048)...)), esp) // a partition is longer
	if err != nil || len(l.Head) != 3*LargeSector || l.Head[5] != 7 || l.From != 512 || l.Size != 1000 {
		t.Errorf("%+v, %v", l, err)
	}
	edge := largeESP(t, func(l *LargeESP) { l.From, l.Size = esp-1000, 1000 })
	if _, err := readLargeESP(bytes.NewReader(edge), esp); err != nil {
		t.Error(err)
	}
	flip := func(at int) []byte {
		b := bytes.Clone(good)
		b[at] ^= 0x40
		return b
	}
	for name, b := range map[string][]byte{
		"empty":               nil,
		"zeros":               make([]byte, 4096),
		"magic":               flip(0),
		"cut header":          good[:40],
		"cut":                 good[:len(good)-9],
		"checksum":            flip(len(good) - 8),
		"compressed":          flip(60),
		"length":              largeESP(t, func(l *LargeESP) { l.Head = l.Head[:100] }),
		"nothing before":      largeESP(t, func(l *LargeESP) { l.Head = nil }),
		"behind the ESP":      largeESP(t, func(l *LargeESP) { l.From = esp - 999 }),
		"larger than the ESP": largeESP(t, func(l *LargeESP) { l.From, l.Size = 0, esp+1 }),
		"negative":            largeESP(t, func(l *LargeESP) { l.From = -1 }),
		"negative size":       largeESP(t, func(l *LargeESP) { l.Size = -1 }),
		"no file":             largeESP(t, func(l *LargeESP) { l.Size = 0 }),
		"more than it says":   append(append(bytes.Clone(good[:16]), 0, 0x10, 0, 0, 0, 0, 0, 0), good[24:]...),
		"less than it says":   append(append(bytes.Clone(good[:16]), 0, 0x50, 0, 0, 0, 0, 0, 0), good[24:]...),
		"far more":            append(append(bytes.Clone(good[:16]), 0, 0, 0, 0, 0, 1, 0, 0), good[24:]...),
	} {
		if l, err := readLargeESP(bytes.NewReader(b), esp); err == nil {
			t.Errorf("%s: taken, with %d bytes before the file at %d", name, len(l.Head), l.From)
		}
	}
}

// A medium whose second form is damaged, or that has none, is said; the target stays.
func TestInstallWithoutLargeESP(t *testing.T) {
	for fault, do := range map[string]func(m *machine){
		"partition for disks with sectors of 4096 bytes: it begins with something else": func(m *machine) {
			f, _ := isoImage(t)
			if _, err := f.WriteAt(make([]byte, 512), (204+isoESPMiB*2048)*512); err != nil {
				t.Fatal(err)
			}
			m.disk("sr0", f.Name())
		},
		"sectors of 4096 bytes; this ISO has an EFI system partition for disks with 512; many": func(m *machine) {
			f, _ := isoImage(t)
			tab, err := readTable(f, 300*mib, sector)
			if err != nil {
				t.Fatal(err)
			}
			tab.gpt.Partitions = tab.gpt.Partitions[:2]
			if err := tab.write(f); err != nil {
				t.Fatal(err)
			}
			m.disk("sr0", f.Name())
		},
	} {
		to := sparse(t, bigEnough)
		m, _ := installer(t, to)
		m.sysfile("block/vda/queue/logical_block_size", "4096")
		do(m)
		before := sum(t, to)
		if err := m.Install(t.Context(), Install{Target: "/dev/vda", Arch: "amd64", Force: true}); err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("error %v, want %q", err, fault)
		}
		if sum(t, to) != before {
			t.Errorf("%s: the disk was written to", fault)
		}
	}
}

func FuzzReadLargeESP(f *testing.F) {
	f.Add(largeESP(f, nil), int64(4096))
	f.Add(largeESP(f, func(l *LargeESP) { l.From = -1 }), int64(4096))
	f.Fuzz(func(t *testing.T, b []byte, esp int64) {
		l, err := readLargeESP(bytes.NewReader(b), esp)
		if err == nil && (len(l.Head) == 0 || len(l.Head)%LargeSector != 0 || l.Size <= 0 || l.From < 0 || l.From+l.Size > esp) {
			t.Errorf("%d bytes before the file, %d at %d of %d", len(l.Head), l.Size, l.From, esp)
		}
	})
}
