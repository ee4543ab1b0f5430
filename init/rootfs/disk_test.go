package rootfs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const testGUID = "0FC63DAF-8483-4772-8E79-3D69D8477DE4"

// show makes the kernel show a block device.
func show(t *testing.T, sys, name, uevent string) {
	t.Helper()
	dir := filepath.Join(sys, "class/block", name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "uevent"), []byte(uevent), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestDiskFindsItsPartition(t *testing.T) {
	for _, tt := range []struct{ name, guid, uevent, want, fault string }{
		{"there", testGUID, "DEVNAME=nvme0n1p3\nDEVTYPE=partition\nPARTN=3\nPARTUUID=" + strings.ToLower(testGUID) + "\n", "/dev/nvme0n1p3", ""},
		{"another", testGUID, "DEVNAME=vda3\nPARTUUID=0fc63daf-8483-4772-8e79-3d69d8477de5\n", "", "the kernel shows vda, vda3. Is the disk there"},
		{"no table", testGUID, "DEVNAME=vda3\n", "", "no partition " + testGUID},
		{"MBR", testGUID, "DEVNAME=vda3\nPARTUUID=12345678-01\n", "", "no partition"},
		{"a path", testGUID, "DEVNAME=../sda\nPARTUUID=" + testGUID + "\n", "", "the kernel shows vda. "},
		{"no GUID", "/dev/vda3", "", "", "garboard.root=/dev/vda3: want the GUID of a partition"},
		{"empty", "", "", "", "garboard.root=: want"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sys := t.TempDir()
			show(t, sys, "loop0", "DEVNAME=loop0\n")
			show(t, sys, "vda", "MAJOR=254\nDEVNAME=vda\nDEVTYPE=disk\n")
			show(t, sys, "x", tt.uevent)
			d := &Disk{Sys: sys, Dev: "/dev", GUID: tt.guid, Printf: t.Logf}
			got, err := d.find()
			if got != tt.want || (err == nil) != (tt.fault == "") || err != nil && !strings.Contains(err.Error(), tt.fault) {
				t.Errorf("%q, %v; want %q, %q", got, err, tt.want, tt.fault)
			}
		})
	}
}

func TestDiskWaitsForALateOne(t *testing.T) {
	sys := t.TempDir()
	said := make(chan string, 1)
	d := &Disk{Sys: sys, Dev: "/dev", GUID: testGUID, Limit: time.Hour, Poll: time.Millisecond,
		Printf: func(format string, args ...any) { said <- fmt.Sprintf(format, args...) }}
	found := make(chan string)
	go func() {
		dev, err := d.find()
		found <- fmt.Sprint(dev, err)
	}()
	if got := <-said; !strings.Contains(got, "waiting for the partition "+testGUID+", at most 1h0m0s") {
		t.Errorf("it says %q", got)
	}
	show(t, sys, "sda1", "DEVNAME=sda1\nPARTUUID="+testGUID+"\n")
	if got := <-found; got != "/dev/sda1<nil>" {
		t.Errorf("found %s", got)
	}
}

func TestDiskWithoutAny(t *testing.T) {
	d := &Disk{Sys: t.TempDir(), Dev: "/dev", GUID: testGUID, Printf: t.Logf}
	if _, err := d.find(); err == nil || !strings.Contains(err.Error(), "the kernel shows no disk") || !strings.Contains(err.Error(), "kernel.disks") {
		t.Error(err)
	}
}
