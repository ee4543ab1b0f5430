package qemu

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// with is the machine with more of QEMU's own words.
func (m Machine) with(words ...string) Machine {
	m.Tool.Args = append(slices.Clone(m.Tool.Args), words...)
	return m
}

// drive are the words for an image without the device that shows it.
func (d image) drive(id string) []string {
	return []string{"-drive", fmt.Sprintf("if=none,id=%s,format=raw,file=%s", id, commas(d.path))}
}

// Disks that are no virtio disk from the start: one that comes while it is waited
// for and has sectors of 4 KiB, and an NVMe disk that the machine was started from,
// with an ESP and free space; then both at once. What the first two boots made the
// kernel, sgdisk and e2fsck have to read.
func TestVMDataDisks(t *testing.T) {
	const esp = "A1B2C3D4-0000-4000-8000-0000000000E5"
	const espEnd = 65 * mib
	late, nvme := newImage(t, 512*mib), newImage(t, 640*mib)
	if out, err := nvme.judge("sgdisk", "-n", "1:2048:+64M", "-t", "1:ef00", "-u", "1:"+esp, nvme.path); err != nil {
		t.Fatalf("sgdisk: %v\n%s", err, out)
	}
	button := func(b *boot) error { return b.PowerButton(b.ctx) }
	inOrder := func(b *boot, lines ...string) error {
		for _, l := range lines {
			if _, err := b.sees(l, time.Minute); err != nil {
				return err
			}
		}
		return nil
	}

	ok := t.Run("late and with large sectors", func(t *testing.T) {
		m := testMachine(t, "node-amd64").with(append(late.drive("late"), "-device", "virtio-scsi-pci,id=hba")...)
		m.Cmdline += " garboard.data=serial=LATE-4K"
		runBoot(t, m, "", bootLimit, func(b *boot) error {
			if err := inOrder(b, `^garboard: data: waiting for the disk serial=LATE-4K, at most 10s$`); err != nil {
				return err
			}
			if err := b.mon.execute(b.ctx, "device_add", map[string]any{"driver": "scsi-hd", "bus": "hba.0", "drive": "late",
				"serial": "LATE-4K", "logical_block_size": 4096, "physical_block_size": 4096}); err != nil {
				return err
			}
			if err := inOrder(b, `^garboard: data: /dev/sda is blank and named by garboard.data=`, `^garboard: data: /dev/sda1 on /var`); err != nil {
				return err
			}
			_, err := b.goesDown(button, false)
			return err
		})
	})
	if !ok {
		return
	}
	late.fileSystemClean(dataStart)
	late.largeTable(1)

	ok = t.Run("free space of the boot disk", func(t *testing.T) {
		m := testMachine(t, "node-amd64").with(append(nvme.drive("boot"), "-device", "nvme,drive=boot,serial=NVME")...)
		m.Cmdline += " garboard.boot=PARTUUID=" + strings.ToLower(esp)
		runBoot(t, m, "", bootLimit, func(b *boot) error {
			if err := inOrder(b, `^garboard: data: /dev/nvme0n1 is the boot disk and there is no data partition: it gets one in its free space$`,
				`^garboard: data: /dev/nvme0n1: made partition 2 of 574 MiB$`, `^garboard: data: /dev/nvme0n1p2 on /var`); err != nil {
				return err
			}
			_, err := b.goesDown(button, false)
			return err
		})
	})
	if !ok {
		return
	}
	nvme.tableClean()
	nvme.fileSystemClean(espEnd)
	if out, err := nvme.judge("sgdisk", "-u", "2:00000000-0000-4000-8000-00000000000A", nvme.path); err != nil {
		t.Fatalf("sgdisk: %v\n%s", err, out)
	}

	before := fingerprint(t, late.path)
	t.Run("two candidates", func(t *testing.T) {
		m := testMachine(t, "test-amd64").with(append(nvme.drive("boot"), "-device", "nvme,drive=boot,serial=NVME")...).
			with(append(late.drive("late"), "-device", "virtio-blk-pci,drive=late,logical_block_size=4096,physical_block_size=4096")...)
		runBoot(t, m, "data", bootLimit, func(b *boot) error {
			if err := inOrder(b, `^garboard: data: WARNING: 2 data partitions: 00000000-0000-4000-8000-00000000000A on /dev/nvme0n1, [0-9A-F-]{36} on /dev/vda; the one with the lowest GUID is used\. Name one with garboard\.data=$`,
				`^garboard: data: /dev/nvme0n1p2 on /var`,
				podLine("tester", `data: partitions nvme0n1p1 nvme0n1p2 vda1$`)); err != nil {
				return err
			}
			if _, err := b.dataLine(1); err != nil {
				return err
			}
			return errors.Join(button(b), b.endsInOrder(false), b.judged(), b.sane())
		})
	})
	nvme.tableClean()
	nvme.fileSystemClean(espEnd)
	if fingerprint(t, late.path) != before {
		t.Error("the data partition that is not used was written to")
	}
}
