package watchdog

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

// Watch feeds a device by a rule.
type Watch struct {
	Device interface{ Feed() error }
	Period time.Duration // of feeding and of looking
	Rule   *Rule
	Now    func() time.Time
	Printf func(format string, args ...any)
	Guard  func(who string) // deferred in each goroutine

	Turn    func() // returns when each loop of PID 1 has turned; may hang
	Runtime func(ctx context.Context) Runtime
	Ending  func() (ceiling time.Duration, begun bool)

	mu sync.Mutex // of the rule
}

// Run feeds until stop is closed. What may hang runs beside it, so a hang is
// noticed and not shared.
func (w *Watch) Run(stop <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go w.every(ctx, "turn", func() {
		w.Turn()
		w.note(func(now time.Time) { w.Rule.Turned(now) })
	})
	go w.every(ctx, "runtime", func() {
		rt := w.Runtime(ctx)
		w.note(func(now time.Time) { w.Rule.Saw(rt, now) })
	})
	go w.every(ctx, "shutdown", func() {
		if ceiling, begun := w.Ending(); begun {
			w.note(func(now time.Time) { w.Rule.Ends(ceiling, now) })
		}
	})
	t := time.NewTicker(w.Period)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			w.feed()
		case <-stop:
			return
		}
	}
}

func (w *Watch) feed() {
	feed := false
	w.note(func(now time.Time) { feed = w.Rule.Feed(now) })
	if !feed {
		return
	}
	if err := w.Device.Feed(); err != nil {
		w.Printf("watchdog: feed: %v", err)
	}
}

func (w *Watch) note(f func(now time.Time)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(w.Now())
}

func (w *Watch) every(ctx context.Context, who string, f func()) {
	defer w.Guard("watchdog " + who)
	t := time.NewTicker(w.Period)
	defer t.Stop()
	for ctx.Err() == nil {
		f()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
}

// http2 is what every HTTP/2 client sends first (RFC 9113, 3.4): the preface
// and an empty SETTINGS frame. A server that lives answers with its own.
var http2 = append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 0, 0, 0, 4, 0, 0, 0, 0, 0)

// Ask asks a gRPC server on a unix socket for a sign of life. Connecting alone
// proves nothing: the kernel accepts for a process that is stopped.
func Ask(ctx context.Context, socket string) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return err
	}
	defer c.Close()
	if t, ok := ctx.Deadline(); ok {
		if err := c.SetDeadline(t); err != nil {
			return err
		}
	}
	if _, err := c.Write(http2); err != nil {
		return err
	}
	var b [9]byte
	if _, err := c.Read(b[:]); err != nil {
		return fmt.Errorf("%s: no answer: %w", socket, err)
	}
	return nil
}

// Arm arms the watchdog of the machine, loading drivers until there
// is one; nil without an error if there is none.
func Arm(c Config, path string, load func(driver string) error) (*Device, error) {
	drivers := Drivers
	if c.Soft {
		drivers = append(append([]string{}, Drivers...), SoftDriver)
	}
	for i := 0; ; i++ {
		if _, err := os.Stat(path); err == nil {
			return Open(path, c.Timeout)
		}
		if i == len(drivers) {
			return nil, nil
		}
		_ = load(drivers[i]) // the image may lack it, the machine the device
	}
}
