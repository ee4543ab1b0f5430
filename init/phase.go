package boot

import (
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// phase is one step of the boot.
type phase struct {
	name  string
	after []string // names of phases before it in the list
	do    func() error
	fatal bool // without it the rest is not begun
}

// runner carries out phases, each in a goroutine of its own.
type runner struct {
	printf func(format string, args ...any)
	now    func() time.Time
	gate   *gate
}

// run returns when all phases have ended, or the first error of a fatal one;
// then what comes after that phase is not begun, nor is anything once the gate
// is shut.
func (r runner) run(list []phase) error {
	done := map[string]chan bool{} // the phase's end; holds whether the rest may go on
	var wg sync.WaitGroup
	var mu sync.Mutex
	var fatal error
	for i, p := range list {
		ch := make(chan bool, 1)
		var before []chan bool
		for _, a := range p.after {
			c := done[a]
			if c == nil {
				return fmt.Errorf("phase %s comes after %q, which is not before it in the list", p.name, a)
			}
			before = append(before, c)
		}
		done[p.name] = ch
		wg.Go(func() {
			for _, c := range before {
				ok := <-c
				c <- ok // for the next one who asks
				if !ok {
					ch <- false
					return
				}
			}
			if !r.gate.enter(p.name) {
				ch <- false
				return
			}
			defer r.gate.leave(p.name)
			began := r.now()
			err := safely(p.do)
			took := r.now().Sub(began).Round(time.Millisecond)
			if err != nil {
				r.printf("phase %s (%d/%d): failed: %s", p.name, i+1, len(list), oneLine(err))
			} else {
				r.printf("phase %s (%d/%d): done, %s", p.name, i+1, len(list), took)
			}
			if err != nil && p.fatal {
				mu.Lock()
				if fatal == nil {
					fatal = fmt.Errorf("phase %s: %w", p.name, err)
				}
				mu.Unlock()
			}
			ch <- err == nil || !p.fatal
		})
	}
	wg.Wait()
	return fatal
}

// safely turns a panic into an error: one phase's fault is not the node's end.
func safely(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	return f()
}

// oneLine puts an error, which may be several, on one console line.
func oneLine(err error) string {
	return strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ")
}
