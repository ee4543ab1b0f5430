package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"garboard.local/init/table"
)

// Options are what a Supervisor needs from its surroundings.
type Options struct {
	Reaper    *Reaper
	Printf    func(format string, args ...any)
	Root      string                                // "" on a node
	LogDir    string                                // /var/log/garboard
	Status    string                                // table.StatusPath; "" = the states are written nowhere
	Mirror    func(service, line string)            // may be nil: gets each line the services write
	Cgroup    func(name string) (*os.File, error)   // may be nil: directory of the service's cgroup
	Part      func(name, part string) (Part, error) // may be nil: a group below it, for one of its hooks
	Timing    Timing                                // zero = the node's
	PostStart time.Duration                         // a postStart hook that takes longer has failed; 0 = an hour
	Guard     func(who string)                      // deferred in every goroutine to recover a panic; may be nil
}

// Supervisor runs the table's services.
type Supervisor struct {
	reaper   *Reaper
	printf   func(format string, args ...any)
	root     string
	cgroup   func(name string) (*os.File, error)
	part     func(name, part string) (Part, error)
	timing   Timing
	postMax  time.Duration
	guard    func(who string)
	services []*service
	dirty    chan struct{} // holds one: a state has changed since it was written
	wg       sync.WaitGroup
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	starting context.Context // ends with NoMoreRestarts
	settled  context.CancelFunc
}

// New prepares the services; none is started.
func New(o Options, list []table.Service) *Supervisor {
	v := &Supervisor{reaper: o.Reaper, printf: o.Printf, root: o.Root, cgroup: o.Cgroup, part: o.Part, timing: o.Timing, postMax: o.PostStart, guard: o.Guard, dirty: make(chan struct{}, 1)}
	if v.timing == (Timing{}) {
		v.timing = Timing{backoffFirst, backoffMax, stable}
	}
	if v.postMax == 0 {
		v.postMax = postStartMax
	}
	if v.guard == nil {
		v.guard = func(string) {}
	}
	v.ctx, v.cancel = context.WithCancel(context.Background())
	v.starting, v.settled = context.WithCancel(v.ctx)
	for _, t := range list {
		s := &service{Service: t, sup: v, kick: make(chan struct{}, 1), changed: make(chan struct{})}
		var line func(string)
		if o.Mirror != nil {
			line = func(text string) { o.Mirror(t.Name, text) }
		}
		log, err := OpenLog(o.LogDir, t.Name, line, v.printf, v.guard)
		if err != nil {
			v.printf("service %s: its output is not kept: %v", t.Name, err)
		}
		s.log = log
		v.services = append(v.services, s)
	}
	if o.Status != "" {
		v.touch()
		v.wg.Add(1)
		go func() {
			defer v.wg.Done()
			defer v.guard("report of the services")
			v.report(o.Status)
		}()
	}
	return v
}

// Start begins the life of the named service, unless it has begun.
func (v *Supervisor) Start(name string) {
	s := v.byName(name)
	if s == nil || !s.begins() {
		return
	}
	v.wg.Add(1)
	go func() {
		defer v.wg.Done()
		defer v.guard("service " + name)
		s.life(v.ctx)
	}()
}

// WaitReady waits until the named service is ready; false if it has ended for
// good or ctx ended first.
func (v *Supervisor) WaitReady(ctx context.Context, name string) bool {
	s := v.byName(name)
	if s == nil || !s.wait(ctx, func(st State) bool { return st == Ready || st == Done || st == Ended }) {
		return false
	}
	st, _ := s.get()
	return st != Ended
}

func (v *Supervisor) byName(name string) *service {
	for _, s := range v.services {
		if s.Name == name {
			return s
		}
	}
	return nil
}

func (v *Supervisor) byRole(role string) *service {
	for _, s := range v.services {
		if s.Role == role {
			return s
		}
	}
	return nil
}

// Pid is the pid of the service with a role, or 0 if it does not run.
func (v *Supervisor) Pid(role string) int {
	s := v.byRole(role)
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return 0
	}
	select {
	case <-s.proc.Done():
		return 0 // reaped, if not yet noticed
	default:
		return s.proc.Pid
	}
}

// RoleEnded waits until the service with a role has no process and will get
// none, or ctx ends.
func (v *Supervisor) RoleEnded(ctx context.Context, role string) bool {
	s := v.byRole(role)
	return s == nil || s.wait(ctx, func(st State) bool { return st == Done || st == Ended })
}

// State is the state of the service with a role; Ended if no service has it.
func (v *Supervisor) State(role string) State {
	s := v.byRole(role)
	if s == nil {
		return Ended
	}
	st, _ := s.get()
	return st
}

// States tells of each service, for the console.
func (v *Supervisor) States() []string {
	var out []string
	for _, s := range v.services {
		s.mu.Lock()
		text := fmt.Sprintf("%s: %s", s.Name, s.state)
		if s.proc != nil {
			text += fmt.Sprintf(", pid %d", s.proc.Pid)
		}
		if s.deaths > 0 {
			text += fmt.Sprintf(", died %d times", s.deaths)
		}
		s.mu.Unlock()
		out = append(out, text)
	}
	return out
}

// Restart ends the service with a role and starts it again, in the background.
// A service in back-off is started at once. While a restart is under way
// another request adds nothing.
func (v *Supervisor) Restart(role, who string) error {
	s := v.byRole(role)
	if s == nil {
		return fmt.Errorf("restart asked for by %s: no service of this node is the %s", who, role)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.final:
		return fmt.Errorf("restart of %s asked for by %s: the node shuts down", s.Name, who)
	case s.asked:
		v.printf("service %s: restart asked for by %s: one is under way already", s.Name, who)
		return nil
	case s.state == BackOff:
		v.printf("service %s: restart asked for by %s: back-off cut short", s.Name, who)
		s.wake()
		return nil
	case s.proc == nil:
		v.printf("service %s: restart asked for by %s: is about to start anyway", s.Name, who)
		return nil
	}
	s.asked = true
	v.wg.Add(1)
	go func() {
		defer v.wg.Done()
		defer v.guard("restart of " + s.Name)
		s.stop(v.ctx, "restart asked for by "+who)
	}()
	return nil
}

func (s *service) wake() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

func grace(seconds int) time.Duration { return time.Duration(seconds) * time.Second }

// NoMoreRestarts is the beginning of a shutdown: what dies from now on stays
// dead. Only a kubelet in back-off is started once more, at once, because it
// alone can end its pods by their own grace. What somebody has stopped goes on:
// the kubelet needs the runtime, and PID 1 needs both.
func (v *Supervisor) NoMoreRestarts() {
	v.settled()
	for _, s := range v.services {
		s.mu.Lock()
		s.final = true
		s.once = s.state == BackOff && s.Role == table.RoleKubelet
		p := s.proc
		s.mu.Unlock()
		if p != nil {
			s.goOn(p)
		}
		s.wake()
	}
}

// Alive says whether the service with a role has a process or is about to get
// one: in a shutdown, whether it can still be waited for.
func (v *Supervisor) Alive(role string) bool {
	s := v.byRole(role)
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc != nil || s.once
}

// Age is how long the process of the service with a role has run; 0 without one.
func (v *Supervisor) Age(role string) time.Duration {
	s := v.byRole(role)
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return 0
	}
	return time.Since(s.started)
}

// Close ends everything that is left, and the logs. It is for the end of a
// shutdown, after the services were stopped, and has a ceiling of its own.
func (v *Supervisor) Close() error {
	v.cancel()
	for _, s := range v.services {
		s.mu.Lock()
		p := s.proc
		s.final, s.once = true, false
		s.mu.Unlock()
		if p != nil {
			_ = p.Signal(unix.SIGKILL)
		}
	}
	done := make(chan struct{})
	go func() { v.wg.Wait(); close(done) }()
	t := time.NewTimer(killWait)
	defer t.Stop()
	var err error
	select {
	case <-done:
	case <-t.C:
		err = errors.New("services: a process does not die")
	}
	errs := make([]error, len(v.services)+1) // at once: each may wait for a disk that does not answer
	errs[len(v.services)] = err
	var closing sync.WaitGroup
	for i, s := range v.services {
		if s.log != nil {
			closing.Go(func() { errs[i] = s.log.Close() })
		}
	}
	closing.Wait()
	return errors.Join(errs...)
}
