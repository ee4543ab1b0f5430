package data

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestOnTheWay(t *testing.T) {
	m := newMachine(t)
	for f, s := range map[string]string{
		"class/nvme/nvme0/state":                                           "live",
		"class/nvme/nvme1/state":                                           "connecting",
		"bus/scsi/devices/0:0:0:0/type":                                    "0",
		"bus/scsi/devices/0:0:0:0/block/sda/size":                          "8",
		"bus/scsi/devices/1:0:0:0/type":                                    "0",
		"bus/scsi/devices/2:0:0:0/type":                                    "5", // a CD
		"bus/scsi/devices/host0/x":                                         "",
		"bus/usb/devices/1-1:1.0/bInterfaceClass":                          "08",
		"bus/usb/devices/1-2:1.0/bInterfaceClass":                          "03",
		"bus/usb/devices/1-3:1.0/bInterfaceClass":                          "08",
		"bus/usb/devices/1-3:1.0/host6/target6:0:0/6:0:0:0/block/sdb/size": "8",
		"bus/xen/devices/vbd-51712/devtype":                                "vbd",
		"bus/xen/devices/vif-0/devtype":                                    "vif",
		"bus/virtio/devices/virtio0/device":                                "0x0002",
		"bus/virtio/devices/virtio0/driver/x":                              "",
		"bus/virtio/devices/virtio1/device":                                "0x0002",
		"bus/virtio/devices/virtio1/driver/x":                              "",
		"bus/virtio/devices/virtio1/block/vda/size":                        "8",
		"bus/virtio/devices/virtio2/device":                                "0x0002", // no driver
		"bus/virtio/devices/virtio3/device":                                "0x0001", // a network card
		"bus/virtio/devices/virtio3/driver/x":                              "",
	} {
		m.sysfile(f, s)
	}
	if got, want := onTheWay(m.Sys), []string{"1-1:1.0", "1:0:0:0", "nvme1", "vbd-51712", "virtio0"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if usb(m.Sys) {
		t.Error("there is no USB host yet")
	}
	m.sysfile("bus/usb/devices/usb1/speed", "480")
	if !usb(m.Sys) {
		t.Error("there is a USB host")
	}
}

// Disks without a data partition on a machine where nothing is on its way: no wait,
// whatever the limits.
func TestNothingOnItsWay(t *testing.T) {
	m := newMachine(t)
	m.disk("vda", sparse(t, 64*mib).Name())
	m.sysfile("class/nvme/nvme0/state", "live")
	m.Limits.Late, m.Limits.Bus = time.Hour, time.Hour
	if p, err := m.Prepare(t.Context()); p != nil || err != nil || len(m.said) > 0 {
		t.Errorf("%+v, %v, said %q", p, err, m.said)
	}
}

func TestLateDisk(t *testing.T) {
	late := withData(t, 600*mib, guidA).Name()
	for name, prepare := range map[string]func(*machine){
		"waiting for disks that have not appeared yet (nvme0), at most 1m0s":   func(m *machine) { m.sysfile("class/nvme/nvme0/state", "new") },
		"waiting for disks on USB, at most 1m0s":                               func(m *machine) { m.sysfile("bus/usb/devices/usb1/speed", "480") },
		"waiting for the boot disk, with partition " + guidA + ", at most 1m0": func(m *machine) { m.Boot = func() (string, error) { return guidA, nil } },
		"waiting for the disk serial=S-vdb, at most 1m0s":                      func(m *machine) { m.Param = "serial=S-vdb" },
	} {
		m := newMachine(t)
		m.disk("vda", sparse(t, 64*mib).Name())
		m.Limits.Late, m.Limits.Bus, m.Limits.Named = time.Minute, time.Hour, time.Minute
		prepare(m)
		say := m.Printf
		m.Printf = func(f string, a ...any) { // it comes while it is waited for
			say(f, a...)
			if strings.HasPrefix(m.said[len(m.said)-1], "data: waiting") {
				m.disk("vdb", late)
			}
		}
		p, err := m.Prepare(t.Context())
		if err != nil || p == nil || filepath.Base(p.Device) != "vdb1" {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
		m.mustSay(name)
	}
}

func TestTheWaitEnds(t *testing.T) {
	m := newMachine(t)
	m.disk("vda", sparse(t, 64*mib).Name())
	m.sysfile("class/nvme/nvme0/state", "new")
	m.Limits.Late = 60 * time.Millisecond
	if p, err := m.Prepare(t.Context()); p != nil || err != nil {
		t.Errorf("%+v, %v", p, err)
	}
	m.mustSay("waiting for disks that have not appeared yet (nvme0)")

	m = newMachine(t)
	m.Param = "serial=absent"
	m.Limits.Named = 60 * time.Millisecond
	if p, err := m.Prepare(t.Context()); p != nil || err == nil || !strings.Contains(err.Error(), "no disk serial=absent after 60ms") {
		t.Errorf("%+v, %v", p, err)
	}
}
