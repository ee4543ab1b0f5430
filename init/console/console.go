// Package console writes PID 1's lines to the kernel log without ever blocking
// the one who writes: lines wait in a bounded queue and one goroutine carries
// them to /dev/kmsg, so that a slow serial line cannot hold up the boot.
package console

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// MaxLine is the longest piece written as one record, in bytes. The kernel
	// takes 1024 with its prefix (printk.c, PRINTKRB_RECORD_MAX).
	MaxLine = 900

	ownQueue   = 2048 // lines of PID 1 itself
	guestQueue = 1024 // lines of pods and services
	guestRate  = 400  // lines a second that pods and services may print ...
	guestBurst = 2000 // ... after this many at once
)

// Console is safe for concurrent use. Make one with New and start its Run.
type Console struct {
	own, guest chan string
	now        func() time.Time

	keep atomic.Pointer[func(line string)]

	mu      sync.Mutex
	w       io.Writer
	level   int
	dropped int // lines lost since the last one that said so
	tokens  float64
	filled  time.Time
	pending int // lines queued but not yet written
	idle    *sync.Cond
}

// New makes a console that writes records to w (normally /dev/kmsg).
func New(w io.Writer, now func() time.Time) *Console {
	c := &Console{
		own: make(chan string, ownQueue), guest: make(chan string, guestQueue),
		now: now, w: w, level: 5, tokens: guestBurst, filled: now(),
	}
	c.idle = sync.NewCond(&c.mu)
	return c
}

// SetLevel makes lines visible at the kernel's console log level, the first
// number of /proc/sys/kernel/printk: with "quiet" it is low, and the node's own
// story must be seen nevertheless.
func (c *Console) SetLevel(printk string) {
	fields := strings.Fields(printk)
	if len(fields) == 0 {
		return
	}
	n, err := strconv.Atoi(fields[0])
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.level = max(0, min(5, n-1))
}

// SetWriter changes where lines go from now on.
func (c *Console) SetWriter(w io.Writer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.w = w
}

// Keep gives f, from now on, each line that PID 1 itself prints, clean and
// without the prefix, whatever becomes of it on the console; never one of pods
// or services, which have logs of their own. f must not block or print.
func (c *Console) Keep(f func(line string)) { c.keep.Store(&f) }

// Printf prints one line of PID 1, prefixed with "garboard: ".
func (c *Console) Printf(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if f := c.keep.Load(); f != nil {
		(*f)(Clean(line))
	}
	c.put(c.own, "garboard: "+line)
}

// Guest prints one line of a pod or a service as "source: text". It is
// rate-limited; what is dropped is counted and said.
func (c *Console) Guest(source, text string) {
	c.mu.Lock()
	now := c.now()
	c.tokens = min(guestBurst, c.tokens+now.Sub(c.filled).Seconds()*guestRate)
	c.filled = now
	if c.tokens < 1 {
		c.dropped++
		c.mu.Unlock()
		return
	}
	c.tokens--
	c.mu.Unlock()
	c.put(c.guest, source+": "+text)
}

func (c *Console) put(q chan string, line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case q <- line:
		c.pending++
	default:
		c.dropped++
	}
}

// Run writes lines until stop is closed; then it writes what is queued and returns.
func (c *Console) Run(stop <-chan struct{}) {
	for {
		select { // PID 1's own lines first
		case l := <-c.own:
			c.write(l)
			continue
		default:
		}
		select {
		case l := <-c.own:
			c.write(l)
		case l := <-c.guest:
			c.write(l)
		case <-stop:
			for {
				select {
				case l := <-c.own:
					c.write(l)
				case l := <-c.guest:
					c.write(l)
				default:
					return
				}
			}
		}
	}
}

// Flush waits until everything printed so far is written, or for at most d.
func (c *Console) Flush(d time.Duration) {
	done := false
	t := time.AfterFunc(d, func() {
		c.mu.Lock()
		done = true
		c.mu.Unlock()
		c.idle.Broadcast()
	})
	defer t.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.pending > 0 && !done {
		c.idle.Wait()
	}
}

func (c *Console) write(line string) {
	c.mu.Lock()
	w, level, dropped := c.w, c.level, c.dropped
	c.dropped = 0
	c.mu.Unlock()
	if dropped > 0 {
		record(w, level, fmt.Sprintf("garboard: console: %d lines dropped", dropped))
	}
	for _, piece := range Split(Clean(line), MaxLine) {
		record(w, level, piece)
	}
	c.mu.Lock()
	c.pending--
	c.mu.Unlock()
	c.idle.Broadcast()
}

func record(w io.Writer, level int, text string) {
	// Facility 1 (user): the kernel refuses 0 to programs. A failed write has
	// nobody to be told to.
	_, _ = fmt.Fprintf(w, "<%d>%s\n", 1<<3|level, text)
}

// Clean replaces control characters, so that no program can move the cursor,
// change colours or begin a line that looks like PID 1's.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case r < 0x20 || r == 0x7f || (r >= 0x80 && r < 0xa0):
			return '?'
		}
		return r
	}, strings.TrimRight(s, "\r\n"))
}

// Split cuts s into pieces of at most n bytes; each but the last ends in "\".
func Split(s string, n int) []string {
	var out []string
	for len(s) > n {
		cut := n - 1
		for cut > n-5 && s[cut]&0xc0 == 0x80 { // not inside a UTF-8 sequence
			cut--
		}
		out = append(out, s[:cut]+`\`)
		s = s[cut:]
	}
	return append(out, s)
}

// Open opens /dev/kmsg below root, else /dev/console, else standard error.
func Open(root string) io.Writer {
	for _, p := range []string{"/dev/kmsg", "/dev/console"} {
		if f, err := os.OpenFile(root+p, os.O_WRONLY, 0); err == nil {
			return f
		}
	}
	return os.Stderr
}
