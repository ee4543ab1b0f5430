package data

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/diskfs/go-diskfs/partition/gpt"
)

// withData makes an image with one finished data partition in it.
func withData(t *testing.T, size int64, guid string) *os.File {
	t.Helper()
	f := sparse(t, size)
	tab, err := newTable(size, sector)
	if err != nil {
		t.Fatal(err)
	}
	p, err := tab.add(false)
	if err != nil {
		t.Fatal(err)
	}
	p.Attributes, p.GUID = 0, guid
	if err := tab.write(f); err != nil {
		t.Fatal(err)
	}
	return f
}

// known gives the machine's kernel the partition as it was at an earlier boot.
func (m *machine) known(disk string, size int64) string {
	if err := m.SetPartition(filepath.Join(m.Dev, disk), 1, mib, size, nil); err != nil {
		m.t.Fatal(err)
	}
	m.set = nil
	dev := filepath.Join(m.Dev, partName(disk, 1))
	m.mkfs(dev)
	return dev
}

const (
	guidA = "AAAAAAAA-0000-4000-8000-000000000000"
	guidB = "BBBBBBBB-0000-4000-8000-000000000000"
)

func (m *machine) mustSay(words string) {
	m.t.Helper()
	if !slices.ContainsFunc(m.said, func(s string) bool { return strings.Contains(s, words) }) {
		m.t.Errorf("did not say %q but %q", words, m.said)
	}
}

func TestDisklessDoesNotWait(t *testing.T) {
	m := newMachine(t)
	m.sysfile("block/loop0/size", "8") // no device behind it
	m.Boot = func() (string, error) { t.Error("the firmware is asked"); return "", nil }
	m.Limits = DefaultLimits()
	began := time.Now()
	p, err := m.Prepare(t.Context())
	if p != nil || err != nil || time.Since(began) > 200*time.Millisecond || len(m.said)+len(m.ran) > 0 {
		t.Errorf("%v, %v after %s; said %q, ran %q", p, err, time.Since(began), m.said, m.ran)
	}
}

func TestFoundAsItIs(t *testing.T) {
	for _, name := range []string{"vda", "nvme0n1"} {
		m := newMachine(t)
		m.disk(name, withData(t, 600*mib, guidA).Name())
		dev := m.known(name, 598*mib)
		p, err := m.Prepare(t.Context())
		if err != nil || p == nil || p.Device != dev {
			t.Fatalf("%s: %+v, %v, said %q", name, p, err, m.said)
		}
		if want := []string{"e2fsck -p " + dev}; !slices.Equal(m.ran, want) || len(m.set) > 0 || len(m.said) > 0 {
			t.Errorf("%s: ran %q, set %q, said %q", name, m.ran, m.set, m.said)
		}
		if err := m.Finish(p, "/var"); err != nil || len(m.set) > 0 {
			t.Errorf("%s: %v, %q", name, err, m.set)
		}
	}
}

func TestTwoCandidates(t *testing.T) {
	m := newMachine(t)
	m.disk("vda", withData(t, 600*mib, guidB).Name())
	m.disk("vdb", withData(t, 600*mib, guidA).Name())
	m.known("vda", 598*mib)
	m.known("vdb", 598*mib)
	if p, err := m.Prepare(t.Context()); err != nil || filepath.Base(p.Device) != "vdb1" {
		t.Errorf("%+v, %v", p, err)
	}
	m.mustSay("WARNING: 2 data partitions")
	for param, want := range map[string]string{"/dev/vda": "vda1", "serial=S-vdb": "vdb1"} {
		m.said = nil
		m.Param = param
		if p, err := m.Prepare(t.Context()); err != nil || filepath.Base(p.Device) != want || len(m.said) > 0 {
			t.Errorf("%s: %+v, %v, %q", param, p, err, m.said)
		}
	}
	m.Param = "none"
	if p, err := m.Prepare(t.Context()); p != nil || err != nil {
		t.Errorf("none: %+v, %v", p, err)
	}
	for _, bad := range []string{"vda", "/dev/", "/dev/disk/x", "serial="} {
		m.Param = bad
		if p, err := m.Prepare(t.Context()); p != nil || err == nil {
			t.Errorf("%s: %+v, %v", bad, p, err)
		}
	}
}

func TestMadeOnBlankDisk(t *testing.T) {
	m := newMachine(t)
	m.Param = "/dev/vda"
	f := sparse(t, 600*mib)
	m.disk("vda", f.Name())
	p, err := m.Prepare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tab, err := readTable(f, 600*mib, sector)
	if err != nil || len(tab.data()) != 1 || tab.data()[0].Attributes != making {
		t.Fatalf("before Finish: %v, %s", err, describe(tab))
	}
	if err := m.Finish(p, "/var"); err != nil {
		t.Fatal(err)
	}
	if tab, err = readTable(f, 600*mib, sector); err != nil || tab.data()[0].Attributes != 0 {
		t.Errorf("after Finish: %v, %s", err, describe(tab))
	}
	if want := []string{"vda1 1+598, was <nil>", "sync"}; !slices.Equal(m.set, want) {
		t.Errorf("kernel: %q, want %q", m.set, want)
	}
	sgdiskClean(t, f)
}

// TestPowerCutWhileMaking cuts the making of a table on a blank disk and boots
// again, each time up to a mounted partition.
func TestPowerCutWhileMaking(t *testing.T) {
	const size = 600 * mib
	r := &recorder{File: sparse(t, size), t: t}
	tab, err := newTable(size, sector)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tab.add(false); err != nil {
		t.Fatal(err)
	}
	if err := tab.write(r); err != nil {
		t.Fatal(err)
	}
	tried := 0
	cuts(t, func() *os.File { return sparse(t, size) }, r.writes, func(name string, d *os.File) {
		tried++
		m := newMachine(t)
		m.Param = "/dev/vda"
		m.disk("vda", d.Name())
		p, err := m.Prepare(t.Context())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		if err := m.Finish(p, "/var"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		now, err := readTable(d, size, sector)
		if err != nil || now.recovered || len(now.data()) != 1 || now.data()[0].Attributes != 0 {
			t.Errorf("%s: %v", name, err)
		}
		if tried%5 == 0 {
			sgdiskClean(t, d)
		}
	})
	t.Logf("%d cuts", tried)
}

func TestMakingIsTakenUpAgain(t *testing.T) {
	m := newMachine(t)
	m.Param = "/dev/vda"
	m.disk("vda", sparse(t, 600*mib).Name())
	dev := filepath.Join(m.Dev, "vda1")
	m.tools["mke2fs"] = func([]string) Result { // cut: half a file system
		if err := os.WriteFile(dev, []byte(strings.Repeat("x", 4096)), 0o644); err != nil {
			t.Error(err)
		}
		return Result{Status: 1, Output: "cut"}
	}
	if p, err := m.Prepare(t.Context()); err == nil || !strings.Contains(err.Error(), "mke2fs") {
		t.Fatalf("%+v, %v", p, err)
	}
	m.Param = "" // found by its type
	if err := os.Truncate(dev, 598*mib); err != nil {
		t.Fatal(err)
	}
	m.ran = nil
	m.tools["mke2fs"] = func(argv []string) Result { return m.mkfs(argv[len(argv)-1]) }
	p, err := m.Prepare(t.Context())
	if err != nil || !p.fresh || len(m.ran) != 1 || !strings.HasPrefix(m.ran[0], "mke2fs ") {
		t.Errorf("%+v, %v, ran %q", p, err, m.ran)
	}
}

func TestEmptyPartitionOfOurType(t *testing.T) {
	m := newMachine(t)
	m.disk("vda", withData(t, 600*mib, guidA).Name())
	p, err := m.Prepare(t.Context())
	if err != nil || !p.fresh {
		t.Fatalf("%+v, %v", p, err)
	}
	if len(m.ran) != 2 || !strings.HasPrefix(m.ran[0], "blkid -p") || !strings.HasPrefix(m.ran[1], "mke2fs") {
		t.Errorf("ran %q", m.ran)
	}
}

func TestForeignDataIsRefused(t *testing.T) {
	xfs := func([]string) Result { return Result{Output: "DEVNAME=/dev/x\nUUID=1\nTYPE=xfs\nUSAGE=filesystem\n"} }
	dos := func([]string) Result { return Result{Output: "PTTYPE=dos\n"} }
	for _, tt := range []struct {
		name  string
		blkid func([]string) Result
		image func() *os.File
		want  string
	}{
		{"file system on the disk", xfs, func() *os.File { return sparse(t, 600*mib) }, "(xfs)"},
		{"old partition table", dos, func() *os.File { return sparse(t, 600*mib) }, "(dos)"},
		{"ambiguous", func([]string) Result { return Result{Status: 8} }, func() *os.File { return sparse(t, 600*mib) }, "several signatures"},
		{"blkid fails", func([]string) Result { return Result{Status: 4, Output: "I/O"} }, func() *os.File { return sparse(t, 600*mib) }, "exit status 4"},
		{"unknown bytes", nil, func() *os.File {
			f := sparse(t, 600*mib)
			f.WriteAt([]byte{7}, 70000)
			return f
		}, "something unknown"},
		{"in a partition of our type", xfs, func() *os.File { return withData(t, 600*mib, guidA) }, "(xfs)"},
		{"too small", nil, func() *os.File { return sparse(t, 100*mib) }, "needs 256"},
		{"in free space of a table", func(argv []string) Result {
			if slices.Contains(argv, "-O") {
				return xfs(argv)
			}
			return Result{Output: "PTTYPE=gpt\n"}
		}, func() *os.File {
			f := sparse(t, 600*mib)
			tab, err := newTable(600*mib, sector)
			if err != nil {
				t.Fatal(err)
			}
			tab.gpt.Partitions = append(tab.gpt.Partitions, &gpt.Partition{Index: 1, Start: 2048, End: 4095, Type: foreignType, Name: "x", GUID: guidB})
			if err := tab.write(f); err != nil {
				t.Fatal(err)
			}
			return f
		}, "carries a signature (xfs)"},
		{"over a lost primary table", xfs, func() *os.File {
			f := withData(t, 600*mib, guidA)
			f.WriteAt(make([]byte, 512), 512)
			return f
		}, "(xfs)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMachine(t)
			m.Param = "/dev/vda"
			if tt.blkid != nil {
				m.tools["blkid"] = tt.blkid
			}
			f := tt.image()
			before := make([]byte, 2*mib)
			if _, err := f.ReadAt(before, 0); err != nil {
				t.Fatal(err)
			}
			m.disk("vda", f.Name())
			p, err := m.Prepare(t.Context())
			if p != nil && err == nil || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %+v, %v, want an error with %q", p, err, tt.want)
			}
			after := make([]byte, 2*mib)
			if _, err := f.ReadAt(after, 0); err != nil || string(after) != string(before) {
				t.Errorf("the disk was written to (%v)", err)
			}
			for _, r := range m.ran {
				if !strings.HasPrefix(r, "blkid") {
					t.Errorf("ran %q", r)
				}
			}
		})
	}
}

func TestGrownDisk(t *testing.T) {
	m := newMachine(t)
	f := withData(t, 600*mib, guidA)
	m.disk("vda", f.Name())
	dev := m.known("vda", 598*mib)
	if err := f.Truncate(900 * mib); err != nil {
		t.Fatal(err)
	}
	m.disk("vda", f.Name())
	p, err := m.Prepare(t.Context())
	if err != nil || p.Device != dev {
		t.Fatalf("%+v, %v", p, err)
	}
	if err := m.Finish(p, "/var"); err != nil {
		t.Fatal(err)
	}
	if want := []string{fmt.Sprintf("vda1 1+898, was &{vda1 %d %d}", mib, 598*mib), "grow"}; !slices.Equal(m.set, want) {
		t.Errorf("kernel: %q, want %q", m.set, want)
	}
	m.mustSay("partition 1 grows from 598 to 898 MiB")
	sgdiskClean(t, f)
}

func TestDamagedFileSystem(t *testing.T) {
	for _, tt := range []struct {
		name       string
		super      bool // there is one
		preen, yes int  // exit statuses of e2fsck; yes 12: 12, then 1
		ok         bool
		say        string
	}{
		{"clean", true, 0, 0, true, ""},
		{"corrected", true, 1, 0, true, "e2fsck corrected"},
		{"repaired", true, 4, 1, true, "was repaired"},
		{"beyond repair", true, 4, 4, false, "is damaged"},
		{"superblock gone, a copy is left", false, 8, 1, true, "is not empty: damaged"},
		{"all gone", false, 8, 8, false, "is not empty: damaged"},
		{"zeros but for a copy far behind", false, 8, 1, true, "is not empty: damaged"},
		{"the journal is replayed first", true, 4, 12, true, "was repaired"},
		{"killed", true, -1, -1, false, "is damaged"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMachine(t)
			m.disk("vda", withData(t, 600*mib, guidA).Name())
			dev := m.known("vda", 598*mib)
			if !tt.super {
				first := append(make([]byte, 4096), "groups"...)
				if strings.HasPrefix(tt.name, "zeros") {
					first = nil
				}
				if err := os.WriteFile(dev, first, 0o644); err != nil {
					t.Fatal(err)
				}
				if err := os.Truncate(dev, 598*mib); err != nil {
					t.Fatal(err)
				}
				if first == nil {
					f, err := os.OpenFile(dev, os.O_RDWR, 0)
					if err != nil {
						t.Fatal(err)
					}
					f.WriteAt(super(1000), 128*mib)
					f.Close()
				}
			}
			runs := 0
			m.tools["e2fsck"] = func(argv []string) Result {
				if slices.Contains(argv, "-p") {
					return Result{Status: tt.preen, Output: "x"}
				}
				if runs++; tt.yes == 12 && runs == 2 {
					return Result{Status: 1}
				}
				if tt.yes == 1 {
					m.mkfs(dev)
				}
				return Result{Status: tt.yes, Output: "y"}
			}
			p, err := m.Prepare(context.Background())
			if (err == nil) != tt.ok {
				t.Errorf("%+v, %v", p, err)
			}
			if tt.say != "" {
				m.mustSay(tt.say)
			}
			for _, r := range m.ran {
				if strings.HasPrefix(r, "mke2fs") {
					t.Error("made anew over damage")
				}
			}
		})
	}
}
