package qemu

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"regexp"
	"sync"
	"time"
)

const (
	maxLine   = 64 << 10 // bytes; a longer line is cut there and goes on as another
	keepLines = 50_000   // in memory; the oldest go first
)

// Console collects what the serial port says. It is safe for concurrent use.
type Console struct {
	log   io.Writer // raw bytes; may be nil
	out   func(Line)
	mttcg bool // the emulator's known fault is possible
	now   func() time.Time

	mu      sync.Mutex
	partial []byte
	lines   []Line
	gone    int // lines dropped from the front
	cursor  int // Expect goes on here, counted from the very first line
	fault   *Fault
	closed  bool
	changed chan struct{} // closed and replaced when anything above changes
	logErr  error
}

func newConsole(log io.Writer, out func(Line), mttcg bool, now func() time.Time) *Console {
	return &Console{log: log, out: out, mttcg: mttcg, now: now, changed: make(chan struct{})}
}

// Write takes bytes from the serial port. It never fails: a log file that
// cannot be written is reported by LogErr, for the guest must not stall on it.
func (c *Console) Write(p []byte) (int, error) {
	if c.log != nil {
		if _, err := c.log.Write(p); err != nil {
			c.mu.Lock()
			c.logErr = err
			c.mu.Unlock()
		}
	}
	rest := p
	for len(rest) > 0 {
		i := bytes.IndexByte(rest, '\n')
		piece := rest
		if i >= 0 {
			piece = rest[:i]
		}
		if room := maxLine - len(c.partial); len(piece) > room {
			piece, i = piece[:room], -1
		}
		c.partial = append(c.partial, piece...)
		rest = rest[len(piece):]
		if i >= 0 {
			rest = rest[1:]
		}
		if i >= 0 || len(c.partial) >= maxLine {
			c.flush()
		}
	}
	return len(p), nil
}

func (c *Console) flush() {
	l := ParseLine(string(c.partial), c.now())
	c.partial = c.partial[:0]
	c.mu.Lock()
	if c.fault == nil {
		c.fault = faultOf(l, c.mttcg)
	}
	c.lines = append(c.lines, l)
	if len(c.lines) > keepLines {
		drop := keepLines / 10
		c.lines = append([]Line(nil), c.lines[drop:]...)
		c.gone += drop
	}
	c.poke()
	c.mu.Unlock()
	if c.out != nil {
		c.out(l)
	}
}

// poke wakes all waiters; c.mu is held.
func (c *Console) poke() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// end says that no more will come.
func (c *Console) end() {
	if len(c.partial) > 0 {
		c.flush()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.poke()
}

// Lines returns a copy of the lines kept so far.
func (c *Console) Lines() []Line {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Line(nil), c.lines...)
}

// Fault returns the first fault seen, or nil.
func (c *Console) Fault() *Fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fault
}

// LogErr returns the last error of writing the log file, or nil.
func (c *Console) LogErr() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.logErr
}

// tail returns the last TailLines lines; c.mu is held.
func (c *Console) tail() []Line {
	from := max(0, len(c.lines)-TailLines)
	return append([]Line(nil), c.lines[from:]...)
}

// Failure describes what went wrong with the console's tail for evidence.
// If a fault was seen, the fault is what went wrong.
func (c *Console) Failure(err error, format string, args ...any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failure(err, fmt.Sprintf(format, args...))
}

func (c *Console) failure(err error, what string) error {
	if c.fault != nil {
		what = fmt.Sprintf("%s (%s): %s", what, c.fault.Kind, c.fault.Line.Text)
	}
	return &ConsoleError{Fault: c.fault, What: what, Err: err, Tail: c.tail()}
}

// Match is a line that Expect waited for and the groups of its expression.
type Match struct {
	Line   Line
	Groups []string // Groups[0] is the whole match
}

// Expect waits for a line whose Message (the text without the kernel's time
// stamp) matches, beginning after the line that the last Expect found. It
// fails at once when the console shows a fault before such a line, when the
// machine has ended, or when ctx ends.
func (c *Console) Expect(ctx context.Context, re *regexp.Regexp) (Match, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := c.cursor
	for {
		for next = max(next, c.gone); next < c.gone+len(c.lines); next++ {
			l := c.lines[next-c.gone]
			if g := re.FindStringSubmatch(l.Message); g != nil {
				c.cursor = next + 1
				return Match{l, g}, nil
			}
		}
		switch {
		case c.fault != nil:
			return Match{}, c.failure(nil, fmt.Sprintf("while waiting for %q", re))
		case c.closed:
			return Match{}, c.failure(nil, fmt.Sprintf("the machine ended while %q was waited for", re))
		}
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
			c.mu.Lock()
		case <-ctx.Done():
			c.mu.Lock()
			return Match{}, c.failure(context.Cause(ctx), fmt.Sprintf("%q did not come", re))
		}
	}
}
