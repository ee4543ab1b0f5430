package qemu

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	disks "garboard.local/builder/image"
)

// largeSectors is a disk whose sectors have 4096 bytes, as many NVMe and all newer
// large disks can have.
const largeSectors = "virtio-blk-pci,logical_block_size=4096,physical_block_size=4096"

// largeTable demands of sfdisk a table with so many partitions in large sectors. As a
// disk with small ones the same has no GPT.
func (d image) largeTable(partitions int) {
	d.t.Helper()
	for _, tt := range []struct {
		sector     string
		gpt        bool
		partitions int
	}{{"4096", true, partitions}, {"512", false, 1}} {
		verdict, err := d.judge("sfdisk", "--sector-size="+tt.sector, "--verify", d.path)
		dump, err2 := d.judge("sfdisk", "--sector-size="+tt.sector, "--dump", d.path)
		if err = errors.Join(err, err2); err != nil || !strings.Contains(verdict, "No errors detected") ||
			strings.Contains(dump, "label: gpt") != tt.gpt || strings.Count(dump, " : start=") != tt.partitions {
			d.t.Errorf("sfdisk with sectors of %s: %v\n%s\n%s", tt.sector, err, verdict, dump)
		}
	}
}

// A node installs itself from a CD to a disk with large sectors, with an EFI system
// partition that has them too; the firmware boots it.
func TestVMLongISOInstallLargeSectors(t *testing.T) {
	parts, _, err := disks.Layout(AMD64, disks.Sizes{})
	if err != nil {
		t.Fatal(err)
	}
	esp, dataPart := parts[1], parts[4]
	disk := newImage(t, 2048*mib)
	m := isoMachine(t, "test-"+AMD64, onSCSI, Disk{Path: disk.path, Device: largeSectors})
	iso := m.Disks[0].Path
	m.Cmdline = toFirstDisk
	if !t.Run("install", func(t *testing.T) {
		runBoot(t, m, "", bootLimit, func(b *boot) error { return b.installs(`^garboard: install: copied and read back$`) })
	}) {
		return
	}
	disk.largeTable(len(parts))
	disk.sameESP(esp.Start, iso, disks.BootFile(AMD64))
	fat := filepath.Join(t.TempDir(), "esp")
	if err := piece(fat, disk.path, esp.Start, esp.Size); err != nil {
		t.Fatal(err)
	}
	if out, err := disk.judge("fsck.fat", "-n", "-v", fat); err != nil || !strings.Contains(out, "4096 bytes per logical sector") {
		t.Errorf("fsck.fat: %v\n%s", err, out)
	}
	m.Devices, m.Disks, m.Cmdline = nil, m.Disks[1:], ""
	if t.Run("the disk boots", func(t *testing.T) { runBoot(t, m, "running", bootLimit, (*boot).keeps) }) {
		disk.largeTable(len(parts))
		disk.fileSystemClean(dataPart.Start)
	}
}

// piece writes a part of an image into a file of its own.
func piece(to, from string, start, size int64) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	if n, err := io.Copy(out, io.NewSectionReader(in, start, size)); err != nil || n != size {
		return errors.Join(fmt.Errorf("%s: %d of %d bytes from %d", from, n, size, start), err, out.Close())
	}
	return out.Close()
}
