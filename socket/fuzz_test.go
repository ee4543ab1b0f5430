package socket

import (
	"os"
	"strings"
	"testing"
	"time"
)

// FuzzServer sends any bytes, in any state, and compares with a second, plain
// reading of the protocol table.
func FuzzServer(f *testing.F) {
	f.Add([]byte{0x01}, false, false, false)
	f.Add([]byte{0x02, 0x02}, false, true, true)
	f.Add([]byte{0x02}, false, false, true)
	f.Add([]byte{0x02, 0x03, 0x04, 0x10, 0x01}, true, false, false)
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), false, true, false)
	f.Add([]byte{}, false, true, true)
	f.Fuzz(func(t *testing.T, data []byte, restart, isKubelet, down bool) {
		if len(data) > freeBytes-64 {
			data = data[:freeBytes-64] // beyond that the server goes slow
		}
		pid := 0
		if isKubelet {
			pid = os.Getpid()
		}
		n := start(t, pid)
		path := n.root
		if restart {
			path = n.restart
		}
		c := dial(t, path)
		var h *ShutdownHandle
		if down {
			eventually(t, "it is connected", func() bool { return n.open() == 1 })
			h = n.BeginShutdown()
			event(t, c)
		}
		c.nc.Write(data)
		c.nc.CloseWrite()
		for event(t, c) != "closed" {
		}
		var want []string
		released := false
		for _, b := range data {
			switch {
			case b == 0x03 && !down && restart:
				want = append(want, "restart-kubelet restart")
			case b == 0x04 && !down && restart:
				want = append(want, "restart-runtime restart")
			case restart:
			case b == 0x03 && !down:
				want = append(want, "restart-kubelet root")
			case b == 0x04 && !down:
				want = append(want, "restart-runtime root")
			case b == 0x01:
				want = append(want, "shutdown root")
			case b == 0x10:
				want = append(want, "reboot root")
			case b == 0x02 && !down:
				want = append(want, "power-off-now root")
			case b == 0x02:
				released = isKubelet
			}
		}
		if got := n.called.String(); got != strings.Join(want, ", ") {
			t.Errorf("% x: handler got %s, want %s", data, got, want)
		}
		if down {
			outcome := NoHolder
			if isKubelet && !restart {
				outcome = Closed
			}
			if released {
				outcome = Continued
			}
			if got := h.Wait(within(t)); got != outcome {
				t.Errorf("% x: Wait = %v, want %v", data, got, outcome)
			}
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
}

func FuzzParseGrace(f *testing.F) {
	for _, s := range []string{"30000\n", "0", "", "\n", "-1\n", "+1", "86400000\n", "86400001\n", "99999999999999999999\n", "1\n\n", "1 ", "0x10", "1e3", "007\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := ParseGrace(b)
		if err != nil {
			return
		}
		if d < 0 || d > MaxGrace || d%time.Millisecond != 0 {
			t.Errorf("%q: %v", b, d)
		}
		path := t.TempDir() + "/grace"
		if err := WriteGrace(path, d); err != nil {
			t.Fatal(err)
		}
		if again, err := ReadGrace(path); err != nil || again != d {
			t.Errorf("%q: %v, written and read again: %v, %v", b, d, again, err)
		}
	})
}

func FuzzParseStart(f *testing.F) {
	own, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(own)
	f.Add([]byte("7 (a) b) c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 4242 0"))
	f.Add([]byte("7 (a"))
	f.Add([]byte(") "))
	f.Fuzz(func(t *testing.T, b []byte) { parseStart(b) })
}
