package qemu

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	disks "garboard.local/builder/image"
	"garboard.local/builder/source/debian"
)

// What CI has no time for: with these, TestVMDisk (raw, root on the disk) and
// TestVMNodeKeepsItsPromises (kernel and initramfs), every output has booted to its
// pods and gone down clean on both architectures.

// runs demands of a boot that the tester passes, and a clean power-off.
func (b *boot) runs() error {
	if err := b.verdict(podsCeiling); err != nil {
		return err
	}
	if err := b.PowerButton(b.ctx); err != nil {
		return err
	}
	return errors.Join(b.endsInOrder(false), b.judged())
}

// The UKI as it was built boots straight from firmware, under the name that firmware
// looks for on any FAT partition.
func TestVMLongUKI(t *testing.T) {
	eachArch(t, func(t *testing.T, arch string) {
		m := testMachine(t, "test-"+arch)
		if *toolsFlag == "" {
			t.Fatalf("no tools to make a boot disk with: %s", buildFirst)
		}
		disk := filepath.Join(t.TempDir(), "boot.raw")
		run := func(tool string, args ...string) *exec.Cmd {
			return debian.Command(context.Background(), *toolsFlag, tool, args...)
		}
		if err := disks.BootDisk(run, disk, []disks.ESPFile{
			{Path: disks.BootFile(arch), From: filepath.Join(filepath.Dir(m.Kernel), "test.efi")},
		}, time.Unix(1700000000, 0)); err != nil {
			t.Fatalf("%v: %s", err, buildFirst)
		}
		m.Kernel, m.Initrd, m.Cmdline, m.Disks = "", "", "", []Disk{{Path: disk}}
		runBoot(t, m, "running", bootLimit, (*boot).runs)
	})
}

// A disk image whose UKI holds the root image, as the node's has it, boots from
// firmware; hello runs in it.
func TestVMLongDiskWithRootInMemory(t *testing.T) {
	eachArch(t, func(t *testing.T, arch string) {
		m := testMachine(t, "node-"+arch)
		disk := copyOf(t, filepath.Join(filepath.Dir(m.Kernel), "node.raw"))
		parts, _, err := disks.Layout(arch, disks.Sizes{})
		if err != nil {
			t.Fatal(err)
		}
		m.Kernel, m.Initrd, m.Cmdline, m.Disks = "", "", "", []Disk{{Path: disk.path}}
		runBoot(t, m, "", bootLimit, func(b *boot) error {
			// Without content the node makes the file system itself.
			if err := b.saw(`^garboard: data: /dev/vda5 on /var`, podsCeiling); err != nil {
				return err
			}
			if err := b.saw(podLine("hello", "hello: hello from a pod on a Garboard node$"), podsCeiling); err != nil {
				return err
			}
			if err := b.PowerButton(b.ctx); err != nil {
				return err
			}
			if err := b.saw(`^garboard: shutdown: clean$`, endCeiling); err != nil {
				return err
			}
			exit, err := b.ends(endCeiling)
			if err == nil && (!exit.GuestShutdown || exit.GuestReset || exit.Panicked) {
				err = b.Console.Failure(nil, "the machine ended by %+v", exit)
			}
			return err
		})
		if !t.Failed() {
			disk.cleanAt(parts[4].Start)
		}
	})
}

// A qcow2 image with content on its data partition (files and a static pod) boots; the
// disk is made larger while the node is off, and in the next boot the data partition
// has grown and what was on it is there.
func TestVMLongQCOW2Grown(t *testing.T) { eachArch(t, qcow2Grows) }

func qcow2Grows(t *testing.T, arch string) {
	parts, size, err := disks.Layout(arch, disks.Sizes{})
	if err != nil {
		t.Fatal(err)
	}
	dataPart := parts[4]
	m := testMachine(t, "test-"+arch)
	disk := copyOf(t, filepath.Join(filepath.Dir(m.Kernel), "test.qcow2"))
	m.Kernel, m.Initrd, m.Cmdline, m.Disks = "", "", "", []Disk{{Path: disk.path, Format: "qcow2"}}
	var first, now dataLine
	story := func(inVar int, line string, into *dataLine) func(*boot) error {
		return func(b *boot) (err error) {
			if line != "" {
				if err := b.saw(line, podsCeiling); err != nil {
					return err
				}
			}
			// One line was there already, in /var as in /etc, and each boot adds one.
			if *into, err = b.dataLine(2); err != nil {
				return err
			}
			if into.inVar != inVar || into.inEtc != inVar {
				return fmt.Errorf("the data partition: %+v, want %d lines in /var and in /etc", *into, inVar)
			}
			if err := b.saw(podLine("shipped", "hello: hello from a pod on a Garboard node$"), podsCeiling); err != nil {
				return err
			}
			if err := b.PowerButton(b.ctx); err != nil {
				return err
			}
			return errors.Join(b.endsInOrder(false), b.judged(), b.sane())
		}
	}
	if !t.Run("as built", func(t *testing.T) { runBoot(t, m, "data", bootLimit, story(2, "", &first)) }) {
		return
	}
	if out, err := disk.judge("qemu-img", "resize", "-f", "qcow2", disk.path, "+1G"); err != nil {
		t.Fatalf("qemu-img resize: %v\n%s", err, out)
	}
	grows := fmt.Sprintf(`^garboard: data: /dev/vda is larger than its partition table: partition 5 grows from %d to %d MiB`, dataPart.Size/mib, dataPart.Size/mib+1024)
	if !t.Run("grown", func(t *testing.T) { runBoot(t, m, "data", bootLimit, story(3, grows, &now)) }) {
		return
	}
	if now.size < first.size+900 || now.machineID != first.machineID {
		t.Errorf("after the disk grew: %+v, before: %+v", now, first)
	}
	raw := disk.raw("qcow2")
	raw.cleanAt(dataPart.Start)
	if out, err := raw.judge("sgdisk", "-i", "5", raw.path); err != nil || !strings.Contains(out, fmt.Sprintf("Partition size: %d sectors", (dataPart.Size+1024*mib)/512)) {
		t.Errorf("partition 5 of a disk of %d MiB: %v\n%s", size/mib+1024, err, out)
	}
	if out, err := raw.judge("debugfs", "-R", "cat /lib/data-test", raw.at(dataPart.Start)); err != nil || strings.Count(out, "a line of one boot\n") != 3 {
		t.Errorf("what the node wrote is not on the data partition: %v\n%s", err, out)
	}
}
