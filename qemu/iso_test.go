package qemu

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

// isoMachine boots an image's ISO, which is the first disk and on that device.
func isoMachine(t *testing.T, image, device string, more ...Disk) Machine {
	t.Helper()
	m := testMachine(t, image)
	m.Kernel, m.Initrd, m.Cmdline = "", "", ""
	if c := controller(device); c != "" {
		m.Devices = []string{c}
	}
	name, _, _ := strings.Cut(image, "-"+m.Arch)
	m.Disks = append([]Disk{{Path: filepath.Join(*imagesFlag, image, name+".iso"), ReadOnly: true, Device: device}}, more...)
	return m
}

// What an ISO can lie on.
const (
	onIDE    = "ide-cd,bus=sata.0"
	onSCSI   = "scsi-cd,bus=scsi.0"
	onStick  = "usb-storage,bus=usb.0"
	onVirtio = "virtio-blk-pci"
)

// controller is what such a device is behind, if anything.
func controller(device string) string {
	return map[string]string{onIDE: sata, onSCSI: "virtio-scsi-pci,id=scsi", onStick: "qemu-xhci,id=usb"}[device]
}

const sata = "ahci,id=sata"

// live demands a node that runs its pods, says that it keeps nothing, and ends.
func (b *boot) live() error {
	if _, err := b.sees(`^garboard: data: no data partition: /var is in memory, at most \d+ MiB, and lost at the end$`, podsCeiling); err != nil {
		return err
	}
	if err := b.verdict(podsCeiling); err != nil {
		return err
	}
	if err := b.PowerButton(b.ctx); err != nil {
		return err
	}
	return errors.Join(b.endsInOrder(false), b.judged())
}

// An ISO boots as a CD, with an EFI boot image that El Torito cannot count.
func TestVMISO(t *testing.T) {
	runBoot(t, isoMachine(t, "test-"+AMD64, onIDE), "running", bootLimit, (*boot).live)
}

// Whatever it lies on. On a stick and on a disk there is room behind the ISO, of
// which nothing is taken. The node needs no driver for any of them: it comes whole
// out of the firmware's hands.
func TestVMLongISO(t *testing.T) {
	for _, tt := range []struct{ arch, name, device string }{
		{AMD64, "SCSI", onSCSI}, {AMD64, "stick", onStick}, {AMD64, "virtio", onVirtio},
		{ARM64, "IDE", onIDE}, {ARM64, "SCSI", onSCSI}, {ARM64, "stick", onStick}, {ARM64, "virtio", onVirtio},
	} {
		t.Run(tt.arch+" "+tt.name, func(t *testing.T) {
			m := isoMachine(t, "test-"+tt.arch, tt.device)
			if tt.device == onIDE || tt.device == onSCSI {
				runBoot(t, m, "running", bootLimit, (*boot).live)
				return
			}
			stick := copyOf(t, m.Disks[0].Path)
			stick.truncate(1024 * mib)
			before := fingerprint(t, stick.path)
			m.Disks[0].Path, m.Disks[0].ReadOnly = stick.path, false
			runBoot(t, m, "running", bootLimit, (*boot).live)
			if fingerprint(t, stick.path) != before {
				t.Error("the disk with the ISO was written to")
			}
		})
	}
}
