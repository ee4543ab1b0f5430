package qemu

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	disks "garboard.local/builder/image"
	"garboard.local/init/data"
)

// installs demands an installation that ends the machine.
func (b *boot) installs(lines ...string) error {
	for _, line := range append(lines, `^garboard: install: done: /dev/\w+ boots into this node; take the medium out$`, `^garboard: shutdown: clean$`) {
		if _, err := b.sees(line, podsCeiling); err != nil {
			return err
		}
	}
	exit, err := b.ends(momentCeiling)
	if err == nil && (!exit.GuestShutdown || exit.Panicked) {
		err = b.Console.Failure(nil, "the machine ended by %+v", exit)
	}
	return err
}

const toFirstDisk = "garboard.install=/dev/vda"

// A node installs itself from a CD, as the command line says. The power is cut, and
// the next start goes on without force; then the disk boots without the CD.
func TestVMLongISOInstall(t *testing.T) {
	parts, _, err := disks.Layout(AMD64, disks.Sizes{})
	if err != nil {
		t.Fatal(err)
	}
	esp, dataPart := parts[1], parts[4]
	disk := newImage(t, 4096*mib)
	hasType := func(want string) {
		if out, err := disk.judge("sgdisk", fmt.Sprintf("-i=%d", esp.Number), disk.path); err != nil || !strings.Contains(out, "GUID code: "+want) {
			t.Errorf("partition %d, which is to be of type %s: %v\n%s", esp.Number, want, err, out)
		}
	}

	ok := t.Run("power cut", func(t *testing.T) {
		// So slow that the cut cannot come too late.
		drive := disk.drive("slow")
		drive[1] += ",throttling.bps-write=4194304"
		m := isoMachine(t, "test-"+AMD64, onSCSI).with(append(drive, "-device", "virtio-blk-pci,drive=slow")...)
		m.Cmdline = toFirstDisk
		runBoot(t, m, "", bootLimit, func(b *boot) error {
			for _, line := range []string{`^garboard: install: from /dev/sr0 to /dev/vda \(4096 MiB\)$`, `^garboard: install: copied 25 %$`} {
				if _, err := b.sees(line, podsCeiling); err != nil {
					return err
				}
			}
			b.Kill()
			return nil
		})
	})
	if !ok {
		return
	}
	disk.tableClean()
	hasType(string(data.Unfinished))
	ok = t.Run("begun again", func(t *testing.T) {
		m := isoMachine(t, "test-"+AMD64, onSCSI, Disk{Path: disk.path})
		m.Cmdline = toFirstDisk
		runBoot(t, m, "", bootLimit, func(b *boot) error {
			return b.installs(`^garboard: install: /dev/vda holds an installation that was not finished: it is begun again$`,
				`^garboard: install: copied 75 %$`, `^garboard: install: copied and read back$`)
		})
	})
	if !ok {
		return
	}
	disk.tableClean()
	hasType(string(esp.Type))
	m := isoMachine(t, "test-"+AMD64, onSCSI, Disk{Path: disk.path})
	disk.sameESP(esp.Start, m.Disks[0].Path, disks.BootFile(AMD64))
	m.Devices, m.Disks = nil, m.Disks[1:]
	if t.Run("the disk boots", func(t *testing.T) { runBoot(t, m, "running", bootLimit, (*boot).keeps) }) {
		disk.cleanAt(dataPart.Start)
	}
}

// keeps demands a node with the data partition that an installation made room for.
func (b *boot) keeps() error {
	if _, err := b.sees(`^garboard: data: /dev/[sv]da5 on /var, \d+ of \d+ MiB free$`, podsCeiling); err != nil {
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

// A disk with a data partition in a machine that an ISO is booted on: nothing is
// installed to it without force, and a node that lives on the CD uses it.
func TestVMLongISOBesideData(t *testing.T) {
	disk := newImage(t, 2048*mib)
	if out, err := disk.judge("sgdisk", "-n", "1:2048:0", "-t", "1:"+data.Type, disk.path); err != nil {
		t.Fatalf("sgdisk: %v\n%s", err, out)
	}
	before := fingerprint(t, disk.path)
	ok := t.Run("refused", func(t *testing.T) {
		m := isoMachine(t, "test-"+AMD64, onSCSI, Disk{Path: disk.path})
		m.Cmdline = toFirstDisk
		runBoot(t, m, "", bootLimit, func(b *boot) error {
			for _, line := range []string{
				`^garboard: install: FAILED: /dev/vda has a partition table with 1 partitions; it is left alone\. garboard\.install\.force=yes overwrites it`,
				`^garboard: install: nothing else is started; the power button or ctrl-alt-del ends this$`,
			} {
				if _, err := b.sees(line, podsCeiling); err != nil {
					return err
				}
			}
			_, err := b.goesDown(func(b *boot) error { return b.PowerButton(b.ctx) }, false)
			if started := regexp.MustCompile(`^garboard: phase runtime `); err == nil && slices.ContainsFunc(b.Console.Lines(), func(l Line) bool { return started.MatchString(l.Message) }) {
				err = b.Console.Failure(nil, "the node went on after an installation that failed")
			}
			return err
		})
	})
	if fingerprint(t, disk.path) != before {
		t.Error("a disk that was refused was written to")
	}
	ok = ok && t.Run("used", func(t *testing.T) {
		runBoot(t, isoMachine(t, "test-"+AMD64, onSCSI, Disk{Path: disk.path}), "data", bootLimit, func(b *boot) error {
			if _, err := b.sees(`^garboard: data: /dev/vda1 on /var, \d+ of \d+ MiB free$`, podsCeiling); err != nil {
				return err
			}
			if _, err := b.dataLine(1); err != nil {
				return err
			}
			if err := b.PowerButton(b.ctx); err != nil {
				return err
			}
			return errors.Join(b.endsInOrder(false), b.judged(), b.sane())
		})
	})
	if !ok {
		return
	}
	disk.clean()
	if out, err := disk.judge("debugfs", "-R", "cat /lib/data-test", disk.at(dataStart)); err != nil || strings.Count(out, "a line of one boot\n") != 1 {
		t.Errorf("what the node wrote is not on the disk: %v\n%s", err, out)
	}
}

// sameESP demands of the ESP there what the ISO's has for the firmware.
func (d image) sameESP(at int64, iso, file string) {
	d.t.Helper()
	start, _ := d.espOf(iso)
	var text [2]string
	for i, fat := range []string{fmt.Sprintf("%s@@%d", d.path, at), fmt.Sprintf("%s@@%d", iso, start)} {
		var err error
		if text[i], err = d.judge("mtype", "-i", fat, "::"+file); err != nil || len(text[i]) < mib {
			d.t.Errorf("mtype %s: %v, %d bytes", fat, err, len(text[i]))
		}
	}
	if text[0] != text[1] {
		d.t.Errorf("%s on the disk is not the medium's", file)
	}
}

// From a stick to a SATA disk, which is named by its serial number: what a server's
// kernel has the drivers for.
func TestVMKernelStickInstalls(t *testing.T) {
	disk := newImage(t, 2048*mib)
	target := Disk{Path: disk.path, Device: "ide-hd,bus=sata.0,serial=TARGET"}
	ok := t.Run("install", func(t *testing.T) {
		m := isoMachine(t, "test-metal-"+AMD64, onStick, target)
		m.Devices = append(m.Devices, sata)
		m.MemoryMiB, m.Cmdline = 3072, "garboard.install=serial=TARGET"
		runBoot(t, m, "", bootLimit, func(b *boot) error {
			return b.installs(`^garboard: install: from /dev/sd[ab] to /dev/sd[ab] \(2048 MiB\)$`)
		})
	})
	if !ok {
		return
	}
	disk.tableClean()
	t.Run("boot", func(t *testing.T) {
		m := isoMachine(t, "test-metal-"+AMD64, onStick, target)
		m.MemoryMiB, m.Devices, m.Disks = 3072, []string{sata}, m.Disks[1:]
		runBoot(t, m, "running", bootLimit, (*boot).keeps)
	})
}
