package qemu

import "errors"

// EmulatorFault reports whether err is the emulator's known fault, and nothing else.
func EmulatorFault(err error) bool {
	var c *ConsoleError
	return errors.As(err, &c) && c.Fault != nil && c.Fault.Kind == FaultEmulator
}

// Repeat calls boot, and calls it again, at most repeats times, when it failed
// by the emulator's known fault. Every such fault is said and counted; any
// other error is final. When all runs failed that way the last error is returned.
func Repeat(repeats int, say func(format string, args ...any), boot func() error) (faults int, err error) {
	for {
		err = boot()
		if !EmulatorFault(err) {
			return faults, err
		}
		faults++
		if faults > repeats {
			return faults, err
		}
		say("%s, number %d: not the node's doing; the run is repeated", FaultEmulator, faults)
	}
}
