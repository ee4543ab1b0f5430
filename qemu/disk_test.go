package qemu

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	disks "garboard.local/builder/image"
)

// A disk image boots from firmware: the UKI on its ESP, the root image from its
// partition, /var and /etc from its data partition, with what that came with; on a
// disk that is larger than the image. On arm64 it is the image in QEMU's own format.
func TestVMDisk(t *testing.T) {
	eachArch(t, func(t *testing.T, arch string) {
		diskBoots(t, arch, "test", map[string]string{AMD64: "raw", ARM64: "qcow2"}[arch])
	})
}

// The same with the other runtime, which reads the images on the data partition in
// another way.
func TestVMLongDiskContainerd(t *testing.T) {
	eachArch(t, func(t *testing.T, arch string) { diskBoots(t, arch, "test-containerd", "raw") })
}

func diskBoots(t *testing.T, arch, recipe, format string) {
	parts, size, err := disks.Layout(arch, disks.Sizes{})
	if err != nil {
		t.Fatal(err)
	}
	esp, dataPart := parts[1], parts[4]
	m := testMachine(t, recipe+"-"+arch)
	disk := copyOf(t, filepath.Join(*imagesFlag, recipe+"-"+arch, recipe+"."+format))
	if out, err := disk.judge("qemu-img", "resize", "-f", format, disk.path, strconv.FormatInt(size+1024*mib, 10)); err != nil {
		t.Fatalf("qemu-img resize: %v\n%s", err, out)
	}
	m.Kernel, m.Initrd, m.Cmdline, m.Disks = "", "", "", []Disk{{Path: disk.path, Format: format}}
	runBoot(t, m, "data", bootLimit, func(b *boot) error {
		if _, err := b.sees(fmt.Sprintf(`^garboard: data: /dev/vda is larger than its partition table: partition 5 grows from %d to %d MiB`,
			dataPart.Size/mib, dataPart.Size/mib+1024), podsCeiling); err != nil {
			return err
		}
		// One line was there already, in /var as in /etc.
		now, err := b.dataLine(2)
		if err != nil {
			return err
		}
		if now.inVar != 2 || now.inEtc != 2 || int64(now.size) < dataPart.Size/mib+800 { // statfs does not count inode tables
			return fmt.Errorf("the data partition: %+v", now)
		}
		// A static pod and its image came with the disk; nothing is pulled.
		if err := b.saw(podLine("shipped", "hello: hello from a pod on a Garboard node$"), podsCeiling); err != nil {
			return err
		}
		if err := b.PowerButton(b.ctx); err != nil {
			return err
		}
		return errors.Join(b.endsInOrder(false), b.judged(), b.sane(kubeletSays(recipe)...))
	})
	if t.Failed() {
		return
	}
	disk = disk.raw(format)
	disk.cleanAt(dataPart.Start)
	if out, err := disk.judge("debugfs", "-R", "cat /lib/data-test", fmt.Sprintf("%s?offset=%d", disk.path, dataPart.Start)); err != nil || strings.Count(out, "a line of one boot\n") != 2 {
		t.Errorf("what the node wrote is not on the data partition: %v\n%s", err, out)
	}
	if out, err := disk.judge("mdir", "-b", "-i", fmt.Sprintf("%s@@%d", disk.path, esp.Start), "::/EFI/BOOT"); err != nil || !strings.Contains(out, strings.TrimPrefix(disks.BootFile(arch), "/")) {
		t.Errorf("the ESP after the boot: %v\n%s", err, out)
	}
}

// kubeletSays is what the kubelet may say of file systems with a recipe's runtime.
func kubeletSays(recipe string) []string {
	if recipe == "test-containerd" {
		return []string{beforeFirstStats}
	}
	return nil
}

// Damage to the images that came with a disk costs these images and nothing else:
// the runtime starts, and runs those of the root image.
func TestVMLongDamagedImages(t *testing.T) {
	eachArch(t, func(t *testing.T, arch string) {
		for _, recipe := range []string{"test", "test-containerd"} {
			t.Run(recipe, func(t *testing.T) { damagedImages(t, arch, recipe) })
		}
	})
}

func damagedImages(t *testing.T, arch, recipe string) {
	parts, _, err := disks.Layout(arch, disks.Sizes{})
	if err != nil {
		t.Fatal(err)
	}
	at := parts[4].Start
	m := testMachine(t, recipe+"-"+arch)
	disk := copyOf(t, filepath.Join(*imagesFlag, recipe+"-"+arch, recipe+".raw"))
	const list = "/lib/garboard/images/overlay-images/images.json"
	out, err := disk.judge("debugfs", "-R", "blocks "+list, disk.at(at))
	block, perr := strconv.ParseInt(lastField(out), 10, 64)
	if err != nil || perr != nil {
		t.Fatalf("where %s lies: %v, %v\n%s", list, err, perr, out)
	}
	disk.zero(at+block*4096, 4096)
	m.Kernel, m.Initrd, m.Cmdline, m.Disks = "", "", "", []Disk{{Path: disk.path}}
	runBoot(t, m, "data", bootLimit, func(b *boot) error {
		if _, err := b.dataLine(2); err != nil { // by a pod, whose image is in the root image
			return err
		}
		if err := b.saw(podLine("tester", "data: runtime: .*/var/lib/garboard/images"), podsCeiling); err != nil {
			return fmt.Errorf("the runtime's log does not speak of the damage: %w", err)
		}
		if err := b.PowerButton(b.ctx); err != nil {
			return err
		}
		ran := regexp.MustCompile(podLine("shipped", "hello: "))
		if slices.ContainsFunc(b.Console.Lines(), func(l Line) bool { return ran.MatchString(l.Message) }) {
			return errors.New("an image of the damaged store ran: nothing was damaged")
		}
		return errors.Join(b.endsInOrder(false), b.judged(), b.sane(kubeletSays(recipe)...))
	})
}

// lastField is the last word of a text.
func lastField(s string) string {
	f := strings.Fields(s)
	if len(f) == 0 {
		return ""
	}
	return f[len(f)-1]
}

// raw is the same disk as a raw image.
func (d image) raw(format string) image {
	d.t.Helper()
	if format == "raw" {
		return d
	}
	if out, err := d.judge("qemu-img", "check", "-f", format, d.path); err != nil || !strings.Contains(out, "No errors were found") {
		d.t.Errorf("qemu-img check: %v\n%s", err, out)
	}
	to := image{d.t, filepath.Join(d.t.TempDir(), "disk.raw")}
	if out, err := d.judge("qemu-img", "convert", "-f", format, "-O", "raw", d.path, to.path); err != nil {
		d.t.Fatalf("qemu-img convert: %v\n%s", err, out)
	}
	return to
}

// copyOf copies a disk image to one that may be written to.
func copyOf(t *testing.T, from string) image {
	t.Helper()
	to := filepath.Join(t.TempDir(), "disk.raw")
	if out, err := exec.Command("cp", "--sparse=always", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s: %s", err, out, buildFirst)
	}
	return image{t, to}
}
