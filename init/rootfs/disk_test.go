package rootfs

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const testGUID = "0FC63DAF-8483-4772-8E79-3D69D8477DE4"

func TestDiskFindsItsPartition(t *testing.T) {
	for _, tt := range []struct{ name, guid, device, fault string }{
		{"there", testGUID, "/dev/nvme0n1p3", ""},
		{"in small letters", strings.ToLower(testGUID), "/dev/vda3", ""},
		{"not there", testGUID, "", "no partition " + testGUID + " with the root image after 0s; the kernel shows [vda vda1]. Is the disk there, and its driver among kernel.disks"},
		{"no GUID", "/dev/vda3", "/dev/vda3", "garboard.root=/dev/vda3: want the GUID of a partition"},
		{"empty", "", "/dev/vda3", "garboard.root=: want"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := &Disk{GUID: tt.guid, Printf: t.Logf, Find: func(guid string) (string, []string) {
				if guid != tt.guid {
					t.Errorf("asked for %q", guid)
				}
				return tt.device, []string{"vda", "vda1"}
			}}
			got, err := d.find()
			if err == nil && got != tt.device || (err == nil) != (tt.fault == "") || err != nil && !strings.Contains(err.Error(), tt.fault) {
				t.Errorf("%q, %v; want %q, %q", got, err, tt.device, tt.fault)
			}
		})
	}
}

func TestDiskWaitsForALateOne(t *testing.T) {
	var said string
	d := &Disk{GUID: testGUID, Limit: time.Hour, Poll: time.Millisecond,
		Printf: func(format string, args ...any) { said = fmt.Sprintf(format, args...) }}
	d.Find = func(string) (string, []string) { // there once the wait was mentioned
		if said == "" {
			return "", nil
		}
		return "/dev/sda1", nil
	}
	if got, err := d.find(); got != "/dev/sda1" || err != nil || !strings.Contains(said, "waiting for the partition "+testGUID+", at most 1h0m0s") {
		t.Errorf("%q, %v; said %q", got, err, said)
	}
}
