package qemu

import (
	"strings"
	"testing"
	"time"
)

// Tests whose names begin with TestVMKernel boot nodes with other kernels;
// `garboard test kernels` builds their images.

// A machine like a server: a RAID controller, a SATA disk, two of Intel's network
// cards, and the data partition on a USB stick. Nothing of it is for virtual
// machines, and every driver is found by the name that its device gives. Then a
// disk is plugged in whose driver is not loaded yet.
func TestVMKernelMetal(t *testing.T) { eachArch(t, metal) }

func metal(t *testing.T, arch string) {
	m := testMachine(t, "test-metal-"+arch)
	m.MemoryMiB = 3072
	stick := newImage(t, 512*mib)
	m.NIC = "e1000e"
	m.Devices = []string{"igb,netdev=net1", "qemu-xhci,id=usb", "megasas,id=raid", "ahci,id=sata"}
	m.Disks = []Disk{
		{Path: newImage(t, 64*mib).path, Device: "scsi-hd,bus=raid.0"},
		{Path: newImage(t, 64*mib).path, Device: "ide-hd,bus=sata.0"},
		{Path: stick.path, Device: "usb-storage,bus=usb.0,serial=STICK"},
		{Path: newImage(t, 64*mib).path, Late: true},
	}
	m.Cmdline += " garboard.data=serial=STICK garboard.expect=disk:megaraid_sas,disk:ahci,var:usb-storage,nic:e1000e,nic:igb,late:uas"
	runBoot(t, m, "devices", bootLimit, func(b *boot) error {
		if _, err := b.sees(podLine("tester", "devices: waiting for the late disk"), podsCeiling+2*time.Minute); err != nil {
			return err
		}
		if err := b.PlugUAS(b.ctx, "usb.0", 3); err != nil {
			return err
		}
		if err := b.verdict(podsCeiling); err != nil {
			return err
		}
		if err := b.PowerButton(b.ctx); err != nil {
			return err
		}
		if err := b.endsInOrder(false); err != nil {
			return err
		}
		return b.judged()
	})
	stick.clean()
}

// A kernel out of an OCI image laid out as LinuxKit's: the one that the node has
// anyway, so that a difference is one of the way it came. The recipe has a container
// image out of an OCI layout, too.
func TestVMKernelOCI(t *testing.T) {
	m := testMachine(t, "test-oci-"+AMD64)
	if !strings.HasPrefix(m.Cmdline, "garboard.kernel=oci ") {
		t.Fatalf("the command line %q does not begin with the image's", m.Cmdline)
	}
	runBoot(t, m, "running", bootLimit, func(b *boot) error {
		if err := b.verdict(podsCeiling); err != nil {
			return err
		}
		if err := b.saw(podLine("foreign", "hello: hello from a pod on a Garboard node$"), podsCeiling); err != nil {
			return err
		}
		if err := b.PowerButton(b.ctx); err != nil {
			return err
		}
		if err := b.endsInOrder(false); err != nil {
			return err
		}
		return b.judged()
	})
}
