package qemu

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"garboard.local/builder/source/debian"
)

const (
	mib = 1 << 20
	// dataStart is where the partition begins that a node makes on a blank disk.
	dataStart = mib
)

// image is a disk of a machine under test, looked at from the host between boots.
type image struct {
	t    *testing.T
	path string
}

func newImage(t *testing.T, size int64) image {
	t.Helper()
	d := image{t, filepath.Join(t.TempDir(), "disk.raw")}
	d.truncate(size)
	return d
}

func (d image) truncate(size int64) {
	d.t.Helper()
	f, err := os.OpenFile(d.path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		d.t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(size), f.Close()); err != nil {
		d.t.Fatal(err)
	}
}

func (d image) zero(from, length int64) {
	d.t.Helper()
	f, err := os.OpenFile(d.path, os.O_RDWR, 0)
	if err != nil {
		d.t.Fatal(err)
	}
	_, err = f.WriteAt(make([]byte, length), from)
	if err := errors.Join(err, f.Close()); err != nil {
		d.t.Fatal(err)
	}
}

// judge runs a pinned tool on the image, as somebody else's word on it.
func (d image) judge(tool string, args ...string) (string, error) {
	d.t.Helper()
	if *toolsFlag == "" {
		d.t.Fatalf("no tools to judge disks with: %s", buildFirst)
	}
	var out bytes.Buffer
	cmd := debian.Command(context.Background(), *toolsFlag, tool, args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// clean demands that sgdisk has nothing to say about the table and e2fsck
// nothing about the file system, which was unmounted.
func (d image) clean() {
	d.t.Helper()
	d.tableClean()
	d.fileSystemClean(dataStart)
}

// cleanAt is clean for a data partition that begins elsewhere.
func (d image) cleanAt(start int64) {
	d.t.Helper()
	d.tableClean()
	d.fileSystemClean(start)
}

func (d image) tableClean() {
	d.t.Helper()
	if out, err := d.judge("sgdisk", "-v", d.path); err != nil || !strings.Contains(out, "No problems found") {
		d.t.Errorf("sgdisk -v: %v\n%s", err, out)
	}
}

func (d image) at(start int64) string { return fmt.Sprintf("%s?offset=%d", d.path, start) }

func (d image) fileSystemClean(start int64) {
	d.t.Helper()
	if out, err := d.judge("e2fsck", "-fn", d.at(start)); err != nil || strings.Contains(out, "recover") {
		d.t.Errorf("e2fsck -fn: %v\n%s", err, out)
	}
	f, err := os.Open(d.path)
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 2)
	if _, err := f.ReadAt(b, start+1024+0x3a); err != nil || binary.LittleEndian.Uint16(b) != 1 {
		d.t.Errorf("s_state of the superblock is %#x (%v), want 1: cleanly unmounted", b, err)
	}
}

// needsReplay says whether the journal holds what the file system does not, in the
// word of debugfs, which for that must not read the rest (-c).
func (d image) needsReplay() bool {
	d.t.Helper()
	out, err := d.judge("debugfs", "-c", "-R", "features", d.at(dataStart))
	if err != nil || !strings.Contains(out, "has_journal") {
		d.t.Errorf("debugfs: %v\n%s", err, out)
	}
	return strings.Contains(out, "needs_recovery")
}

// crioMark says whether cri-o left the mark of a clean stop. The file system must be clean.
func (d image) crioMark() bool {
	d.t.Helper()
	out, err := d.judge("debugfs", "-R", "stat /lib/crio/clean.shutdown", d.at(dataStart))
	missing := strings.Contains(out, "File not found")
	if err != nil || missing == strings.Contains(out, "Type: regular") {
		d.t.Errorf("debugfs: %v\n%s", err, out)
	}
	return !missing
}

// dataLine is what the tester says of one boot.
type dataLine struct {
	inVar, inEtc, size int
	machineID, seed    string
}

// dataLine reads it; first is the count of lines in the first boot, which pulls.
func (b *boot) dataLine(first int) (dataLine, error) {
	m, err := b.sees(podLine("tester", `data: var (\d+), etc (\d+), machine-id ([0-9a-f]{32}), seed ([0-9a-f]+) of 64 bytes, size (\d+) MiB$|GARBOARD-VERDICT .* FAIL`), podsCeiling)
	if err == nil && m.Groups[1] == "" {
		err = b.Console.Failure(nil, "the tester has no data to speak of")
	}
	if err != nil {
		return dataLine{}, err
	}
	number := func(i int) int {
		n, _ := strconv.Atoi(m.Groups[i])
		return n
	}
	now := dataLine{number(1), number(2), number(5), m.Groups[3], m.Groups[4]}
	if _, err := b.sees(podLine("tester", fmt.Sprintf(`data: the pulled image runs, pulled in this boot: %t$|GARBOARD-VERDICT .* FAIL`, now.inVar == first)), podsCeiling); err != nil {
		return now, err
	}
	return now, b.verdict(podsCeiling)
}

// beforeFirstStats is what the kubelet says once beside containerd, whose figures
// come some seconds after its socket; said again it has other words.
const beforeFirstStats = "Image garbage collection failed once. Stats initialization may not have completed yet"

// sane refuses what a kubelet says that sees a file system without a size, but for
// lines with one of these texts.
func (b *boot) sane(but ...string) error {
	for _, l := range b.Console.Lines() {
		if p, ok := l.Pod(); ok && strings.HasPrefix(p.Text, "data: kubelet:") &&
			!slices.ContainsFunc(but, func(text string) bool { return strings.Contains(p.Text, text) }) {
			return errors.New(p.Text)
		}
	}
	return nil
}

// A data partition is made, found, grown and repaired, and holds what it was
// given, over power-offs and a power cut. In the first boot an image is pulled,
// which the later ones have, and the kubelet is asked for its figures.
func TestVMData(t *testing.T) {
	d := newImage(t, 1024*mib)
	scenario := "data-capacity"
	run := func(name, cmdline string, story func(*boot) error) bool {
		return t.Run(name, func(t *testing.T) {
			m := testMachine(t, "test-amd64")
			m.Disks = []Disk{{Path: d.path}}
			m.Cmdline += cmdline
			runBoot(t, m, scenario, bootLimit, story)
			scenario = "data"
		})
	}
	off := func(b *boot) error {
		if err := b.PowerButton(b.ctx); err != nil {
			return err
		}
		if err := b.endsInOrder(false); err != nil {
			return err
		}
		for _, l := range b.Console.Lines() {
			if strings.Contains(l.Text, "/var (ext4) was busy") {
				return errors.New(l.Text)
			}
		}
		return errors.Join(b.judged(), b.sane())
	}
	var first, last dataLine
	said := func(b *boot, want int) error {
		now, err := b.dataLine(1)
		if err != nil {
			return err
		}
		if now.inVar != want || now.inEtc != want {
			return fmt.Errorf("boot %d finds %d lines in /var and %d in /etc", want, now.inVar, now.inEtc)
		}
		if want > 1 && (now.machineID != first.machineID || now.seed == last.seed) {
			return fmt.Errorf("machine-id and seed: %+v, after %+v", now, last)
		}
		if want == 1 {
			first = now
		}
		last = now
		return nil
	}
	ok := run("made on the named blank disk", " garboard.data=/dev/vda", func(b *boot) error {
		if _, err := b.sees(`^garboard: data: /dev/vda is blank and named by garboard.data=`, podsCeiling); err != nil {
			return err
		}
		return errors.Join(said(b, 1), off(b))
	})
	if !ok {
		return
	}
	d.clean()
	if !d.crioMark() {
		t.Error("cri-o's mark of a clean stop is missing after a clean shutdown")
	}
	d.truncate(2048 * mib)
	ok = run("found by type, grown, power cut", "", func(b *boot) error {
		if _, err := b.sees(`^garboard: data: /dev/vda is larger than its partition table: partition 1 grows from 1022 to 2046 MiB`, podsCeiling); err != nil {
			return err
		}
		if err := said(b, 2); err != nil {
			return err
		}
		if last.size < first.size+900 {
			return fmt.Errorf("the file system has %d MiB, before it had %d", last.size, first.size)
		}
		if err := b.judged(); err != nil {
			return err
		}
		b.Kill() // a power cut
		return nil
	})
	if !ok {
		return
	}
	if !d.needsReplay() {
		t.Error("the power cut was none: the journal is empty")
	}
	ok = run("replayed after the cut", "", func(b *boot) error { return errors.Join(said(b, 3), off(b)) })
	if !ok {
		return
	}
	d.clean()
	if d.needsReplay() || !d.crioMark() {
		t.Error("the journal was not replayed, or cri-o has not stopped cleanly")
	}
	d.zero(512, 512)          // the primary GPT header
	d.zero(dataStart, 64<<10) // the superblock and the group descriptors
	ok = run("table and superblock repaired", "", func(b *boot) error {
		for _, line := range []string{
			`^garboard: data: /dev/vda: the first copy of the partition table is damaged, restored`,
			`^garboard: data: /dev/vda1 has no superblock and is not empty: damaged`,
		} {
			if _, err := b.sees(line, podsCeiling); err != nil {
				return err
			}
		}
		return errors.Join(said(b, 4), off(b))
	})
	if ok {
		d.clean()
	}
}

// A disk that holds something else is not touched, and the node runs in memory
// and says so.
func TestVMDataRefused(t *testing.T) {
	d := newImage(t, 512*mib)
	if out, err := d.judge("mke2fs", "-q", "-F", "-t", "ext4", d.path); err != nil {
		t.Fatalf("mke2fs: %v\n%s", err, out)
	}
	before := fingerprint(t, d.path)
	m := testMachine(t, "test-amd64")
	m.Disks = []Disk{{Path: d.path}}
	m.Cmdline += " garboard.data=/dev/vda"
	runBoot(t, m, "no-data", bootLimit, func(b *boot) error {
		for _, line := range []string{
			`^garboard: data: WARNING: the data partition is NOT used: /dev/vda holds something else \(ext4\)`,
			`^garboard: data: no data partition: /var is in memory, at most \d+ MiB`,
		} {
			if _, err := b.sees(line, podsCeiling); err != nil {
				return err
			}
		}
		if err := b.verdict(podsCeiling); err != nil {
			return err
		}
		if err := b.PowerButton(b.ctx); err != nil {
			return err
		}
		return errors.Join(b.endsInOrder(false), b.judged(), b.sane())
	})
	if after := fingerprint(t, d.path); after != before {
		t.Errorf("the disk was written to: %x, before %x", after, before)
	}
}

func fingerprint(t *testing.T, path string) [32]byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		t.Fatal(err)
	}
	return [32]byte(h.Sum(nil))
}
