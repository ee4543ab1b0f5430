package socket

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// page is the documentation that these tests hold the code to.
func page(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../docs/system-socket.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// What the page's table of states says of each byte is what a server does.
func TestStatesTable(t *testing.T) {
	rows := regexp.MustCompile("(?m)^\\| `0x([0-9a-f]{2})` \\| (\\S+) \\| (\\S+) \\| (\\S+) \\|$").FindAllStringSubmatch(page(t), -1)
	if len(rows) != 6 { // the five commands, and one that is none
		t.Fatalf("%d rows: %q", len(rows), rows)
	}
	for _, row := range rows {
		n, err := strconv.ParseUint(row[1], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		for i, state := range []string{"running", "going down, from the kubelet", "going down, from others"} {
			t.Run("0x"+row[1]+" "+state, func(t *testing.T) {
				if got := effect(t, byte(n), i > 0, i == 1); got != row[2+i] {
					t.Errorf("the page says %s, the server did %s", row[2+i], got)
				}
			})
		}
	}
}

// effect sends a byte on the root socket, as the kubelet or as somebody else,
// and says what the server made of it.
func effect(t *testing.T, b byte, down, kubelet bool) string {
	holder := os.Getpid()
	if !kubelet {
		holder = 0
	}
	n := start(t, holder)
	c := dial(t, n.root)
	eventually(t, "it is accepted", func() bool { return n.open() == 1 })
	var h *ShutdownHandle
	if down {
		h = n.BeginShutdown()
		if got := event(t, c); got != "shutdown" {
			t.Fatal(got)
		}
	}
	if _, err := c.nc.Write([]byte{b}); err != nil {
		t.Fatal(err)
	}
	var effect string
	eventually(t, "the byte had an effect, if only a line in the log", func() bool {
		log := n.logged()
		switch {
		case n.called.String() != "":
			effect = strings.TrimSuffix(n.called.String(), " root")
		case strings.Contains(log, "released by"):
			effect = "released"
		case strings.Contains(log, "ignored"):
			effect = "ignored"
		}
		return effect != ""
	})
	if effect == "released" && h.Wait(within(t)) != Continued {
		return "released, but the shutdown waits on"
	}
	return effect
}

// The limits in the page's table of times are the code's.
func TestTimesInPage(t *testing.T) {
	for _, want := range []string{
		fmt.Sprintf("| a write of the event to one client | %d s,", int(writeLimit.Seconds())),
		fmt.Sprintf("at most %d hours", int(MaxGrace.Hours())),
		fmt.Sprintf("At %d connections", DefaultMaxConns),
		fmt.Sprintf("| `%s` | %04o |", RootPath, RootMode), fmt.Sprintf("| `%s` | %04o |", RestartPath, RestartMode), GraceFile,
	} {
		if !strings.Contains(page(t), want) {
			t.Errorf("docs/system-socket.md does not say %q", want)
		}
	}
}
