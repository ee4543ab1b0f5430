package qemu

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	disks "garboard.local/builder/image"
)

// isoMachine boots the ISO of the test image, which is the first disk.
func isoMachine(t *testing.T, arch string, iso Disk, more ...Disk) Machine {
	t.Helper()
	m := testMachine(t, "test-"+arch)
	m.Kernel, m.Initrd, m.Cmdline = "", "", ""
	m.Disks = append([]Disk{iso}, more...)
	return m
}

// cd is an ISO in a SCSI drive, which the machine needs cdBus for.
func cd(arch string) Disk {
	return Disk{Path: filepath.Join(*imagesFlag, "test-"+arch, "test.iso"), ReadOnly: true, Device: "scsi-cd,bus=cd.0"}
}

const cdBus = "virtio-scsi-pci,id=cd"

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
func TestVMLongISOCD(t *testing.T) {
	m := isoMachine(t, ARM64, cd(ARM64))
	m.Devices = []string{cdBus}
	runBoot(t, m, "running", bootLimit, (*boot).live)
}

// An ISO that was written to a larger disk boots from it, and takes nothing of what
// is free behind it.
func TestVMLongISODisk(t *testing.T) {
	stick := copyOf(t, cd(AMD64).Path)
	stick.truncate(1024 * mib)
	before := fingerprint(t, stick.path)
	runBoot(t, isoMachine(t, AMD64, Disk{Path: stick.path}), "running", bootLimit, (*boot).live)
	if fingerprint(t, stick.path) != before {
		t.Error("the disk with the ISO was written to")
	}
}

// From a CD a node installs itself to an empty disk, and boots from that without the CD.
func TestVMLongISOInstall(t *testing.T) {
	disk := newImage(t, 4096*mib)
	done := t.Run("install", func(t *testing.T) {
		m := isoMachine(t, AMD64, cd(AMD64), Disk{Path: disk.path})
		m.Devices, m.Cmdline = []string{cdBus}, "garboard.install=/dev/vda"
		runBoot(t, m, "", bootLimit, func(b *boot) error {
			for _, line := range []string{`^garboard: install: from /dev/sr0 to /dev/vda \(4096 MiB\)$`, `^garboard: install: copied 75 %$`,
				`^garboard: install: done: /dev/vda boots into this node; take the medium out$`, `^garboard: shutdown: clean$`} {
				if _, err := b.sees(line, podsCeiling); err != nil {
					return err
				}
			}
			exit, err := b.ends(momentCeiling)
			if err == nil && (!exit.GuestShutdown || exit.Panicked) {
				err = b.Console.Failure(nil, "the machine ended by %+v", exit)
			}
			return err
		})
	})
	if !done {
		return
	}
	parts, _, err := disks.Layout(AMD64, disks.Sizes{})
	if err != nil {
		t.Fatal(err)
	}
	esp, dataPart := parts[1], parts[4]
	disk.tableClean()
	if out, err := disk.judge("mdir", "-b", "-i", fmt.Sprintf("%s@@%d", disk.path, esp.Start), "::/EFI/BOOT"); err != nil || !strings.Contains(out, strings.TrimPrefix(disks.BootFile(AMD64), "/")) {
		t.Errorf("the ESP after the installation: %v\n%s", err, out)
	}
	booted := t.Run("boot", func(t *testing.T) {
		runBoot(t, isoMachine(t, AMD64, Disk{Path: disk.path}), "running", bootLimit, func(b *boot) error {
			if _, err := b.sees(`^garboard: data: /dev/vda5 on /var, \d+ of \d+ MiB free$`, podsCeiling); err != nil {
				return err
			}
			if err := b.verdict(podsCeiling); err != nil {
				return err
			}
			if err := b.PowerButton(b.ctx); err != nil {
				return err
			}
			return errors.Join(b.endsInOrder(false), b.judged())
		})
	})
	if booted {
		disk.cleanAt(dataPart.Start)
	}
}
