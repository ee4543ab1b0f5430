package qemu

import (
	"context"
	"fmt"
)

// PlugUAS plugs in a USB disk that speaks UAS, at the controller whose bus is
// named, while the machine runs: its content is the Disk with that number, which
// must be Late. QEMU shows it to the guest once all of it is there
// (docs/system/devices/usb.rst).
func (vm *VM) PlugUAS(ctx context.Context, bus string, disk int) error {
	for _, c := range []struct {
		command string
		args    map[string]any
	}{
		{"device_add", map[string]any{"driver": "usb-uas", "id": "late", "bus": bus}},
		{"device_add", map[string]any{"driver": "scsi-hd", "bus": "late.0", "drive": fmt.Sprintf("disk%d", disk)}},
		{"qom-set", map[string]any{"path": "/machine/peripheral/late", "property": "attached", "value": true}},
	} {
		if err := vm.mon.execute(ctx, c.command, c.args); err != nil {
			return fmt.Errorf("machine %s: plug in a disk: %w", vm.name, err)
		}
	}
	return nil
}
