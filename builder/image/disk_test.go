package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"garboard.local/builder/rootfs"
	"garboard.local/builder/store"
)

func write(t *testing.T, name string, b []byte) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(p, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

func openStore(t *testing.T) *store.Store {
	t.Helper()
	st, err := store.Open(filepath.Join(t.TempDir(), "store"))
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// diskInput is a small disk image: 3 MiB of UKI, half a MiB of root.
func diskInput(t *testing.T, arch string) DiskInput {
	t.Helper()
	uki := write(t, "uki", bytes.Repeat([]byte("a UKI of no use."), 3*int(MiB)/16+1))
	return DiskInput{Arch: arch, ESP: []ESPFile{{BootFile(arch), uki}}, Root: write(t, "root", bytes.Repeat([]byte{0xee}, int(MiB)/2+1)),
		Sizes: Sizes{ESP: SmallestESP, Root: MiB, Data: SmallestData}, Epoch: epoch}
}

func TestLayout(t *testing.T) {
	const fixed = 1 + 1 + 512 + 512 + 512 + 1
	for _, tt := range []struct {
		name       string
		sizes      Sizes // MiB
		disk, data int64 // MiB
		fault      string
	}{
		{"nothing said", Sizes{}, 4096, 4096 - fixed, ""},
		{"size", Sizes{Disk: 2048}, 2048, 2048 - fixed, ""},
		{"data size", Sizes{Data: 300}, fixed + 300, 300, ""},
		{"both", Sizes{Disk: 8192, Data: 300}, 8192, 300, ""},
		{"smallest", Sizes{Disk: fixed + 256}, fixed + 256, 256, ""},
		{"one less", Sizes{Disk: fixed + 255}, 0, 0, "1794 MiB leave 255 MiB for the data partition, which needs 256 MiB: the disk needs 1795 MiB in all (1539 MiB without data)"},
		{"tiny", Sizes{Disk: 100}, 0, 0, "100 MiB leave 0 MiB for the data partition"},
		{"data does not fit", Sizes{Disk: 2048, Data: 600}, 0, 0, "a data partition of 600 MiB and the other partitions need a disk of 2139 MiB, not 2048 MiB"},
		{"small data", Sizes{Data: 255}, 0, 0, "which needs 256 MiB"},
		{"small ESP", Sizes{ESP: 63}, 0, 0, "espSize of 66060288 bytes: a multiple of 1 MiB is needed, at least 64 MiB"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			parts, size, err := Layout("amd64", Sizes{tt.sizes.Disk * MiB, tt.sizes.ESP * MiB, 0, tt.sizes.Data * MiB})
			if tt.fault != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fault) {
					t.Errorf("error %v, want %q", err, tt.fault)
				}
				return
			}
			if err != nil || size != tt.disk*MiB || parts[4].Size != tt.data*MiB {
				t.Fatalf("disk of %d MiB with %d of data, %v", size/MiB, parts[4].Size/MiB, err)
			}
			at := MiB
			for i, p := range parts {
				if p.Number != i+1 || p.Start != at || p.Size <= 0 || p.Size%MiB != 0 {
					t.Errorf("%+v: want number %d at %d", p, i+1, at)
				}
				at += p.Size
			}
			if at+MiB > size {
				t.Errorf("partitions end at %d; the backup table needs the last MiB of %d", at, size)
			}
		})
	}
	if _, _, err := Layout("amd64", Sizes{Disk: 5<<30 + 1}); err == nil {
		t.Error("a size that is no multiple of a MiB is taken")
	}
	if _, _, err := Layout("riscv64", Sizes{}); err == nil {
		t.Error("an architecture without a root type is taken")
	}
}

func TestGUIDs(t *testing.T) {
	if a, b := guid("x", "ab", "c"), guid("x", "a", "bc"); a == b || a != guid("x", "ab", "c") {
		t.Errorf("different inputs give one GUID, or one gives two: %s, %s", a, b)
	}
}

func TestDiskSaysWhatDoesNotFit(t *testing.T) {
	run := tools(t)
	big := filepath.Join(t.TempDir(), "big")
	if err := os.WriteFile(big, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		size  int64
		set   func(*DiskInput)
		fault string
	}{
		{SmallestESP - espSlack, func(in *DiskInput) { in.ESP[0].From = big }, ""},
		{SmallestESP - espSlack + 1, func(in *DiskInput) { in.ESP[0].From = big }, "ESP: its files have 60.0 MiB, but of its 64 MiB only 60 are left"},
		{MiB, func(in *DiskInput) { in.Root = big }, ""},
		{MiB + 1, func(in *DiskInput) { in.Root = big }, "the root image has 1.0 MiB, partition root-a only 1 MiB"},
		{SmallestData + 1, func(in *DiskInput) {
			in.Data = rootfs.New()
			e, err := rootfs.FromFile("/x", 0o644, big, strings.Repeat("0", 64), "t", "t")
			if err := errors.Join(err, in.Data.Add(e)); err != nil {
				t.Fatal(err)
			}
		}, "data partition: its content has 256.0 MiB, the partition only 256 MiB"},
	} {
		if tt.fault == "" && run == nil {
			continue
		}
		in := diskInput(t, "amd64")
		if err := os.Truncate(big, tt.size); err != nil {
			t.Fatal(err)
		}
		tt.set(&in)
		fake := run
		if fake == nil {
			fake = func(string, ...string) *exec.Cmd { return exec.Command("true") }
		}
		_, _, err := Disk(context.Background(), openStore(t), fake, "", in)
		if tt.fault == "" && err != nil || tt.fault != "" && (err == nil || !strings.Contains(err.Error(), tt.fault)) {
			t.Errorf("%d bytes: %v, want %q", tt.size, err, tt.fault)
		}
	}
}

// TestDiskJudgedByOthers has sgdisk, fsck.fat, mtools, e2fsck and debugfs look
// at a disk image, and at a damaged one.
func TestDiskJudgedByOthers(t *testing.T) {
	run := tools(t)
	if run == nil {
		return
	}
	for _, arch := range []string{"amd64", "arm64"} {
		t.Run(arch, func(t *testing.T) {
			in := diskInput(t, arch)
			in.Data = rootfs.New()
			able := rootfs.FromBytes("/lib/able", 0o755, []byte("program"), "t", "t")
			able.Capabilities = netBind
			for _, e := range []rootfs.Entry{
				able,
				rootfs.FromBytes("/lib/thing/file", 0o640, []byte("content"), "t", "t"),
				rootfs.FromBytes("/lib/empty", 0o644, nil, "t", "t"),
				{Path: "/lib/link", Kind: rootfs.Symlink, Mode: 0o777, Link: "thing/file", Origin: "t", Reason: "t"},
				{Path: "/lib/private", Kind: rootfs.Dir, Mode: 0o1770, UID: 1000, GID: 70000, Origin: "t", Reason: "t"},
			} {
				if err := in.Data.Add(e); err != nil {
					t.Fatal(err)
				}
			}
			long := ESPFile{"/loader/entries/A longer name than 8.3 allows.conf", write(t, "e", []byte("x"))}
			in.ESP = append(in.ESP, long, ESPFile{"/loader/entries/A longer name than this.conf", write(t, "e", nil)})
			var files, sums [2]string
			// Another directory, umask, time zone, locale and wish of the caller's: the same bytes.
			for i := range files {
				for k, v := range map[string]string{"TZ": fmt.Sprintf("UTC%+d", 11*i), "LC_ALL": []string{"C", "C.UTF-8"}[i], sourceDate: fmt.Sprint(i)} {
					t.Setenv(k, v)
				}
				st := openStore(t)
				old := syscall.Umask(0o77 * i)
				var err error
				files[i], _, err = Disk(context.Background(), st, run, "key", in)
				syscall.Umask(old)
				if err != nil {
					t.Fatal(err)
				}
				var info syscall.Stat_t
				if err := syscall.Stat(files[i], &info); err != nil || info.Blocks*512 > 32*MiB {
					t.Errorf("the image occupies %d MiB of %d: it is not sparse (%v)", info.Blocks*512/MiB, info.Size/MiB, err)
				}
				if sums[i], err = store.HashFile(files[i]); err != nil {
					t.Fatal(err)
				}
			}
			if sums[0] != sums[1] {
				t.Errorf("two images of one input differ: %s, %s", files[0], files[1])
			}
			judgeDisk(t, run, files[0], in)
		})
	}
}

func judgeDisk(t *testing.T, run Run, disk string, in DiskInput) {
	t.Helper()
	parts, _, err := Layout(in.Arch, in.Sizes)
	if err != nil {
		t.Fatal(err)
	}
	if out := output(t, run("sgdisk", "-v", disk)); !strings.Contains(out, "No problems found") {
		t.Errorf("sgdisk -v:\n%s", out)
	}
	for _, p := range parts {
		info := output(t, run("sgdisk", fmt.Sprintf("-i=%d", p.Number), disk))
		for _, want := range []string{
			"Partition GUID code: " + strings.ToUpper(string(p.Type)), fmt.Sprintf("First sector: %d (", p.Start/512),
			fmt.Sprintf("Last sector: %d (", (p.Start+p.Size)/512-1), "Partition name: '" + p.Name + "'",
		} {
			if !strings.Contains(info, want) {
				t.Errorf("sgdisk -i=%d lacks %q:\n%s", p.Number, want, info)
			}
		}
		if sum, err := store.HashFile(in.Root); p.Number == rootAPartition && (err != nil || !strings.Contains(info, RootGUID(sum))) {
			t.Errorf("the root's partition is not named after it:\n%s", info)
		}
	}
	esp, data := parts[espPartition-1], parts[dataPartition-1]
	fat := cut(t, disk, esp)
	if out, err := run("fsck.fat", "-n", "-v", fat).CombinedOutput(); err != nil {
		t.Errorf("fsck.fat -n: %v\n%s", err, out)
	}
	for _, f := range in.ESP {
		got := sha256.Sum256([]byte(output(t, run("mtype", "-i", fat, "::"+f.Path))))
		if want, err := store.HashFile(f.From); err != nil || hex.EncodeToString(got[:]) != want {
			t.Errorf("mtype %s: other content (%v)", f.Path, err)
		}
	}
	if out := output(t, run("mdir", "-i", fat, "::/EFI/BOOT")); !strings.Contains(out, "2023-11-14") {
		t.Errorf("mdir does not show the epoch's date:\n%s", out)
	}
	fs := fmt.Sprintf("%s?offset=%d", disk, data.Start)
	if out, err := run("e2fsck", "-fn", fs).CombinedOutput(); err != nil {
		t.Errorf("e2fsck -fn: %v\n%s", err, out)
	}
	for _, tt := range []struct{ command, want string }{
		{"cat /lib/thing/file", "content"},
		{"stat /lib/private", "User:  1000   Group: 70000"}, {"stat /lib/private", "Mode:  01770"}, {"stat /lib/link", `Fast link dest: "thing/file"`},
		{"stat /lib/empty", "mtime: 0x6553f100"}, // the epoch
		{"ea_list /lib/able", "security.capability (20) = 01 00 00 02 00 04 00 00"},
	} {
		if out := output(t, run("debugfs", "-R", tt.command, fs)); !strings.Contains(out, tt.want) {
			t.Errorf("debugfs %q lacks %q:\n%s", tt.command, tt.want, out)
		}
	}
	// Negative controls: each of the three finds its damage.
	for _, d := range []struct {
		at    int64
		tool  string
		args  []string
		sound string
	}{
		{1024 + 16, "sgdisk", []string{"-v"}, "No problems found"}, // first entry of the table
		{esp.Start + 32*512 + 12, "fsck.fat", []string{"-n"}, ""},  // first FAT
		{data.Start + 4096 + 8, "e2fsck", []string{"-fn"}, ""},     // group descriptors
	} {
		f, err := os.OpenFile(disk, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		old := make([]byte, 4)
		if _, err := f.ReadAt(old, d.at); err != nil {
			t.Fatal(err)
		}
		bad := []byte{^old[0], ^old[1], ^old[2], ^old[3]}
		if _, err := f.WriteAt(bad, d.at); err != nil {
			t.Fatal(err)
		}
		target := map[string]string{"sgdisk": disk, "e2fsck": fs, "fsck.fat": ""}[d.tool]
		if target == "" {
			target = cut(t, disk, esp)
		}
		out, err := run(d.tool, append(d.args, target)...).CombinedOutput()
		if err == nil && (d.sound == "" || strings.Contains(string(out), d.sound)) {
			t.Errorf("%s finds nothing wrong with damage at %d:\n%s", d.tool, d.at, out)
		}
		if _, err := f.WriteAt(old, d.at); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
}

// cut copies a partition to a file of its own.
func cut(t *testing.T, disk string, p Partition) string {
	t.Helper()
	f, err := os.Open(disk)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, p.Size)
	if _, err := f.ReadAt(b, p.Start); err != nil {
		t.Fatal(err)
	}
	return write(t, p.Name, b)
}

// TestESPOfManySizes has fsck.fat judge file systems of sizes at which FATs differ.
func TestESPOfManySizes(t *testing.T) {
	run := tools(t)
	if run == nil {
		return
	}
	for _, n := range []int64{64, 259, 260, 261, 512, 1024} {
		disk := filepath.Join(t.TempDir(), "fat")
		if err := os.WriteFile(disk, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(disk, n*MiB); err != nil {
			t.Fatal(err)
		}
		if err := writeESP(run, disk, 0, n*MiB, sectorSize, nil, guid("test"), epoch); err != nil {
			t.Errorf("%d MiB: %v", n, err)
		}
		if out, err := run("fsck.fat", "-n", disk).CombinedOutput(); err != nil {
			t.Errorf("%d MiB: fsck.fat -n: %v\n%s", n, err, out)
		}
	}
}
