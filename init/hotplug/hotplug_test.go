package hotplug

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// loads records what is asked for.
type loads struct {
	sync.Mutex
	all []string
}

func (l *loads) add(a string) error {
	l.Lock()
	defer l.Unlock()
	l.all = append(l.all, a)
	return errors.New("no such module") // as for most devices: it ends nothing
}

func (l *loads) sorted() []string {
	l.Lock()
	defer l.Unlock()
	return slices.Sorted(slices.Values(l.all))
}

func manager(t *testing.T, devices map[string]string) (*Manager, *loads) {
	t.Helper()
	sys := t.TempDir()
	for name, alias := range devices {
		dir := filepath.Join(sys, "bus", name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if alias == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, "modalias"), []byte(alias+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	l := &loads{}
	return &Manager{Sys: sys, Load: l.add, Printf: t.Logf, Guard: func(string) {}}, l
}

func deaf() (*Socket, error) { return nil, errors.New("no socket in this test") }

func TestEachAliasIsLoadedOnce(t *testing.T) {
	m, l := manager(t, map[string]string{
		"pci/devices/0000:00:1f.2": "pci:v00008086d00002922", "pci/devices/0000:00:02.0": "pci:v00008086d000010D3",
		"pci/devices/0000:00:03.0": "pci:v00008086d000010D3", "cpu/devices/cpu0": "cpu:type:x86", "cpu/devices/cpu1": "cpu:type:x86",
		"usb/devices/1-1": "", "empty": "",
	})
	ctx, cancel := context.WithCancel(t.Context())
	done, err := m.Start(ctx, deaf)
	if err == nil {
		t.Error("that there will be no events is not said")
	}
	want := []string{"cpu:type:x86", "pci:v00008086d000010D3", "pci:v00008086d00002922"}
	if got := l.sorted(); !slices.Equal(got, want) {
		t.Errorf("after Start %q, want %q", got, want)
	}
	m.want("usb:later")
	m.want("usb:later")
	m.want("pci:v00008086d000010D3")
	m.want(string(make([]byte, maxAlias+1)))
	m.settle()
	if got, want := l.sorted(), append(want, "usb:later"); !slices.Equal(got, want) {
		t.Errorf("then %q, want %q", got, want)
	}
	cancel()
	<-done
}

// What a device that changes its name all the time can cost is bounded, and
// nothing that is there is missed for it.
func TestFloodIsBounded(t *testing.T) {
	m, l := manager(t, map[string]string{"usb/devices/1-1": "usb:real"})
	m.wake, m.known = sync.NewCond(&m.mu), map[string]bool{}
	for i := range 3 * maxKnown {
		m.want(fmt.Sprint("usb:", i))
	}
	if len(m.pending) != maxPending || len(m.known) > maxKnown || !m.lost {
		t.Errorf("%d pending, %d known, lost %t", len(m.pending), len(m.known), m.lost)
	}
	var wg sync.WaitGroup
	wg.Go(m.work)
	for !slices.Contains(l.sorted(), "usb:real") { // found by looking again
		m.settle()
	}
	m.mu.Lock()
	m.ended = true
	m.mu.Unlock()
	m.wake.Broadcast()
	wg.Wait()
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Event
		ok   bool
	}{
		{"add@/devices/pci0000:00/0000:00:02.0\x00ACTION=add\x00DEVPATH=/devices/x\x00MODALIAS=pci:v1\x00SEQNUM=1\x00", Event{"add", "/devices/pci0000:00/0000:00:02.0", "pci:v1"}, true},
		{"remove@/devices/x\x00ACTION=remove\x00", Event{"remove", "/devices/x", ""}, true},
		{"add@/a@b\x00MODALIAS=of:NaT(null)Cx\x00", Event{"add", "/a@b", "of:NaT(null)Cx"}, true},
		{"libudev\x00\xfe\xed\xca\xfe", Event{}, false},
		{"add@devices\x00", Event{}, false},
		{"add@/devices", Event{}, false}, // cut short
		{"@/devices\x00", Event{}, false},
		{"", Event{}, false},
	} {
		if got, ok := Parse([]byte(c.in)); got != c.want || ok != c.ok {
			t.Errorf("%q: %+v, %t; want %+v, %t", c.in, got, ok, c.want, c.ok)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("add@/devices/x\x00MODALIAS=pci:v1\x00"))
	f.Add([]byte("libudev\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, ok := Parse(b); ok && (e.Action == "" || e.Path == "") {
			t.Errorf("%+v", e)
		}
	})
}

// A closed socket ends the reader; the socket itself needs no privilege.
func TestListenAndClose(t *testing.T) {
	s, err := Listen()
	if err != nil {
		t.Fatal(err)
	}
	end := make(chan error, 1)
	go func() {
		_, err := s.Receive(make([]byte, 4096))
		end <- err
	}()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-end; err == nil {
		t.Error("an event from a closed socket")
	}
}
