package boot

import (
	"strings"
	"testing"

	"garboard.local/init/shutdown"
)

func TestInstallWords(t *testing.T) {
	for _, tt := range []struct {
		then, force string
		mode        shutdown.Mode
		over        bool
		fault       string
	}{
		{"", "", shutdown.PowerOff, false, ""},
		{"poweroff", "yes", shutdown.PowerOff, true, ""},
		{"reboot", "", shutdown.Reboot, false, ""},
		{"halt", "", 0, false, "garboard.install.then=halt: want poweroff or reboot"},
		{"", "1", 0, false, "garboard.install.force=1: want yes, or nothing"},
	} {
		mode, over, err := installWords(tt.then, tt.force)
		if tt.fault != "" {
			if err == nil || !strings.Contains(err.Error(), tt.fault) || over {
				t.Errorf("%q, %q: %v, want %q", tt.then, tt.force, err, tt.fault)
			}
			continue
		}
		if err != nil || mode != tt.mode || over != tt.over {
			t.Errorf("%q, %q: %v, %t, %v", tt.then, tt.force, mode, over, err)
		}
	}
}
