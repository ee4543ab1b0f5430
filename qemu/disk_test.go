package qemu

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	disks "garboard.local/builder/image"
)

// A disk image boots from firmware: the UKI on its ESP, the root image from its
// partition, /var and /etc from its data partition, with what that came with; on a
// disk that is larger than the image.
func TestVMDisk(t *testing.T) { eachArch(t, diskBoots) }

func diskBoots(t *testing.T, arch string) {
	parts, size, err := disks.Layout(arch, disks.Sizes{})
	if err != nil {
		t.Fatal(err)
	}
	esp, dataPart := parts[1], parts[4]
	m := testMachine(t, "test-"+arch)
	disk := copyOf(t, filepath.Join(*imagesFlag, "test-"+arch, "test.raw"))
	disk.truncate(size + 1024*mib)
	m.Kernel, m.Initrd, m.Cmdline, m.Disks = "", "", "", []Disk{{Path: disk.path}}
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
		if err := b.saw(podLine("shipped", "hello: hello from a pod on a Garboard node$"), podsCeiling); err != nil {
			return err
		}
		if err := b.PowerButton(b.ctx); err != nil {
			return err
		}
		return errors.Join(b.endsInOrder(false), b.judged(), b.sane())
	})
	if t.Failed() {
		return
	}
	disk.cleanAt(dataPart.Start)
	if out, err := disk.judge("debugfs", "-R", "cat /lib/data-test", fmt.Sprintf("%s?offset=%d", disk.path, dataPart.Start)); err != nil || strings.Count(out, "a line of one boot\n") != 2 {
		t.Errorf("what the node wrote is not on the data partition: %v\n%s", err, out)
	}
	if out, err := disk.judge("mdir", "-b", "-i", fmt.Sprintf("%s@@%d", disk.path, esp.Start), "::/EFI/BOOT"); err != nil || !strings.Contains(out, strings.TrimPrefix(disks.BootFile(arch), "/")) {
		t.Errorf("the ESP after the boot: %v\n%s", err, out)
	}
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
