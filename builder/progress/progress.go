// Package progress tells the person who waits what the build is doing: bars on
// a terminal, plain lines elsewhere.
package progress

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Reporter starts tasks. Its methods are safe for concurrent use.
type Reporter interface {
	// Start announces a piece of work: verb and name read as one line
	// ("fetch crun_1.21-1_amd64.deb", "compile kubelet amd64"). total is in
	// bytes, or 0 where there is nothing to count.
	Start(verb, name string, total int64) Task
}

// Task is one piece of work under way. Exactly one of Done, Cached and Fail ends it.
type Task interface {
	Add(bytes int64)  // so many more bytes are done
	Done(note string) // finished; the note ("84 MB") may be empty
	Cached()          // nothing had to be done
	Fail(err error)   // given up; the error is returned to the caller as well
}

// Discard reports to nobody.
var Discard Reporter = discard{}

type discard struct{}

func (discard) Start(string, string, int64) Task { return discard{} }
func (discard) Add(int64)                        {}
func (discard) Done(string)                      {}
func (discard) Cached()                          {}
func (discard) Fail(error)                       {}

// Lines reports with one line at the start of each task and one at its end.
func Lines(w io.Writer) Reporter { return &lines{w: w} }

type lines struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lines) printf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.w, format+"\n", args...)
}

func (l *lines) Start(verb, name string, _ int64) Task {
	return &lineTask{l: l, what: fmt.Sprintf("%-9s %s", verb, name), began: time.Now()}
}

type lineTask struct {
	l     *lines
	what  string
	began time.Time
}

func (t *lineTask) Add(int64) {}
func (t *lineTask) Done(note string) {
	if note != "" {
		note = ", " + note
	}
	t.l.printf("%s: done, %s%s", t.what, time.Since(t.began).Round(10*time.Millisecond), note)
}
func (t *lineTask) Cached()        { t.l.printf("%s: cached", t.what) }
func (t *lineTask) Fail(err error) { t.l.printf("%s: failed: %v", t.what, err) }
