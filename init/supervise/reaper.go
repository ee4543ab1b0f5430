// Package supervise starts the node's services, keeps them running, and reaps
// every process that ends on the node.
//
// There is exactly one caller of wait(2) in PID 1: the Reaper. It starts
// processes too, so that an exit status always reaches the one who asked for
// the process, however many orphans die beside it. Nothing else in PID 1 may
// use os/exec or wait for a process.
package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Reaper starts and reaps. Make one with NewReaper and start its Run before
// anything else is started.
type Reaper struct {
	// mu is held while a process is made and known, and while one is waited
	// for: a process that dies at once is known by then, and a pid is not given
	// out again between its death and the delivery of its status.
	mu       sync.Mutex
	procs    map[int]*Process
	orphans  int           // how many were reaped that nobody had asked for
	children bool          // there may be children
	empty    chan struct{} // closed when wait(2) has said there are none
	sigs     chan os.Signal
	turns    chan chan struct{}
}

// Process is a child that somebody waits for.
type Process struct {
	Pid    int
	r      *Reaper
	done   chan struct{}
	status unix.WaitStatus // valid once done is closed
}

// Spec says how to start a process.
type Spec struct {
	Argv   []string // Argv[0] is a path, unless Path is given
	Path   string   // the program, if Argv[0] is only what it is called
	Env    []string
	Dir    string
	Output int // descriptor for standard output and error; -1 = /dev/null
	Cgroup int // descriptor of the cgroup to start in; -1 = PID 1's own
}

// NewReaper returns a reaper that hears of dead children from now on.
func NewReaper() *Reaper {
	r := &Reaper{procs: map[int]*Process{}, empty: make(chan struct{}), sigs: make(chan os.Signal, 1), turns: make(chan chan struct{})}
	signal.Notify(r.sigs, unix.SIGCHLD)
	return r
}

// Run reaps until stop is closed.
func (r *Reaper) Run(stop <-chan struct{}) {
	defer signal.Stop(r.sigs)
	r.reap() // what died before anybody listened
	for {
		select {
		case <-r.sigs:
			r.reap()
		case turned := <-r.turns:
			close(turned)
		case <-stop:
			return
		}
	}
}

// Turn returns when Run has gone once around its loop and the lock was free: a
// sign of life. It waits for ever if they hang.
func (r *Reaper) Turn() {
	turned := make(chan struct{})
	r.turns <- turned
	<-turned
	r.Orphans()
}

// reap takes every status there is. SIGCHLD does not count how many died.
func (r *Reaper) reap() {
	for r.reapSome() {
	}
}

// reapSome reaps at most 64, then lets others have the lock for a moment.
func (r *Reaper) reapSome() (more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for range 64 {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil: // ECHILD
			r.childless()
			return false
		case pid == 0:
			r.children = true
			return false
		}
		r.children = true
		p := r.procs[pid]
		if p == nil {
			r.orphans++
			continue
		}
		delete(r.procs, pid)
		p.status = ws
		close(p.done)
	}
	return true
}

func (r *Reaper) childless() {
	r.children = false
	close(r.empty)
	r.empty = make(chan struct{})
}

// WaitChildless waits until there is no child left, dead or alive. For PID 1
// that means no other process of user space at all. It says false if ctx ended first.
func (r *Reaper) WaitChildless(ctx context.Context) bool {
	for {
		r.mu.Lock()
		ch := r.empty
		r.mu.Unlock()
		r.reap()
		r.mu.Lock()
		left := r.children
		r.mu.Unlock()
		if !left {
			return true
		}
		select {
		case <-ch:
		case <-ctx.Done():
			return false
		}
	}
}

// Orphans is how many processes were reaped that nobody had asked for.
func (r *Reaper) Orphans() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.orphans
}

// Start starts a process in a session of its own, with no descriptor of PID 1's
// but the output, and no signal blocked or ignored.
func (r *Reaper) Start(s Spec) (*Process, error) {
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Argv[0], err)
	}
	defer null.Close()
	out := uintptr(s.Output)
	if s.Output < 0 {
		out = null.Fd()
	}
	attr := &syscall.ProcAttr{
		Dir: s.Dir, Env: s.Env, Files: []uintptr{null.Fd(), out, out},
		Sys: &syscall.SysProcAttr{Setsid: true, UseCgroupFD: s.Cgroup >= 0, CgroupFD: max(0, s.Cgroup)},
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	path := s.Path
	if path == "" {
		path = s.Argv[0]
	}
	pid, err := syscall.ForkExec(path, s.Argv, attr)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	p := &Process{Pid: pid, r: r, done: make(chan struct{})}
	r.procs[pid] = p
	r.children = true
	return p, nil
}

// Done is closed once the process was reaped.
func (p *Process) Done() <-chan struct{} { return p.done }

// Status is how the process ended; call it after Done is closed.
func (p *Process) Status() unix.WaitStatus { return p.status }

// Signal sends a signal to the process, never to another that got its pid.
func (p *Process) Signal(sig unix.Signal) error {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	if p.r.procs[p.Pid] != p {
		return os.ErrProcessDone
	}
	return unix.Kill(p.Pid, sig)
}

// Describe puts a wait status into words.
func Describe(ws unix.WaitStatus) string {
	switch {
	case ws.Signaled() && ws.CoreDump():
		return fmt.Sprintf("signal: %s (core dumped)", ws.Signal())
	case ws.Signaled():
		return fmt.Sprintf("signal: %s", ws.Signal())
	default:
		return fmt.Sprintf("exit status %d", ws.ExitStatus())
	}
}
