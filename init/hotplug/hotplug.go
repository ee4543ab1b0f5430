// Package hotplug loads the drivers of the devices that the machine has, and of
// those that come later: the modules of the image that answer to a device's
// modalias. Nothing waits for it.
package hotplug

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	// workers load at once: a controller that takes seconds to start must not
	// keep the network card waiting.
	workers = 4
	// maxPending and maxKnown bound what a device can make PID 1 remember by
	// coming and going under ever new names.
	maxPending = 4096
	maxKnown   = 16384
	// maxAlias is longer than any: a processor's lists its features.
	maxAlias = 4096
	// rest is between looking for devices again after events were lost.
	rest = time.Second
)

// Manager loads drivers. All fields must be set.
type Manager struct {
	Sys    string                   // "/sys"
	Load   func(alias string) error // what has no module is no error to speak of
	Printf func(format string, args ...any)
	Guard  func(who string) // deferred in each goroutine

	mu      sync.Mutex
	wake    *sync.Cond
	pending []string
	known   map[string]bool // aliases that were asked for
	busy    int
	ended   bool
	lost    bool // look again
}

// Start begins to hear of devices and looks for those that there are. It returns
// when the drivers of these have been loaded or ctx ends; it goes on hearing until
// ctx ends, and then done is closed.
func (m *Manager) Start(ctx context.Context, listen func() (*Socket, error)) (done <-chan struct{}, err error) {
	m.wake, m.known = sync.NewCond(&m.mu), map[string]bool{}
	var wg sync.WaitGroup
	s, err := listen()
	if err != nil {
		m.Printf("devices: %v; what comes later gets no driver", err)
	} else {
		wg.Go(func() {
			defer m.Guard("devices: events")
			m.hear(ctx, s)
		})
	}
	for range workers {
		wg.Go(func() {
			defer m.Guard("devices: drivers")
			m.work()
		})
	}
	stop := context.AfterFunc(ctx, func() {
		m.mu.Lock()
		m.ended = true
		m.mu.Unlock()
		m.wake.Broadcast()
		if s != nil {
			s.Close()
		}
	})
	m.scan()
	m.settle()
	end := make(chan struct{})
	go func() {
		defer stop()
		wg.Wait()
		close(end)
	}()
	return end, err
}

// hear takes events until the socket is closed.
func (m *Manager) hear(ctx context.Context, s *Socket) {
	buf := make([]byte, 16<<10) // the kernel's messages have 2 KiB of fields at most
	for ctx.Err() == nil {
		e, err := s.Receive(buf)
		switch {
		case err == nil:
			if e.Action == "add" || e.Action == "change" {
				m.want(e.Modalias)
			}
		case errors.Is(err, errLost):
			m.again()
		case ctx.Err() == nil:
			m.Printf("devices: events: %v", err)
			select {
			case <-time.After(rest):
			case <-ctx.Done():
			}
		}
	}
}

// scan asks for the driver of each device that is there.
func (m *Manager) scan() {
	busses, err := os.ReadDir(filepath.Join(m.Sys, "bus"))
	if err != nil {
		m.Printf("devices: %v", err)
		return
	}
	for _, b := range busses {
		dir := filepath.Join(m.Sys, "bus", b.Name(), "devices")
		devices, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, d := range devices {
			if a, err := os.ReadFile(filepath.Join(dir, d.Name(), "modalias")); err == nil {
				m.want(trim(a))
			}
		}
	}
}

func trim(b []byte) string {
	for len(b) > 0 && (b[len(b)-1] == '\n' || b[len(b)-1] == ' ') {
		b = b[:len(b)-1]
	}
	return string(b)
}

// want asks for the modules behind an alias, once.
func (m *Manager) want(alias string) {
	if alias == "" || len(alias) > maxAlias {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known[alias] {
		return
	}
	if len(m.pending) >= maxPending {
		m.lost = true
		return
	}
	if len(m.known) >= maxKnown {
		clear(m.known)
	}
	m.known[alias] = true
	m.pending = append(m.pending, alias)
	m.wake.Signal()
}

// again has all devices looked at once more, once what is pending is done.
func (m *Manager) again() {
	m.mu.Lock()
	m.lost = true
	m.mu.Unlock()
	m.wake.Signal()
}

func (m *Manager) work() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		for len(m.pending) == 0 && !m.lost && !m.ended {
			m.wake.Wait()
		}
		switch {
		case m.ended:
			return
		case len(m.pending) > 0:
			alias := m.pending[0]
			m.pending = m.pending[1:]
			m.outside(func() { _ = m.Load(alias) })
		default:
			m.lost = false
			m.outside(func() {
				time.Sleep(rest)
				m.scan()
			})
		}
		if m.busy == 0 && len(m.pending) == 0 {
			m.wake.Broadcast()
		}
	}
}

// outside runs f without the lock.
func (m *Manager) outside(f func()) {
	m.busy++
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		m.busy--
	}()
	f()
}

// settle waits until no driver is being loaded.
func (m *Manager) settle() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for (m.busy > 0 || len(m.pending) > 0) && !m.ended {
		m.wake.Wait()
	}
}
