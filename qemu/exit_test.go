package qemu

import (
	"testing"

	"github.com/digitalocean/go-qemu/qmp"
)

func TestExitNote(t *testing.T) {
	shutdown := func(reason string) qmp.Event {
		return qmp.Event{Event: "SHUTDOWN", Data: map[string]any{"guest": true, "reason": reason}}
	}
	for _, tt := range []struct {
		name   string
		events []qmp.Event
		want   Exit
	}{
		{"power-off, then our quit", []qmp.Event{{Event: "POWERDOWN"}, shutdown("guest-shutdown"), {Event: "STOP"}, shutdown("host-qmp-quit")}, Exit{GuestShutdown: true, Reason: "guest-shutdown"}},
		{"reset", []qmp.Event{shutdown("guest-reset")}, Exit{GuestReset: true, Reason: "guest-reset"}},
		{"panic", []qmp.Event{{Event: "GUEST_PANICKED"}, shutdown("guest-panic")}, Exit{Panicked: true, Reason: "guest-panic"}},
		{"we quit", []qmp.Event{shutdown("host-qmp-quit")}, Exit{Reason: "host-qmp-quit"}},
		{"a reason that is missing", []qmp.Event{{Event: "SHUTDOWN"}}, Exit{Reason: "unnamed"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got Exit
			ended := 0
			for _, ev := range tt.events {
				if got.note(ev) {
					ended++
				}
			}
			if got != tt.want || ended != 1 {
				t.Errorf("got %+v, ended %d times, want %+v, once", got, ended, tt.want)
			}
		})
	}
}
