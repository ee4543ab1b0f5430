package qemu

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	disks "garboard.local/builder/image"
	"garboard.local/builder/source/debian"
	"garboard.local/builder/store"
)

// A UKI with the root image in it, as the output uki has it, boots from
// systemd-boot, which finds it in EFI/Linux; and what the node is told beside the
// UKI's own command line reaches it. (TestVMDisk boots a UKI without a boot loader.)
// The disk has free space behind its ESP: systemd-boot's variable says that this is
// the boot disk, so the node makes its data partition there.
func TestVMSystemdBoot(t *testing.T) {
	m := testMachine(t, "test-"+AMD64)
	if *toolsFlag == "" {
		t.Fatalf("no tools to make a boot disk with: %s", buildFirst)
	}
	st, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	efi := filepath.Join(*toolsFlag, "usr/lib/systemd/boot/efi")
	uki, _, err := disks.UKI(t.Context(), st, disks.UKIInput{
		Stub: filepath.Join(efi, "linuxx64.efi.stub"), Kernel: m.Kernel, Initrd: m.Initrd, Cmdline: m.Cmdline,
		OSRelease: []byte("ID=garboard\nVERSION_ID=1\nPRETTY_NAME=\"Garboard node\"\n"), Uname: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	disk := filepath.Join(t.TempDir(), "boot.raw")
	run := func(tool string, args ...string) *exec.Cmd {
		return debian.Command(context.Background(), *toolsFlag, tool, args...)
	}
	if err := disks.BootDisk(run, disk, []disks.ESPFile{
		{Path: disks.BootFile(AMD64), From: filepath.Join(efi, "systemd-bootx64.efi")}, {Path: "/EFI/Linux/garboard.efi", From: uki},
	}, time.Unix(1700000000, 0)); err != nil {
		t.Fatal(err)
	}
	m.Kernel, m.Initrd, m.Cmdline, m.Disks = "", "", "", []Disk{{Path: disk}}
	grown := image{t, disk}
	info, err := os.Stat(disk)
	if err != nil {
		t.Fatal(err)
	}
	grown.truncate(info.Size() + 512*mib)
	runBoot(t, m, "running", bootLimit, func(b *boot) error {
		for _, l := range []string{`^garboard: data: /dev/vda is the boot disk and there is no data partition: it gets one in its free space$`, `^garboard: data: /dev/vda2 on /var`} {
			if _, err := b.sees(l, podsCeiling); err != nil {
				return err
			}
		}
		if err := b.verdict(podsCeiling); err != nil {
			return err
		}
		if err := b.PowerButton(b.ctx); err != nil {
			return err
		}
		return errors.Join(b.endsInOrder(false), b.judged())
	})
	if t.Failed() {
		return
	}
	grown.tableClean()
	grown.fileSystemClean(info.Size() - mib) // what was kept for the table's copy is behind the ESP
}
