package data

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/diskfs/go-diskfs/partition/gpt"
)

const (
	espType = gpt.Type("C12A7328-F81F-11D2-BA4B-00A0C93EC93B")
	guidESP = "EEEEEEEE-0000-4000-8000-000000000000"
)

// bootImage makes a disk as an image builder does: an ESP, a gap that is kept for
// something, a partition of 64 MiB, and what is left.
func bootImage(t *testing.T, built, size int64) *os.File {
	t.Helper()
	f := sparse(t, built)
	tab, err := newTable(built, sector)
	if err != nil {
		t.Fatal(err)
	}
	tab.gpt.Partitions = append(tab.gpt.Partitions,
		&gpt.Partition{Index: 1, Start: 2048, End: 64*2048 - 1, Type: espType, Name: "esp", GUID: guidESP},
		&gpt.Partition{Index: 3, Start: 400 * 2048, End: 464*2048 - 1, Type: foreignType, Name: "other", GUID: guidB})
	if err := tab.write(f); err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	return f
}

func (m *machine) startedFrom(guid string) { m.Boot = func() (string, error) { return guid, nil } }

func TestMadeOnBootDisk(t *testing.T) {
	for _, built := range []int64{900 * mib, 500 * mib} { // 500: written to a larger disk
		m := newMachine(t)
		m.disk("vda", sparse(t, 600*mib).Name())
		f := bootImage(t, built, 900*mib)
		m.disk("nvme0n1", f.Name())
		m.startedFrom(strings.ToLower(guidESP))
		p, err := m.Prepare(t.Context())
		if err != nil || p == nil || filepath.Base(p.Device) != "nvme0n1p2" {
			t.Fatalf("%+v, %v, said %q", p, err, m.said)
		}
		if err := m.Finish(p, "/var"); err != nil {
			t.Fatal(err)
		}
		// The first MiB behind the last partition to the last whole one of the disk.
		if want := []string{"nvme0n1p2 464+435, was <nil>", "sync"}; !slices.Equal(m.set, want) {
			t.Errorf("kernel: %q, want %q", m.set, want)
		}
		tab, err := readTable(f, 900*mib, sector)
		if err != nil || tab.grown() || len(tab.data()) != 1 || tab.data()[0].Attributes != 0 || len(tab.gpt.Partitions) != 3 {
			t.Errorf("%v: %s", err, describe(tab))
		}
		sgdiskClean(t, f)

		again := newMachine(t) // the next boot finds it, and does not ask what the boot disk is
		again.disk("nvme0n1", f.Name())
		again.Boot = func() (string, error) { t.Error("asked"); return "", nil }
		again.SetPartition("nvme0n1", 2, 464*mib, 435*mib, nil)
		again.mkfs(filepath.Join(again.Dev, "nvme0n1p2"))
		if p, err := again.Prepare(t.Context()); err != nil || p == nil || p.fresh {
			t.Errorf("%+v, %v", p, err)
		}
	}
}

func TestNotMadeOnBootDisk(t *testing.T) {
	gap := func(argv []string) Result {
		if slices.Contains(argv, "-O") {
			return Result{Output: "TYPE=crypto_LUKS\n"}
		}
		return Result{Output: "PTTYPE=gpt\n"}
	}
	for _, tt := range []struct {
		name string
		do   func(*machine)
		say  string // on the console
		err  string
	}{
		{"nobody knows the boot disk", func(m *machine) { m.startedFrom("") }, "", ""},
		{"nobody is asked", func(m *machine) { m.Boot = nil }, "", ""},
		{"it is not known what to make of the answer", func(m *machine) {
			m.Boot = func() (string, error) { return "", errors.New("garbage") }
		}, "", "which disk is the boot disk: garbage"},
		{"started from a disk that is not there", func(m *machine) { m.startedFrom(guidA) }, "is none of the 1 disks", ""},
		{"no room", func(m *machine) { m.disk("vda", bootImage(t, 600*mib, 600*mib).Name()) }, "135 MiB are free behind the last partition", ""},
		{"the image of a CD", func(m *machine) {
			m.tools["blkid"] = func([]string) Result { return Result{Output: "TYPE=iso9660\nPTTYPE=gpt\n"} }
		}, "", "(iso9660)"},
		{"a lost partition in the free space", func(m *machine) { m.tools["blkid"] = gap }, "", "(crypto_LUKS)"},
		{"no disk is wanted", func(m *machine) { m.Param = "none" }, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMachine(t)
			m.Limits.Late = time.Nanosecond
			f := bootImage(t, 900*mib, 900*mib)
			m.disk("vda", f.Name())
			m.startedFrom(guidESP)
			tt.do(m)
			before := make([]byte, mib)
			f.ReadAt(before, 0)
			p, err := m.Prepare(t.Context())
			if p != nil || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%+v, %v; want %q", p, err, tt.err)
			}
			if tt.say != "" {
				m.mustSay(tt.say)
			}
			after := make([]byte, mib)
			if f.ReadAt(after, 0); string(after) != string(before) || len(m.set) > 0 {
				t.Errorf("the disk was written to; kernel: %q", m.set)
			}
		})
	}
}

// A data partition anywhere keeps the boot disk as it is; of several the boot disk's counts.
func TestDataPartitionElsewhere(t *testing.T) {
	m := newMachine(t)
	boot := bootImage(t, 900*mib, 900*mib)
	m.disk("vda", boot.Name())
	m.disk("vdb", withData(t, 600*mib, guidA).Name())
	m.known("vdb", 598*mib)
	m.startedFrom(guidESP)
	if p, err := m.Prepare(t.Context()); err != nil || filepath.Base(p.Device) != "vdb1" || len(m.said) > 0 {
		t.Fatalf("%+v, %v, said %q", p, err, m.said)
	}
	tab, err := readTable(boot, 900*mib, sector)
	if err != nil || len(tab.data()) > 0 {
		t.Fatalf("%v: %s", err, describe(tab))
	}
	p, err := tab.add(true)
	if err != nil {
		t.Fatal(err)
	}
	p.Attributes, p.GUID = 0, guidB // not the lowest
	if err := tab.write(boot); err != nil {
		t.Fatal(err)
	}
	m.SetPartition("vda", 2, 464*mib, 435*mib, nil)
	m.mkfs(filepath.Join(m.Dev, "vda2"))
	if p, err := m.Prepare(t.Context()); err != nil || filepath.Base(p.Device) != "vda2" {
		t.Errorf("%+v, %v", p, err)
	}
	m.mustSay("the one on the boot disk is used")
}

// TestPowerCutOnBootDisk cuts the making of the partition and boots again.
func TestPowerCutOnBootDisk(t *testing.T) {
	const built, size = 500 * mib, 900 * mib
	start := func() *os.File { return bootImage(t, built, size) }
	r := &recorder{File: start(), t: t}
	tab, err := readTable(r, size, sector)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tab.add(true); err != nil {
		t.Fatal(err)
	}
	if err := tab.write(r); err != nil {
		t.Fatal(err)
	}
	tried := 0
	cuts(t, start, r.writes, func(name string, d *os.File) {
		tried++
		m := newMachine(t)
		m.startedFrom(guidESP)
		m.disk("vda", d.Name())
		p, err := m.Prepare(t.Context())
		if err != nil || p == nil {
			t.Errorf("%s: %+v, %v, said %q", name, p, err, m.said)
			return
		}
		if err := m.Finish(p, "/var"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		now, err := readTable(d, size, sector)
		if err != nil || now.recovered || now.grown() || len(now.data()) != 1 || now.data()[0].Attributes != 0 || len(now.gpt.Partitions) != 3 {
			t.Errorf("%s: %v", name, err)
		}
		if tried%5 == 0 {
			sgdiskClean(t, d)
		}
	})
	t.Logf("%d cuts", tried)
}

// loaderVariable is the variable as efivarfs gives it.
func loaderVariable(s string) []byte {
	b := []byte{6, 0, 0, 0}
	for _, u := range utf16.Encode([]rune(s)) {
		b = binary.LittleEndian.AppendUint16(b, u)
	}
	return b
}

func TestLoaderVariable(t *testing.T) {
	for s, ok := range map[string]bool{
		strings.ToLower(guidESP) + "\x00": true,
		guidESP:                           true,
		"":                                false,
		guidESP + "\x00\x00":              false,
		guidESP[1:] + "\x00":              false,
		guidESP[:35] + "\u1234\x00":       false,
		"00000000-0000-0000-0000-000000000000\x00":   false,
		"urn:uuid:00000000-0000-4000-8000-000000000": false,
	} {
		if got, err := ParseLoaderVariable(loaderVariable(s)); (err == nil) != ok || ok && got != guidESP {
			t.Errorf("%q: %q, %v", s, got, err)
		}
	}
}

func FuzzLoaderVariable(f *testing.F) {
	f.Add(loaderVariable(strings.ToLower(guidESP) + "\x00"))
	f.Add(loaderVariable(guidESP))
	f.Add([]byte{6, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		guid, err := ParseLoaderVariable(b)
		if err != nil {
			return
		}
		if known, ok, err := ParseBoot("PARTUUID=" + guid); err != nil || !ok || known != guid {
			t.Errorf("%q is not what the kernel command line takes: %v", guid, err)
		}
	})
}
