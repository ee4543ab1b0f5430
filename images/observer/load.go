package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// load puts a module into the kernel of a machine that has nobody else to do it.
func load(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: observer load MODULE.ko")
	}
	f, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil && err != unix.EEXIST {
		return fmt.Errorf("load %s: %w", args[0], err)
	}
	return nil
}
