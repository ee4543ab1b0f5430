package main

import (
	"os"
	"path/filepath"
)

// PID 1 cannot be stopped by a signal, but its cgroup can be frozen: for the
// watchdog that is a hung PID 1.
func init() {
	scenarios["freeze-init"] = scenario{checkRunning, func(g *guest) error {
		return os.WriteFile(filepath.Join(g.host, "sys/fs/cgroup/garboard/init/cgroup.freeze"), []byte("1"), 0)
	}}
}
