// Package logs keeps what PID 1 and its services write: the recent part in
// memory, and all of it, within caps, in a file with one older file beside it.
//
// Who writes is never held up and never told of a failure: Write only copies
// into a ring, and one goroutine carries the ring to the file. While the disk is
// full, read-only, missing or hung, what comes in stays in the ring, and is
// written once the disk takes it again; only what the ring had no room for is
// lost, and the file says how much.
package logs

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// Bounds of a node's logs, for each service and for PID 1.
const (
	FileCap    = 4 << 20         // bytes of a file; with the older one a log has at most twice that
	Ring       = 128 << 10       // bytes kept in memory
	Retry      = 5 * time.Second // between two attempts at a disk that takes nothing
	CloseLimit = time.Second     // for the rest to be written at the end
	Group      = 4               // adm, whose members may read logs
	Mode       = 0o640           // of the files
	chunk      = 32 << 10        // bytes written at once
	lossNotice = "garboard: %d bytes are missing here: the log's disk took nothing\n"
)

// Options say how a log is kept.
type Options struct {
	Name   string                           // for messages
	Sink   io.WriteCloser                   // the file
	Printf func(format string, args ...any) // told when the disk begins and ends to refuse; not of every failure
	Guard  func(who string)                 // deferred in the goroutine to recover a panic; may be nil
	Ring   int                              // 0 = the constant
	Retry  time.Duration                    // 0 = the constant
}

// Log is one log. Make it with New; until Start it is kept in memory alone.
type Log struct {
	ring  int
	retry time.Duration
	wake  chan struct{} // something came in; holds one
	stop  chan struct{}
	done  chan struct{}

	mu      sync.Mutex
	buf     []byte // the last bytes that came in, at most twice ring
	end     int64  // bytes that have come in since the beginning
	written int64  // of these, those that are in the file or lost
	started bool
	closed  bool
}

// New makes a log that is kept in memory; ring 0 means Ring.
func New(ring int) *Log {
	if ring <= 0 {
		ring = Ring
	}
	return &Log{ring: ring, wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
}

// Write takes p. It never blocks and never fails.
func (l *Log) Write(p []byte) (int, error) {
	n := len(p)
	l.mu.Lock()
	l.end += int64(n)
	p = p[max(0, n-l.ring):]
	if len(l.buf)+len(p) > 2*l.ring {
		keep := l.buf[len(l.buf)-(l.ring-len(p)):]
		l.buf = l.buf[:copy(l.buf, keep)]
	}
	l.buf = append(l.buf, p...)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
	return n, nil
}

// Recent returns the last bytes that came in, at most n.
func (l *Log) Recent(n int) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]byte(nil), l.buf[max(0, len(l.buf)-min(n, l.ring)):]...)
}

// Start begins to carry the log to o.Sink, with what came in before. A log is
// started once.
func (l *Log) Start(o Options) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.started || l.closed {
		return
	}
	l.started = true
	l.retry = o.Retry
	if l.retry <= 0 {
		l.retry = Retry
	}
	go func() {
		defer close(l.done)
		if o.Guard != nil {
			defer o.Guard("log of " + o.Name)
		}
		l.carry(o)
	}()
}

// carry writes until the log is closed; then it writes the rest.
func (l *Log) carry(o Options) {
	defer o.Sink.Close()
	b := make([]byte, chunk)
	failing, last, midLine := false, false, false
	for {
		n, lost := l.next(b)
		if n == 0 {
			select {
			case <-l.wake:
				continue
			case <-l.stop:
				if n, _ := l.next(b); n == 0 {
					return
				}
				continue
			}
		}
		var err error
		if lost > 0 {
			notice := fmt.Sprintf(lossNotice, lost)
			if midLine {
				notice = "\n" + notice
			}
			_, err = io.WriteString(o.Sink, notice)
		}
		if err == nil {
			n, err = o.Sink.Write(b[:n])
			l.advance(lost + int64(n))
			if n > 0 {
				midLine = b[n-1] != '\n'
			}
		}
		if err == nil {
			if failing {
				o.Printf("log of %s: is written again", o.Name)
			}
			failing = false
			continue
		}
		if !failing {
			o.Printf("log of %s: %v; the last %d KiB are kept in memory and written when there is room", o.Name, err, l.ring>>10)
		}
		failing = true
		if last {
			return
		}
		t := time.NewTimer(l.retry)
		select {
		case <-t.C:
		case <-l.stop: // once more, for what is left
			t.Stop()
			last = true
		}
	}
}

// next copies what is to be written next, and says how much before it is lost.
func (l *Log) next(b []byte) (n int, lost int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := l.end - int64(len(l.buf))
	if l.written > from {
		from = l.written
	}
	n = copy(b, l.buf[len(l.buf)-int(l.end-from):])
	return n, from - l.written
}

func (l *Log) advance(n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.written += n
}

// ErrHung says that the rest of a log could not be written within CloseLimit.
var ErrHung = errors.New("the disk does not answer")

// Close writes the rest, within CloseLimit, and lets go of the file. What comes
// in later is kept in memory alone.
func (l *Log) Close() error {
	l.mu.Lock()
	again, started := l.closed, l.started
	l.closed = true
	l.mu.Unlock()
	if !started {
		return nil
	}
	if !again {
		close(l.stop)
	}
	t := time.NewTimer(CloseLimit)
	defer t.Stop()
	select {
	case <-l.done:
		return nil
	case <-t.C:
		return fmt.Errorf("rest of a log: %w", ErrHung)
	}
}
