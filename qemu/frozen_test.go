package qemu

import (
	"testing"
	"time"
)

// ceilingOfTheNode is the ceiling over everything that docs/init.md states, for the
// grace of the standard image.
const ceilingOfTheNode = 184 * time.Second

// A disk stops answering in the middle of a write. Its process can be ended by
// nothing; the node powers off all the same within its ceiling, and says what is left.
func TestVMLongFrozenDisk(t *testing.T) {
	d := newImage(t, 64*mib)
	m := testMachine(t, "test-amd64").with(append(d.drive("stops"), "-device", "virtio-blk-pci,drive=stops")...)
	runBoot(t, m, "frozen-disk", bootLimit, func(b *boot) error {
		if _, err := b.sees(podLine("tester", `tester: pid \d+ writes to /dev/vda$`), podsCeiling); err != nil {
			return err
		}
		// A byte a second: the first write takes an hour.
		if err := b.mon.execute(b.ctx, "block_set_io_throttle", map[string]any{"device": "stops",
			"bps": 0, "bps_rd": 0, "bps_wr": 1, "iops": 0, "iops_rd": 0, "iops_wr": 0}); err != nil {
			return err
		}
		if _, err := b.sees(podLine("tester", `tester: pid \d+ is in state D .*, also after SIGKILL$`), podsCeiling); err != nil {
			return err
		}
		if err := b.verdict(podsCeiling); err != nil {
			return err
		}
		return b.endsWithinCeiling(`shutdown: unclean: .*SIGKILL does not end .*\d+ \(exe, D\)`)
	})
}
