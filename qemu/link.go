package qemu

import "context"

// SetLink plugs the machine's network cable in or out.
func (vm *VM) SetLink(ctx context.Context, up bool) error {
	return vm.mon.execute(ctx, "set_link", map[string]any{"name": "net0", "up": up})
}
