package data

import (
	"path/filepath"
	"slices"
)

// Most disks are there when their driver is: loading a module waits for all that
// it probes in the background, and the kernel starts PID 1 only after the drivers
// it was built with are done. What comes later shows that it is coming.

// onTheWay names the devices that announce a disk which is not there yet.
func onTheWay(sys string) []string {
	var out []string
	each := func(pattern string, coming func(dev string) bool) {
		found, _ := filepath.Glob(filepath.Join(sys, pattern)) // the patterns are right
		for _, dev := range found {
			if coming(dev) {
				out = append(out, filepath.Base(dev))
			}
		}
	}
	without := func(dev, pattern string) bool {
		found, _ := filepath.Glob(filepath.Join(dev, pattern))
		return len(found) == 0
	}
	// A controller that is starting or being reset; one that is live may have no disk.
	each("class/nvme/nvme*", func(d string) bool {
		return slices.Contains([]string{"new", "resetting", "connecting"}, text(d, "state"))
	})
	// Disks (type 0) that their driver has not finished with.
	each("bus/scsi/devices/*:*", func(d string) bool { return text(d, "type") == "0" && without(d, "block/*") })
	// USB mass storage, which takes a second before it is asked for its disks.
	each("bus/usb/devices/*:*", func(d string) bool {
		return text(d, "bInterfaceClass") == "08" && without(d, "host*/target*/*/block/*")
	})
	// A driver of the initramfs, which did not wait for its devices, may be at them.
	each("bus/virtio/devices/*", func(d string) bool {
		return text(d, "device") == "0x0002" && !without(d, "driver") && without(d, "block/*")
	})
	// Xen's handshake with the host.
	each("bus/xen/devices/vbd-*", func(d string) bool { return without(d, "block/*") })
	slices.Sort(out)
	return out
}

// usb says whether the machine has a bus on which devices are found at leisure.
func usb(sys string) bool {
	found, _ := filepath.Glob(filepath.Join(sys, "bus/usb/devices/usb*"))
	return len(found) > 0
}
