package image

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"garboard.local/builder/store"
	"garboard.local/init/data"
)

// TestISOJudgedByOthers has xorriso, sgdisk, fsck.fat and mtools look at an ISO
// whose ESP is larger than the 32 MiB that El Torito can count.
func TestISOJudgedByOthers(t *testing.T) {
	run := tools(t)
	if run == nil {
		return
	}
	for _, tt := range []struct {
		arch string
		uki  int64 // bytes
		esp  int64 // MiB
	}{{"amd64", MiB, 64}, {"arm64", 60 * MiB, 64}, {"amd64", 60*MiB + 1, 65}} {
		t.Run(fmt.Sprint(tt.arch, tt.uki), func(t *testing.T) {
			uki := write(t, "uki", bytes.Repeat([]byte("UKI"), int(tt.uki)/3+1)[:tt.uki])
			in := ISOInput{Medium: MediumGUID(tt.arch), ESP: []ESPFile{{BootFile(tt.arch), uki}}, Epoch: epoch}
			var files, sums [2]string
			for i := range files {
				for k, v := range map[string]string{"TZ": fmt.Sprintf("UTC%+d", 11*i), "LC_ALL": []string{"C", "C.UTF-8"}[i], sourceDate: fmt.Sprint(i)} {
					t.Setenv(k, v)
				}
				st := openStore(t)
				old := syscall.Umask(0o77 * i)
				var err error
				files[i], _, err = ISO(context.Background(), st, run, "key", in)
				syscall.Umask(old)
				if err != nil {
					t.Fatal(err)
				}
				if sums[i], err = store.HashFile(files[i]); err != nil {
					t.Fatal(err)
				}
			}
			if sums[0] != sums[1] {
				t.Errorf("two images of one input differ: %s, %s", files[0], files[1])
			}
			if left, err := os.ReadDir(filepath.Dir(files[0])); err != nil || len(left) != 1 {
				t.Errorf("left in the store: %v, %v", left, err)
			}
			judgeISO(t, run, files[0], in, tt.esp*MiB)
		})
	}
}

func judgeISO(t *testing.T, run Run, iso string, in ISOInput, espSize int64) {
	t.Helper()
	// As a CD: where the firmware looks for the ESP, and that nothing bounds it (0:
	// up to the end, UEFI 2.10, 13.3.2.1; what El Torito can count ends at 32 MiB).
	out, err := run("xorriso", "-no_rc", "-indev", iso, "-report_el_torito", "plain").CombinedOutput()
	if err != nil {
		t.Fatalf("xorriso -indev: %v\n%s", err, out)
	}
	boot := regexp.MustCompile(`El Torito boot img : +1 +UEFI +y +none +0x0000 +0x00 +0 +(\d+)\n`).FindSubmatch(out)
	if boot == nil || bytes.Contains(out, []byte("BIOS")) || !bytes.Contains(out, []byte("Volume id    : '"+isoVolume+"'")) {
		t.Fatalf("xorriso finds no single EFI boot image, or one with a size:\n%s", out)
	}
	lba, err := strconv.ParseInt(string(boot[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	// EDK2 takes what is left of the volume, not of the medium.
	volume := cut(t, iso, Partition{Name: "volume", Start: 16 * 2048, Size: 2048})
	b, err := os.ReadFile(volume)
	if err != nil {
		t.Fatal(err)
	}
	if n := int64(binary.LittleEndian.Uint32(b[80:])); n*2048 < lba*2048+espSize { // ECMA-119, 8.4.8
		t.Errorf("the volume has %d blocks of 2048 bytes, the ESP begins at %d and has %d bytes", n, lba, espSize)
	}
	// As a disk.
	if out := output(t, run("sgdisk", "-v", iso)); !strings.Contains(out, "No problems found") {
		t.Errorf("sgdisk -v:\n%s", out)
	}
	if out := output(t, run("sgdisk", "-p", iso)); !strings.Contains(out, "Disk identifier (GUID): "+in.Medium) {
		t.Errorf("the table does not name the medium %s:\n%s", in.Medium, out)
	}
	info := output(t, run("sgdisk", fmt.Sprintf("-i=%d", isoESP), iso))
	for _, want := range []string{"Partition GUID code: C12A7328-F81F-11D2-BA4B-00A0C93EC93B",
		fmt.Sprintf("First sector: %d (", lba*4), fmt.Sprintf("Partition size: %d sectors", espSize/512)} {
		if !strings.Contains(info, want) {
			t.Errorf("the ESP of the table is not that of El Torito, %q:\n%s", want, info)
		}
	}
	fat := cut(t, iso, Partition{Name: "esp", Start: lba * 2048, Size: espSize})
	if out, err := run("fsck.fat", "-n", "-v", fat).CombinedOutput(); err != nil {
		t.Errorf("fsck.fat -n: %v\n%s", err, out)
	}
	if out := output(t, run("mdir", "-i", fat, "::/")); !strings.Contains(out, "Serial Number is "+in.Medium[:4]+"-"+in.Medium[4:8]) {
		t.Errorf("the serial number does not begin as the medium %s does:\n%s", in.Medium, out)
	}
	for _, f := range in.ESP {
		got := sha256.Sum256([]byte(output(t, run("mtype", "-i", fat, "::"+f.Path))))
		if want, err := store.HashFile(f.From); err != nil || hex.EncodeToString(got[:]) != want {
			t.Errorf("mtype %s: other content (%v)", f.Path, err)
		}
	}
	judgeLargeESP(t, run, iso, lba*2048, in)
	// Negative controls.
	for _, d := range []struct {
		at          int64
		tool, sound string
		args        []string
	}{
		{0x8801, "xorriso", "UEFI", []string{"-no_rc", "-indev", iso, "-report_el_torito", "plain"}}, // the boot record
		{1024 + 16, "sgdisk", "No problems found", []string{"-v", iso}},
	} {
		f, err := os.OpenFile(iso, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteAt([]byte{0xde, 0xad}, d.at); err != nil {
			t.Fatal(err)
		}
		if out, err := run(d.tool, d.args...).CombinedOutput(); err == nil && strings.Contains(string(out), d.sound) {
			t.Errorf("%s finds nothing wrong with damage at %d:\n%s", d.tool, d.at, out)
		}
	}
}

// judgeLargeESP puts together what a node writes to a disk with sectors of 4096 bytes.
func judgeLargeESP(t *testing.T, run Run, iso string, esp int64, in ISOInput) {
	t.Helper()
	info := output(t, run("sgdisk", fmt.Sprintf("-i=%d", isoESP+1), iso))
	m := regexp.MustCompile(`Partition GUID code: ([-0-9A-F]+) .*\n(?:.*\n)*First sector: (\d+) `).FindStringSubmatch(info)
	if m == nil || m[1] != string(data.LargeESPType) {
		t.Fatalf("no partition of type %s:\n%s", data.LargeESPType, info)
	}
	first, err := strconv.ParseInt(m[2], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(iso)
	if err != nil {
		t.Fatal(err)
	}
	large := b[first*512:]
	number := func(at int) int64 { return int64(binary.LittleEndian.Uint64(large[at:])) } // after 16 bytes
	head, from, size, packed := number(16), number(24), number(32), number(40)
	z, err := gzip.NewReader(bytes.NewReader(large[48 : 48+packed]))
	if err != nil {
		t.Fatal(err)
	}
	fs, err := io.ReadAll(z)
	if err != nil || int64(len(fs)) != head {
		t.Fatalf("%d bytes before the file, not %d: %v", len(fs), head, err)
	}
	file := write(t, "esp4096", append(fs, b[esp+from:esp+from+size]...))
	if err := os.Truncate(file, DefaultESPSize); err != nil {
		t.Fatal(err)
	}
	out := output(t, run("fsck.fat", "-n", "-v", file))
	for _, want := range []string{"4096 bytes per logical sector", "4096 bytes per cluster", " 512 hidden sectors", "131072 sectors total", ": 4 files, "} {
		if !strings.Contains(out, want) {
			t.Errorf("fsck.fat does not say %q:\n%s", want, out)
		}
	}
	got := sha256.Sum256([]byte(output(t, run("mtype", "-i", file, "::"+in.ESP[0].Path))))
	if want, err := store.HashFile(in.ESP[0].From); err != nil || hex.EncodeToString(got[:]) != want {
		t.Errorf("mtype %s: other content (%v)", in.ESP[0].Path, err)
	}
}

// With a file that the ESP on a disk does not hold, or with two, there is no second form.
func TestNoLargeESP(t *testing.T) {
	huge := write(t, "uki", nil)
	if err := os.Truncate(huge, DefaultESPSize-espSlack+1); err != nil {
		t.Fatal(err)
	}
	for _, esp := range [][]ESPFile{nil, {{"/a", huge}}, {{"/a", huge}, {"/b", huge}}} {
		if written, err := writeLargeESP(nil, filepath.Join(t.TempDir(), "x"), huge, ISOInput{ESP: esp}); written || err != nil {
			t.Errorf("%d files: %t, %v", len(esp), written, err)
		}
	}
}

func TestContentAt(t *testing.T) {
	content := bytes.Repeat([]byte("content!"), 300) // 2400 bytes
	image := make([]byte, 3*MiB)
	copy(image[512:], content[:1000]) // not all of it
	copy(image[2*MiB-1024:], content) // across what is read at once
	file := write(t, "content", content)
	at, err := contentAt(write(t, "image", image), file, 512)
	if err != nil || at != 2*MiB-1024 {
		t.Errorf("at %d, %v", at, err)
	}
	if at, err := contentAt(write(t, "image", image[:2*MiB+1000]), file, 512); err == nil {
		t.Errorf("in an image that ends before it: at %d", at)
	}
	if at, err := contentAt(write(t, "image", image), file, 4096); err == nil {
		t.Errorf("in larger steps: at %d", at)
	}
}

// A node installs itself to a disk with the partitions of a disk image.
func TestInstalledLayout(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		want, _, err := Layout(arch, Sizes{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := data.InstalledLayout(arch)
		if err != nil || len(got) != len(want) {
			t.Fatalf("%+v, %v", got, err)
		}
		for i, p := range got {
			w := want[i]
			if p.Size == 0 && i == len(got)-1 {
				w.Size = 0
			}
			if p.Number != w.Number || p.Name != w.Name || p.Type != w.Type || p.Start*MiB != w.Start || p.Size*MiB != w.Size {
				t.Errorf("%s: a node makes %+v, a disk image has %+v", arch, p, want[i])
			}
		}
	}
}
