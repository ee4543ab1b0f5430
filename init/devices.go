package boot

import (
	"errors"

	"garboard.local/init/hotplug"
)

// findDevices loads the drivers of the devices that are there, and begins to do
// so for those that come later. The disks' came earlier, with the data partition.
func (n *node) findDevices() error {
	if n.modules == nil {
		return errors.New("the image has no modules for this kernel")
	}
	m := &hotplug.Manager{Sys: "/sys", Printf: n.printf, Guard: n.guard, Load: func(alias string) error {
		if n.end.Begun() {
			return nil
		}
		return n.modules.Load(alias)
	}}
	done, err := m.Start(n.ctx, hotplug.Listen)
	n.bg.Go(func() { <-done })
	return err
}
