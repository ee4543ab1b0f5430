package data

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/diskfs/go-diskfs/partition/gpt"
)

// showDisk makes the kernel show a disk of 512 MiB with partitions, on which the
// table gives their GUIDs.
func showDisk(t *testing.T, root, name string, readOnly bool, guids map[int]string) string {
	t.Helper()
	file := filepath.Join(root, "dev", name)
	const size = 512 * mib
	set := func(path, text string) {
		p := filepath.Join(root, "sys/block", name, path)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	table := &gpt.Table{LogicalSectorSize: int(sector), PhysicalSectorSize: int(sector), ProtectiveMBR: true}
	for n, g := range guids {
		start := uint64(int64(n) * mib / sector)
		table.Partitions = append(table.Partitions, &gpt.Partition{Index: n, Type: gpt.LinuxRootX86_64, GUID: g, Start: start, End: start + 2047})
		set(fmt.Sprintf("%s/partition", partName(name, n)), fmt.Sprint(n))
	}
	if err := table.Write(f, size); err != nil {
		t.Fatal(err)
	}
	set("size", fmt.Sprint(size/512))
	set("queue/logical_block_size", "512")
	set("ro", map[bool]string{false: "0", true: "1"}[readOnly])
	set("device/type", "0")
	return file
}

func TestFindPartition(t *testing.T) {
	const a, b, c = "0FC63DAF-8483-4772-8E79-3D69D8477D01", "0FC63DAF-8483-4772-8E79-3D69D8477D02", "0FC63DAF-8483-4772-8E79-3D69D8477D03"
	root := t.TempDir()
	sys, dev := filepath.Join(root, "sys"), filepath.Join(root, "dev")
	find := func(guid string) string {
		device, shown := FindPartition(sys, dev, guid)
		if device != "" {
			return strings.TrimPrefix(device, dev)
		}
		return fmt.Sprint(shown)
	}
	if got := find(a); got != "[]" {
		t.Errorf("without disks: %s", got)
	}
	showDisk(t, root, "vda", false, map[int]string{1: a})
	nvme := showDisk(t, root, "nvme0n1", true, map[int]string{1: c, 5: b})
	if err := os.WriteFile(filepath.Join(dev, "empty"), make([]byte, mib), 0o644); err != nil {
		t.Fatal(err)
	}
	for guid, want := range map[string]string{a: "/vda1", strings.ToLower(b): "/nvme0n1p5", c: "/nvme0n1p1",
		"0FC63DAF-8483-4772-8E79-3D69D8477D04": "[nvme0n1 nvme0n1p1 nvme0n1p5 vda vda1]"} {
		if got := find(guid); got != want {
			t.Errorf("%s: %s, want %s", guid, got, want)
		}
	}
	// The first copy of the table is damaged: the second is as good.
	f, err := os.OpenFile(nvme, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(make([]byte, 4096), 0); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if got := find(b); got != "/nvme0n1p5" {
		t.Errorf("with a damaged table: %s", got)
	}
	// In the table, but the kernel does not know of it (yet).
	if err := os.RemoveAll(filepath.Join(sys, "block/vda/vda1")); err != nil {
		t.Fatal(err)
	}
	if got := find(a); got != "[nvme0n1 nvme0n1p1 nvme0n1p5 vda]" {
		t.Errorf("unknown to the kernel: %s", got)
	}
}
