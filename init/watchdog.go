package boot

import (
	"context"
	"errors"
	"time"

	"garboard.local/init/supervise"
	"garboard.local/init/table"
	"garboard.local/init/watchdog"
)

// watchdogParam is in place of what the table says.
const watchdogParam = "garboard.watchdog"

// askRuntime is the runtime's time for a sign of life.
const askRuntime = 5 * time.Second

// armWatchdog arms the machine's watchdog, if there is one and nobody forbids it,
// and begins to feed it.
func (n *node) armWatchdog() error {
	text, given := n.cmdline[watchdogParam]
	if !given {
		text = n.table.Watchdog
	}
	c, bad := watchdog.Parse(text)
	if c.Off {
		n.printf("watchdog: off")
		return bad
	}
	load := func(string) error { return nil }
	if n.modules != nil {
		load = n.modules.Load
	}
	d, err := watchdog.Arm(c, watchdog.Path, load)
	if d == nil {
		if err == nil {
			n.printf("watchdog: this machine has none")
		}
		return errors.Join(bad, err)
	}
	n.watchdog.Store(d)
	n.printf("watchdog: armed, %s, resets the machine after %s", d.Name, d.Timeout)
	rule := watchdog.NewRule(time.Now())
	rule.Strict, rule.Printf = c.Runtime, n.printf
	rule.Restart = func() {
		if err := n.services.Load().Restart(table.RoleRuntime, "the watchdog"); err != nil {
			n.printf("watchdog: %v", err)
		}
	}
	w := &watchdog.Watch{Device: d, Period: min(d.Timeout/4, 15*time.Second), Rule: rule, Now: time.Now,
		Printf: n.printf, Guard: n.guard, Turn: n.turn, Runtime: n.runtimeLife(),
		Ending: func() (time.Duration, bool) {
			if !n.end.Begun() {
				return 0, false
			}
			return n.end.Ceiling(), true
		}}
	// Not background work: it goes on until the very end of a shutdown.
	go func() {
		defer n.guard("watchdog")
		w.Run(nil)
	}()
	return errors.Join(bad, err)
}

// turn returns when every loop of PID 1 that the node depends on has moved.
func (n *node) turn() {
	n.reaper.Turn()
	n.services.Load().States()
	n.end.Begun()
}

// runtimeLife looks at the runtime once.
func (n *node) runtimeLife() func(context.Context) watchdog.Runtime {
	socket, said := "", false
	for _, s := range n.table.Services {
		if s.Role == table.RoleRuntime && s.Ready != nil {
			socket = s.Ready.Unix
		}
	}
	return func(ctx context.Context) watchdog.Runtime {
		v := n.services.Load()
		if socket == "" || v.State(table.RoleRuntime) != supervise.Ready {
			return watchdog.Down
		}
		ctx, cancel := context.WithTimeout(ctx, askRuntime)
		defer cancel()
		if err := watchdog.Ask(ctx, socket); err != nil {
			if v.State(table.RoleRuntime) != supervise.Ready {
				return watchdog.Down
			}
			return watchdog.Silent
		}
		if !said {
			said = true
			n.printf("watchdog: the runtime answers")
		}
		return watchdog.Answers
	}
}

// disarmWatchdog is the last thing before the end. After a shutdown in which
// something went wrong the kernel's own part may hang too: then the watchdog
// stays armed.
func (n *node) disarmWatchdog() {
	d := n.watchdog.Load()
	if d == nil {
		return
	}
	if !n.end.Clean() {
		n.printf("watchdog: stays armed, resets a machine that does not end within %s", d.Timeout)
		if err := d.Feed(); err != nil {
			n.printf("watchdog: feed: %v", err)
		}
		n.console.Flush(time.Second)
		return
	}
	disarmed, err := d.Disarm()
	if err != nil || !disarmed {
		n.printf("watchdog: cannot be disarmed (%v), resets the machine after %s if it does not end", err, d.Timeout)
		n.console.Flush(time.Second)
	}
}
