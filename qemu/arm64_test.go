package qemu

import (
	"errors"
	"fmt"
	"testing"
)

// What has tests of its own on amd64 is on arm64 the story of one node in two boots:
// a data partition is made, the node is renamed, and ends in spite of all troubles;
// then it finds its data again, hangs, and is reset by the kernel's own watchdog.
// (The socket, the ways down and the moments of the boot are tested on both.)
func TestVMArm64(t *testing.T) {
	d := newImage(t, 512*mib)
	run := func(name, scenario, cmdline string, story func(*boot) error) bool {
		return t.Run(name, func(t *testing.T) {
			m := testMachine(t, "test-arm64")
			m.Disks = []Disk{{Path: d.path}}
			m.Cmdline += cmdline
			runBoot(t, m, scenario, bootLimit, story)
		})
	}
	// boots demands what the tester says of the data partition in this boot.
	boots := func(b *boot, want int) (machineID string, err error) {
		m, err := b.sees(podLine("tester", `data: var (\d+), etc (\d+), machine-id ([0-9a-f]{32}), .*$|GARBOARD-VERDICT .* FAIL`), podsCeiling)
		if err != nil {
			return "", err
		}
		if n := fmt.Sprint(want); m.Groups[1] != n || m.Groups[2] != n {
			return "", b.Console.Failure(nil, "boot %d finds %s", want, m.Line.Text)
		}
		return m.Groups[3], nil
	}
	var id string
	ok := run("data, rename, shutdown", "everything", " garboard.data=/dev/vda", func(b *boot) (err error) {
		if _, err := b.sees(`^garboard: data: /dev/vda1 on /var`, podsCeiling); err != nil {
			return err
		}
		if err := b.keepsPodsOverRename(); err != nil {
			return err
		}
		if id, err = boots(b, 1); err != nil {
			return err
		}
		if err := b.verdict(2 * podsCeiling); err != nil {
			return err
		}
		return b.endsInSpiteOfTroubles()
	})
	if !ok {
		return
	}
	d.clean()
	run("found again, watchdog", "data-freeze-init", " garboard.watchdog=soft,10s", func(b *boot) error {
		if err := b.saw(`^garboard: watchdog: armed, Software Watchdog, resets the machine after 10s$`, podsCeiling); err != nil {
			return err
		}
		now, err := boots(b, 2)
		if err != nil {
			return err
		}
		if now != id {
			err = fmt.Errorf("machine-id %s, before it was %s", now, id)
		}
		return errors.Join(err, b.verdict(podsCeiling), b.isReset())
	})
	if !d.needsReplay() {
		t.Error("a node that was reset has left a clean file system: was it mounted?")
	}
}
