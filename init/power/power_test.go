package power

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func event(typ, code uint16, value uint32) []byte {
	b := make([]byte, eventSize)
	binary.NativeEndian.PutUint16(b[eventSize-8:], typ)
	binary.NativeEndian.PutUint16(b[eventSize-6:], code)
	binary.NativeEndian.PutUint32(b[eventSize-4:], value)
	return b
}

func TestPressed(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   []byte
		want bool
	}{
		{"press", event(evKey, keyPower, 1), true},
		{"release", event(evKey, keyPower, 0), false},
		{"repeat", event(evKey, keyPower, 2), false},
		{"other key", event(evKey, 30, 1), false},
		{"sync", event(0, 0, 0), false},
		{"after others", append(event(0, keyPower, 1), event(evKey, keyPower, 1)...), true},
		{"cut short", event(evKey, keyPower, 1)[:eventSize-1], false},
	} {
		if got := pressed(tt.in); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

func TestNewInput(t *testing.T) {
	for in, want := range map[string]string{
		"add@/devices/LNXSYSTM:00/LNXPWRBN:00/input/input0/event0\x00ACTION=add\x00": "event0",
		"add@/devices/x/input/input12/event12":                                       "event12",
		"remove@/devices/x/input/input0/event0\x00":                                  "",
		"add@/devices/x/input/input0\x00":                                            "",
		"add@/devices/x/input/input0/event\x00":                                      "",
		"add@/devices/x/input/../event0/../x\x00":                                    "",
		"add@/module/event0\x00":                                                     "",
		"":                                                                           "",
	} {
		got, ok := newInput([]byte(in))
		if got != want || ok != (want != "") {
			t.Errorf("%q: %q", in, got)
		}
	}
}

func FuzzNewInput(f *testing.F) {
	f.Add([]byte("add@/devices/input/input0/event0\x00SEQNUM=1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if n, ok := newInput(b); ok && filepath.Base(n) != n {
			t.Errorf("%q", n)
		}
	})
}

// TestButton presses a button made of a FIFO.
func TestButton(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "event0")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	got := make(chan struct{}, 10)
	b := &Button{Dir: dir, Printf: t.Logf, Pressed: func() { got <- struct{}{} }, Guard: func(string) {},
		hasKey: func(f *os.File) bool { return true }}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	keep, err := os.OpenFile(fifo, os.O_RDWR, 0) // so that the reader does not see the end
	if err != nil {
		t.Fatal(err)
	}
	defer keep.Close()
	go func() { b.Run(ctx); close(done) }()
	if _, err := keep.Write(event(evKey, keyPower, 1)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-got:
	case <-time.After(5 * time.Second):
		t.Error("the press was not heard")
	}
	cancel()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		t.Fatal("Run does not end")
	}
}

func TestDebounce(t *testing.T) {
	now, n := time.Unix(5, 0), 0
	f := Debounce(time.Second, func() time.Time { return now }, func() { n++ })
	f()
	f()
	now = now.Add(999 * time.Millisecond)
	f()
	now = now.Add(time.Second)
	f()
	if n != 2 {
		t.Errorf("%d presses, want 2", n)
	}
}
