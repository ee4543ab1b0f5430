package qemu

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	disks "garboard.local/builder/image"
)

// isoMachine boots an image's ISO, which is the first disk and on that device.
func isoMachine(t *testing.T, image, device string, more ...Disk) Machine {
	t.Helper()
	m := testMachine(t, image)
	m.Kernel, m.Initrd, m.Cmdline = "", "", ""
	if c := controller(device); c != "" {
		m.Devices = []string{c}
	}
	if m.Arch == ARM64 && device == onSATA { // whose firmware has no driver for it: the card brings one
		m.Devices[0] += ",romfile=" + filepath.Join(*imagesFlag, "sata.rom")
	}
	name, _, _ := strings.Cut(image, "-"+m.Arch)
	m.Disks = append([]Disk{{Path: filepath.Join(*imagesFlag, image, name+".iso"), ReadOnly: true, Device: device}}, more...)
	return m
}

// What an ISO can lie on.
const (
	onIDE    = "ide-cd,bus=ide-a.0" // the bus of the nineties
	onSATA   = "ide-cd,bus=sata.0"
	onSCSI   = "scsi-cd,bus=scsi.0"
	onStick  = "usb-storage,bus=usb.0"
	onVirtio = "virtio-blk-pci"
)

// controller is what such a device is behind, if anything.
func controller(device string) string {
	return map[string]string{onIDE: "piix3-ide,id=ide-a", onSATA: sata, onSCSI: "virtio-scsi-pci,id=scsi", onStick: "qemu-xhci,id=usb"}[device]
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
	runBoot(t, isoMachine(t, "test-"+AMD64, onSATA), "running", bootLimit, (*boot).live)
}

// Whatever it lies on. On a stick and on a disk there is room behind the ISO, of
// which nothing is taken. The node needs no driver for any of them: it comes whole
// out of the firmware's hands.
func TestVMLongISO(t *testing.T) {
	for _, tt := range []struct{ arch, name, device string }{
		{AMD64, "IDE", onIDE}, {AMD64, "SCSI", onSCSI}, {AMD64, "stick", onStick}, {AMD64, "virtio", onVirtio},
		{ARM64, "SATA", onSATA}, {ARM64, "SCSI", onSCSI}, {ARM64, "stick", onStick}, {ARM64, "virtio", onVirtio},
	} {
		t.Run(tt.arch+" "+tt.name, func(t *testing.T) {
			m := isoMachine(t, "test-"+tt.arch, tt.device)
			if strings.Contains(tt.device, "-cd,") {
				runBoot(t, m, "running", bootLimit, (*boot).live)
				return
			}
			stick := copyOf(t, m.Disks[0].Path)
			stick.truncate(1024 * mib)
			iso := m.Disks[0].Path
			m.Disks[0].Path, m.Disks[0].ReadOnly = stick.path, false
			runBoot(t, m, "running", bootLimit, (*boot).live)
			stick.untouched(iso, tt.arch)
		})
	}
}

// Debian's firmware for arm64 finds nothing on a SATA drive by itself: what the test
// of that drive boots with is the driver that package satarom has compiled.
func TestVMLongISOWithoutDriver(t *testing.T) {
	m := isoMachine(t, "test-"+ARM64, onSATA)
	m.Devices, m.NoNetwork = []string{sata}, true
	runBoot(t, m, "running", bootLimit, func(b *boot) error {
		_, err := b.sees(`UEFI Interactive Shell`, podsCeiling) // which comes where nothing boots
		return err
	})
}

// espOf is where sgdisk finds an ISO's ESP: its first byte and the one behind it.
func (d image) espOf(iso string) (start, behind int64) {
	d.t.Helper()
	info, err := d.judge("sgdisk", "-i=2", iso)
	m := regexp.MustCompile(`First sector: (\d+) [^\n]*\nLast sector: (\d+) `).FindStringSubmatch(info)
	if err != nil || m == nil {
		d.t.Fatalf("sgdisk %s: %v\n%s", iso, err, info)
	}
	first, _ := strconv.ParseInt(m[1], 10, 64)
	last, _ := strconv.ParseInt(m[2], 10, 64)
	return first * 512, (last + 1) * 512
}

// untouched demands that nothing but the firmware has written to a disk with an ISO:
// OVMF without a flash chip for its variables keeps them in a file NvVars on the
// first file system that it can write to.
func (d image) untouched(iso, arch string) {
	d.t.Helper()
	start, behind := d.espOf(iso)
	first, end, err := differs(d.path, iso)
	if err != nil {
		d.t.Fatal(err)
	}
	if first < 0 {
		return
	}
	if first < start || end > behind {
		d.t.Errorf("the disk with the ISO was written to: bytes %d to %d, of which %d to %d are the ESP's", first, end, start, behind)
	}
	var list [2]string
	for i, p := range []string{iso, d.path} {
		if list[i], err = d.judge("mdir", "-/", "-b", "-i", fmt.Sprintf("%s@@%d", p, start), "::"); err != nil {
			d.t.Fatalf("mdir: %v: %s", err, list[i])
		}
	}
	if got := strings.Replace(list[1], "::/NvVars\n", "", 1); got != list[0] {
		d.t.Errorf("the ESP of the disk with the ISO was written to: there were\n%sthere are\n%s", list[0], list[1])
	}
	d.sameESP(start, iso, disks.BootFile(arch))
}

// differs says where two files begin and end to differ, as far as the first goes
// on with zeros behind the second; first is -1 if they do not.
func differs(long, short string) (first, end int64, err error) {
	a, err := os.Open(long)
	if err != nil {
		return 0, 0, err
	}
	defer a.Close()
	b, err := os.Open(short)
	if err != nil {
		return 0, 0, err
	}
	defer b.Close()
	first = -1
	x, y := make([]byte, mib), make([]byte, mib)
	for at := int64(0); ; at += mib {
		n, err := io.ReadFull(a, x)
		if n == 0 {
			return first, end, nil
		}
		if err != nil && err != io.ErrUnexpectedEOF {
			return 0, 0, err
		}
		clear(y)
		if _, err := io.ReadFull(b, y); err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return 0, 0, err
		}
		if bytes.Equal(x[:n], y[:n]) {
			continue
		}
		for i := range n {
			if x[i] != y[i] {
				if first < 0 {
					first = at + int64(i)
				}
				end = at + int64(i) + 1
			}
		}
	}
}
