package qemu

import "github.com/digitalocean/go-qemu/qmp"

// Exit is how a machine ended, from QMP's SHUTDOWN and GUEST_PANICKED events
// (QEMU QMP reference, ShutdownCause).
type Exit struct {
	GuestShutdown bool // the guest powered itself off
	GuestReset    bool // the guest reset the machine; QEMU does not start it again
	Panicked      bool // the kernel panicked, by QMP or by the console
	// Reason is QMP's word ("guest-shutdown", "host-qmp-quit" ...), or "killed"
	// or "exited" where QEMU ended without one.
	Reason string
	Err    error // QEMU itself failed
}

// note takes an event into account and reports whether it is the guest's end.
// The first SHUTDOWN counts: our own quit makes a second one.
func (e *Exit) note(ev qmp.Event) (ended bool) {
	switch ev.Event {
	case "GUEST_PANICKED":
		e.Panicked = true
	case "SHUTDOWN":
		if e.Reason != "" {
			return false
		}
		e.Reason, _ = ev.Data["reason"].(string)
		if e.Reason == "" {
			e.Reason = "unnamed"
		}
		switch e.Reason {
		case "guest-shutdown":
			e.GuestShutdown = true
		case "guest-reset":
			e.GuestReset = true
		case "guest-panic":
			e.Panicked = true
		}
		return true
	}
	return false
}
