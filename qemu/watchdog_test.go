package qemu

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// A watchdog of hardware is fed for several times its timeout, and its being
// closed at the end keeps the power-off from becoming a reset. The same boot shows
// that pods run when no module can be loaded any more, and that no phase fails.
func TestVMWatchdogIsFed(t *testing.T) {
	m := testMachine(t, "test-amd64")
	m.Tool.Args = append(slices.Clone(m.Tool.Args), "-device", "i6300esb")
	m.Cmdline += " garboard.watchdog=10s garboard.modules=locked"
	runBoot(t, m, "running", bootLimit, func(b *boot) error {
		if err := b.saw(`^garboard: watchdog: armed, i6300ESB timer, resets the machine after 10s$`, podsCeiling); err != nil {
			return err
		}
		if err := b.saw(`^garboard: phase module lock .*: done`, podsCeiling); err != nil {
			return err
		}
		if err := b.saw(`^garboard: watchdog: the runtime answers$`, podsCeiling); err != nil {
			return err
		}
		if err := b.verdict(podsCeiling); err != nil {
			return err
		}
		select {
		case <-b.Done():
			return b.Console.Failure(nil, "the machine ended although nothing was wrong: %+v", b.Wait())
		case <-time.After(40 * time.Second):
		}
		if err := b.PowerButton(b.ctx); err != nil {
			return err
		}
		if err := b.endsInOrder(false); err != nil {
			return err
		}
		for _, l := range b.Console.Lines() {
			if strings.Contains(l.Message, "): failed: ") || strings.Contains(l.Message, "watchdog: not fed") || strings.Contains(l.Message, "watchdog did not stop") {
				return b.Console.Failure(nil, "%s", l.Message)
			}
		}
		return b.judged()
	})
}

// A PID 1 that hangs is the machine's end: on one without a watchdog by the
// kernel's own timer.
func TestVMWatchdogResetsAHungNode(t *testing.T) {
	m := testMachine(t, "test-amd64")
	m.Cmdline += " garboard.watchdog=soft,10s"
	runBoot(t, m, "freeze-init", bootLimit, func(b *boot) error {
		if err := b.saw(`^garboard: watchdog: armed, Software Watchdog, resets the machine after 10s$`, podsCeiling); err != nil {
			return err
		}
		if err := b.verdict(podsCeiling); err != nil {
			return err
		}
		return b.isReset()
	})
}

// isReset demands that the watchdog ends the machine, and not PID 1.
func (b *boot) isReset() error {
	exit, err := b.ends(endCeiling)
	if err != nil {
		return err
	}
	if !exit.GuestReset {
		return b.Console.Failure(nil, "the machine ended by %+v, want a reset", exit)
	}
	for _, l := range b.Console.Lines() {
		if strings.HasPrefix(l.Message, "garboard: shutdown") {
			return b.Console.Failure(nil, "a hung PID 1 says %q", l.Message)
		}
	}
	return b.judged()
}
