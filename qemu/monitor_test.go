package qemu

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const greeting = `{"QMP": {"version": {"qemu": {"micro": 0, "minor": 0, "major": 10}, "package": ""}, "capabilities": ["oob"]}}`

// fakeQMP serves one connection: answers maps a command's name to the lines
// that are sent back, nil meaning that there is never an answer. The commands
// come out as they arrived.
func fakeQMP(t *testing.T, greet string, answers map[string][]string) (path string, commands <-chan string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "qmp")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 16)
	ended := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-ended })
	go func() {
		defer close(ended)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		if greet != "" {
			fmt.Fprintln(c, greet)
		}
		in := json.NewDecoder(bufio.NewReader(c))
		for {
			var raw json.RawMessage
			if in.Decode(&raw) != nil {
				return
			}
			var command struct{ Execute string }
			if err := json.Unmarshal(raw, &command); err != nil {
				t.Errorf("command %s: %v", raw, err)
				return
			}
			if command.Execute == "qmp_capabilities" {
				fmt.Fprintln(c, `{"return": {}}`)
				continue
			}
			got <- string(raw)
			for _, line := range answers[command.Execute] {
				if line == "close" {
					return
				}
				fmt.Fprintln(c, line)
			}
		}
	}()
	return path, got
}

func TestMonitorCommands(t *testing.T) {
	path, commands := fakeQMP(t, greeting, map[string][]string{
		"system_powerdown": {`{"return": {}}`, `{"timestamp": {"seconds": 1, "microseconds": 2}, "event": "POWERDOWN"}`},
		"send-key":         {`{"timestamp": {"seconds": 1, "microseconds": 2}, "event": "RTC_CHANGE", "data": {"offset": 1}}`, `{"return": {}}`},
		"cont":             {`{"error": {"class": "GenericError", "desc": "no kernel"}}`},
		"quit":             {"close"},
	})
	m, err := dialMonitor(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	events := make(chan string, 8)
	go func() {
		defer close(events)
		for ev := range m.events {
			events <- ev.Event
		}
	}()
	if err := m.execute(t.Context(), "system_powerdown", nil); err != nil {
		t.Error(err)
	}
	if err := m.sendKeys(t.Context(), "ctrl", "alt", "delete"); err != nil {
		t.Error(err)
	}
	if err := m.execute(t.Context(), "cont", nil); err == nil || !strings.Contains(err.Error(), "no kernel") {
		t.Errorf("cont: got %v, want QEMU's own words", err)
	}
	if err := m.execute(t.Context(), "quit", nil); err == nil {
		t.Error("quit: no error though the connection was closed before an answer")
	}
	for _, want := range []string{
		`{"execute":"system_powerdown"}`,
		`{"execute":"send-key","arguments":{"keys":[{"type":"qcode","data":"ctrl"},{"type":"qcode","data":"alt"},{"type":"qcode","data":"delete"}]}}`,
		`{"execute":"cont"}`, `{"execute":"quit"}`,
	} {
		if got := <-commands; got != want {
			t.Errorf("QEMU got %s, want %s", got, want)
		}
	}
	m.m.Disconnect()
	var seen []string
	for ev := range events {
		seen = append(seen, ev)
	}
	if got := strings.Join(seen, " "); got != "POWERDOWN RTC_CHANGE" {
		t.Errorf("events %q", got)
	}
}

func TestMonitorNeverWaitsForEver(t *testing.T) {
	short := func(t *testing.T) context.Context {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, errors.New("ceiling"))
		t.Cleanup(cancel)
		return ctx
	}
	t.Run("no socket", func(t *testing.T) {
		if _, err := dialMonitor(short(t), filepath.Join(t.TempDir(), "none"), nil); err == nil || !strings.Contains(err.Error(), "ceiling") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("QEMU is gone", func(t *testing.T) {
		ended := make(chan struct{})
		close(ended)
		if _, err := dialMonitor(t.Context(), filepath.Join(t.TempDir(), "none"), ended); err == nil || !strings.Contains(err.Error(), "QEMU ended") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("no greeting", func(t *testing.T) {
		path, _ := fakeQMP(t, "", nil)
		if _, err := dialMonitor(short(t), path, nil); err == nil || !strings.Contains(err.Error(), "ceiling") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("no QMP at all", func(t *testing.T) {
		path, _ := fakeQMP(t, "HTTP/1.0 400 Bad Request", nil)
		if _, err := dialMonitor(t.Context(), path, nil); err == nil {
			t.Error("a web server was taken for QEMU")
		}
	})
	t.Run("no answer", func(t *testing.T) {
		path, _ := fakeQMP(t, greeting, nil)
		m, err := dialMonitor(t.Context(), path, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer m.m.Disconnect()
		if err := m.execute(short(t), "cont", nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}
