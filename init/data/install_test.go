package data

import (
	"bytes"
	"crypto/sha256"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/diskfs/go-diskfs/partition/gpt"
)

const (
	guidISO   = "CCCCCCCC-0000-4000-8000-000000000000"
	isoESPMiB = 3
	bigEnough = (1538 + 256 + 1) * mib
)

// isoImage is a medium as the builder writes it, as far as an installation looks.
func isoImage(t *testing.T) (f *os.File, esp []byte) {
	t.Helper()
	f = sparse(t, 300*mib)
	tab, err := newTable(300*mib, sector)
	if err != nil {
		t.Fatal(err)
	}
	tab.gpt.GUID = guidISO
	tab.gpt.Partitions = append(tab.gpt.Partitions,
		&gpt.Partition{Index: 1, Start: 64, End: 203, Type: foreignType, Name: "ISO9660", GUID: guidB},
		&gpt.Partition{Index: 2, Start: 204, End: 204 + isoESPMiB*2048 - 1, Type: espType, Name: "Appended2", GUID: guidESP},
		&gpt.Partition{Index: 3, Start: 204 + isoESPMiB*2048, End: 204 + isoESPMiB*2048 + 199, Type: LargeESPType, Name: "Appended3", GUID: "DDDDDDDD-0000-4000-8000-000000000000"})
	if err := tab.write(f); err != nil {
		t.Fatal(err)
	}
	esp = bytes.Repeat([]byte("the ESP of an ISO. "), isoESPMiB*int(mib)/19+1)[:isoESPMiB*mib]
	large, err := largeOf(esp).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	for at, b := range map[int64][]byte{204: esp, 204 + isoESPMiB*2048: large} {
		if _, err := f.WriteAt(b, at*512); err != nil {
			t.Fatal(err)
		}
	}
	return f, esp
}

// largeOf is the form for large sectors of that ESP.
func largeOf(esp []byte) LargeESP {
	return LargeESP{Head: bytes.Repeat([]byte("FAT32 4K"), 9*LargeSector/8), From: 7 * 512, Size: int64(len(esp)) - 7*512 - 77}
}

// installer is a machine with an ISO in its drive and the target as /dev/vda.
func installer(t *testing.T, to *os.File) (m *machine, esp []byte) {
	t.Helper()
	m = newMachine(t)
	f, esp := isoImage(t)
	m.disk("sr0", f.Name())
	m.sysfile("block/sr0/queue/logical_block_size", "2048")
	m.disk("vda", to.Name())
	m.Medium = strings.ToLower(guidISO)
	m.tools["blkid"] = func([]string) Result { // what blkid needs to see a GPT
		b := make([]byte, 512)
		if _, err := to.ReadAt(b, 0); err == nil && b[510] == 0x55 && b[450] == 0xee {
			return Result{Output: "PTTYPE=gpt\n"}
		}
		return Result{Status: 2}
	}
	return m, esp
}

// sourceOf is what is installed from a medium to a disk with small sectors.
func sourceOf(t *testing.T, m *machine, from *medium) source {
	t.Helper()
	f, err := os.Open(filepath.Join(m.Dev, from.name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	r, size, err := from.espFor(sector, f)
	if err != nil {
		t.Fatal(err)
	}
	return source{r, size, from.name}
}

// installed demands a disk that boots; or one that firmware does not boot.
func installed(t *testing.T, f *os.File, esp []byte) (finished bool) {
	t.Helper()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	tab, err := readTable(f, st.Size(), sector)
	if err != nil {
		return false
	}
	for _, p := range tab.gpt.Partitions {
		if p.Type != espType {
			continue
		}
		got := make([]byte, len(esp))
		if _, err := f.ReadAt(got, int64(p.Start)*sector); err != nil || !bytes.Equal(got, esp) {
			t.Errorf("there is an ESP with something else in it (%v)", err)
		}
		finished = true
	}
	return finished
}

func TestInstall(t *testing.T) {
	to := sparse(t, bigEnough)
	m, esp := installer(t, to)
	if err := m.Install(t.Context(), Install{Target: "serial=S-vda", Arch: "arm64"}); err != nil {
		t.Fatalf("%v; said %q", err, m.said)
	}
	if !installed(t, to, esp) {
		t.Error("it does not boot")
	}
	sgdiskClean(t, to)
	tab, err := readTable(to, bigEnough, sector)
	if err != nil {
		t.Fatal(err)
	}
	layout, err := InstalledLayout("arm64")
	if err != nil || len(tab.gpt.Partitions) != len(layout) {
		t.Fatalf("%s, %v", describe(tab), err)
	}
	guids := []string{tab.gpt.GUID, guidISO, guidESP}
	for i, p := range tab.gpt.Partitions {
		l := layout[i]
		size := l.Size
		if size == 0 {
			size = 256
		}
		if p.Index != l.Number || p.Type != l.Type || p.Name != l.Name || int64(p.Start) != l.Start*2048 || int64(p.Size) != size*mib || slices.Contains(guids, p.GUID) {
			t.Errorf("partition %+v, want %+v", p, l)
		}
		guids = append(guids, p.GUID)
	}
	m.mustSay("install: copied 50 %")
	m.mustSay("take the medium out")

	// The first boot makes the data partition there.
	next := newMachine(t)
	next.disk("vda", to.Name())
	p, err := next.Prepare(t.Context())
	if err != nil || p == nil || filepath.Base(p.Device) != "vda5" || !p.fresh {
		t.Errorf("the first boot: %+v, %v, said %q", p, err, next.said)
	}
}

func TestInstallRefused(t *testing.T) {
	for _, tt := range []struct {
		name  string
		do    func(m *machine, in *Install, to *os.File)
		fault string
		force bool // does it help
	}{
		{"signature", func(m *machine, _ *Install, _ *os.File) {
			m.tools["blkid"] = func([]string) Result { return Result{Output: "TYPE=crypto_LUKS\n"} }
		}, "holds something else (crypto_LUKS)", true},
		{"unknown", func(_ *machine, _ *Install, to *os.File) { _, _ = to.WriteAt([]byte{1}, 4096) }, "holds something unknown", true},
		{"blkid fails", func(m *machine, _ *Install, _ *os.File) {
			m.tools["blkid"] = func([]string) Result { return Result{Status: 4, Output: "I/O error"} }
		}, "exit status 4: I/O error", true},
		{"not found", func(_ *machine, in *Install, _ *os.File) { in.Target = "/dev/sdx" }, "no disk /dev/sdx after 0s; there is /dev/vda (1795 MiB, serial=S-vda). A disk", false},
		{"no such serial number", func(_ *machine, in *Install, _ *os.File) { in.Target = "serial=S" }, "no disk serial=S after 0s; there is /dev/vda", false},
		{"read-only", func(m *machine, in *Install, _ *os.File) {
			m.sysfile("block/vda/ro", "1")
			in.Target = "serial=S-vda"
		}, "serial=S-vda (/dev/vda) is no disk to install to: it cannot be written to", false},
		{"empty drive", func(m *machine, _ *Install, _ *os.File) { m.sysfile("block/vda/size", "0") }, "/dev/vda) is no disk to install to: it has no medium", false},
		{"a loop device", func(m *machine, in *Install, _ *os.File) {
			m.sysfile("block/loop0/size", "8192")
			in.Target = "/dev/loop0"
		}, "it is not a disk of its own", false},
		{"a partition", func(m *machine, in *Install, _ *os.File) {
			m.sysfile("block/vda/vda1/partition", "1")
			in.Target = "/dev/vda1"
		}, "/dev/vda1 is a partition; name the whole disk, /dev/vda", false},
		{"two disks", func(m *machine, in *Install, to *os.File) {
			m.disk("vdb", to.Name())
			m.sysfile("block/vdb/serial", "S-vda")
			in.Target = "serial=S-vda"
		}, "serial=S-vda is 2 disks", false},
		{"only a backup of a table", func(_ *machine, _ *Install, to *os.File) {
			tab, err := newTable(bigEnough, sector)
			if err == nil {
				_, err = tab.add(false)
			}
			if err == nil {
				err = tab.write(to)
			}
			if err == nil {
				_, err = to.WriteAt(make([]byte, mib), 0)
			}
			if err != nil {
				t.Fatal(err)
			}
		}, "has a partition table with 1 partitions", true},
		{"no medium", func(m *machine, _ *Install, _ *os.File) { m.Medium = guidA }, "no medium with the ISO " + guidA + " after", false},
		{"no ISO", func(m *machine, _ *Install, _ *os.File) { m.Medium = "" }, "was not started from an ISO", false},
		{"nothing", func(_ *machine, in *Install, _ *os.File) { in.Target = "" }, "garboard.install=: want /dev/NAME", false},
		{"none", func(_ *machine, in *Install, _ *os.File) { in.Target = "none" }, "garboard.install=none: want", false},
		{"partition's path", func(_ *machine, in *Install, _ *os.File) { in.Target = "/dev/disk/by-id/x" }, "want /dev/NAME", false},
		{"architecture", func(_ *machine, in *Install, _ *os.File) { in.Arch = "riscv64" }, `architecture "riscv64"`, false},
		{"small", func(m *machine, _ *Install, to *os.File) {
			_ = to.Truncate(bigEnough - 512)
			m.disk("vda", to.Name())
		}, "has 1794 MiB; 1795 are needed", false},
		{"odd sectors", func(m *machine, _ *Install, _ *os.File) { m.sysfile("block/vda/queue/logical_block_size", "2048") }, "/dev/vda: sectors of 2048 bytes; this ISO has an EFI system partition for disks with 512 or 4096; many disks can be told to have those (nvme format --lbaf, sg_format --size=512)", false},
		{"the medium", func(m *machine, in *Install, _ *os.File) {
			f, _ := isoImage(t)
			m.disk("vdb", f.Name())
			if err := os.RemoveAll(filepath.Join(m.Sys, "block/sr0")); err != nil {
				t.Fatal(err)
			}
			in.Target = "/dev/vdb"
		}, "vdb is the medium that this node was started from", false},
		{"a CD", func(_ *machine, in *Install, _ *os.File) { in.Target = "/dev/sr0" }, "it is a CD drive", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			to := sparse(t, bigEnough)
			m, esp := installer(t, to)
			in := Install{Target: "/dev/vda", Arch: "amd64"}
			tt.do(m, &in, to)
			before := sum(t, to)
			for _, force := range []bool{false, true} {
				in.Force = force
				err := m.Install(t.Context(), in)
				if force && tt.force {
					if err != nil || !installed(t, to, esp) {
						t.Errorf("with force: %v", err)
					}
					return
				}
				if err == nil || !strings.Contains(err.Error(), tt.fault) {
					t.Errorf("force %t: error %v, want %q", force, err, tt.fault)
				}
				if sum(t, to) != before {
					t.Error("a refused disk was written to")
				}
			}
		})
	}
}

// sum is of the first and last MiB, and of what an ESP is in.
func sum(t *testing.T, f *os.File) string {
	t.Helper()
	h := sha256.New()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int64{0, 2 * mib, st.Size() - mib} {
		if _, err := io.Copy(h, io.NewSectionReader(f, at, mib)); err != nil {
			t.Fatal(err)
		}
	}
	return string(h.Sum(nil))
}

// tape is a disk that remembers what was written to it.
type tape struct {
	*os.File
	writes []write
}

func (r *tape) WriteAt(b []byte, off int64) (int, error) {
	r.writes = append(r.writes, write{off, bytes.Clone(b)})
	return r.File.WriteAt(b, off)
}

// Cut at any write, a disk is not bootable, and is installed to again without force.
func TestInstallCutAnywhere(t *testing.T) {
	to := &tape{File: sparse(t, bigEnough)}
	m, esp := installer(t, to.File)
	list, err := disks(m.Sys)
	if err != nil {
		t.Fatal(err)
	}
	layout, err := InstalledLayout("amd64")
	if err != nil {
		t.Fatal(err)
	}
	from := m.findMedium(m.Medium, "vda")
	i := slices.IndexFunc(list, func(d disk) bool { return d.name == "vda" })
	if err := m.install(t.Context(), list[i], to, sourceOf(t, m, from), layout); err != nil {
		t.Fatal(err)
	}
	resumed, whole := 0, 0
	for n := range to.writes {
		for _, torn := range []int64{0, 512} {
			f := replay(t, func() *os.File { return sparse(t, bigEnough) }, to.writes, n, torn)
			if installed(t, f, esp) {
				whole++
				continue
			}
			m, esp := installer(t, f)
			if err := m.Install(t.Context(), Install{Target: "/dev/vda", Arch: "amd64"}); err != nil || !installed(t, f, esp) {
				t.Fatalf("cut at write %d of %d (%d bytes of it done): %v", n, len(to.writes), torn, err)
			}
			if slices.ContainsFunc(m.said, func(s string) bool { return strings.Contains(s, "was not finished") }) {
				resumed++
			}
		}
	}
	if resumed == 0 || whole == 0 {
		t.Errorf("%d cuts left an unfinished installation, %d a whole one: the cuts miss something", resumed, whole)
	}
}

// A fault of the disk is not taken for an installation.
type forgetful struct{ *os.File }

func (f forgetful) WriteAt(b []byte, off int64) (int, error) {
	if off >= 3*mib && off < 4*mib {
		return len(b), nil
	}
	return f.File.WriteAt(b, off)
}

func TestInstallReadsBack(t *testing.T) {
	to := sparse(t, bigEnough)
	m, esp := installer(t, to)
	layout, err := InstalledLayout("amd64")
	if err != nil {
		t.Fatal(err)
	}
	err = m.install(t.Context(), disk{name: "vda", size: bigEnough, sector: sector}, forgetful{to}, sourceOf(t, m, m.findMedium(m.Medium, "vda")), layout)
	if err == nil || !strings.Contains(err.Error(), "the disk is faulty") || installed(t, to, esp) {
		t.Errorf("a disk that loses a write: %v", err)
	}
}

// A stick with the ISO is not taken for a boot disk with free space.
func TestMediumIsNoBootDisk(t *testing.T) {
	m := newMachine(t)
	f, _ := isoImage(t)
	if err := f.Truncate(900 * mib); err != nil {
		t.Fatal(err)
	}
	m.disk("sda", f.Name())
	m.startedFrom(guidESP)
	m.Medium = guidISO
	if p, err := m.Prepare(t.Context()); p != nil || err != nil || len(m.ran) > 0 {
		t.Errorf("%+v, %v; ran %q", p, err, m.ran)
	}
	m.mustSay("sda holds the ISO that this node was started from: nothing is kept there")
	// A disk with a data partition beside it is used.
	m.disk("vdb", withData(t, 600*mib, guidA).Name())
	if err := m.SetPartition(filepath.Join(m.Dev, "vdb"), 1, mib, 598*mib, nil); err != nil {
		t.Fatal(err)
	}
	m.mkfs(filepath.Join(m.Dev, "vdb1"))
	if p, err := m.Prepare(t.Context()); err != nil || p == nil || filepath.Base(p.Device) != "vdb1" {
		t.Errorf("%+v, %v", p, err)
	}
	// Negative control: without the word it is a boot disk as any other.
	m = newMachine(t)
	m.disk("sda", f.Name())
	m.startedFrom(guidESP)
	if p, err := m.Prepare(t.Context()); err != nil || p == nil {
		t.Errorf("without garboard.medium=: %+v, %v", p, err)
	}
}
