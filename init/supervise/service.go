package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"garboard.local/init/launch"
	"garboard.local/init/table"
)

// What a service gets unless its own environment says otherwise.
const (
	defaultPath = "PATH=/usr/sbin:/usr/bin:/sbin:/bin"
	defaultHome = "HOME=/root"
)

// Back-off between a service's death and its next start: 1s, 2s, 4s ... 30s,
// and 1s again after it has run for stable.
const (
	backoffFirst = time.Second
	backoffMax   = 30 * time.Second
	stable       = 60 * time.Second
)

// Timing is the back-off; tests make it short.
type Timing struct{ First, Max, Stable time.Duration }

// State is where a service is in its life.
type State int

// The states of a service.
const (
	Waiting  State = iota // for what it comes after, or not begun
	Starting              // runs, not ready yet
	Ready                 // runs and is ready
	BackOff               // has died and waits to be started again
	Done                  // a task that has succeeded
	Ended                 // will not be started again
)

func (s State) String() string {
	return [...]string{table.StateWaiting, table.StateStarting, table.StateReady, table.StateBackOff, table.StateDone, table.StateEnded}[s]
}

// service is one entry of the table and its life. Its goroutine is life().
type service struct {
	table.Service
	sup *Supervisor
	log *Log

	kick chan struct{} // ends a back-off early; holds one

	mu      sync.Mutex
	state   State
	changed chan struct{} // closed and replaced with each change of state
	proc    *Process
	up      bool               // proc has started: its postStart hook and its startup probe have succeeded
	ending  *ending            // proc is being ended
	unhook  context.CancelFunc // ends its postStart hook, while that runs
	blame   []string           // why PID 1 ends proc, and its hooks that failed
	lives   bool               // life() was begun
	started time.Time          // of proc
	starts  int                // since boot
	last    *table.ServiceExit // of the run before
	earlier *table.ServiceExit // of the one before that
	failure string             // why the last start failed
	deaths  int                // that nobody asked for, since boot
	asked   bool               // the next exit was asked for: no back-off; another request adds nothing
	final   bool               // the node shuts down: not to be started again ...
	once    bool               // ... but for this one time
}

func (s *service) set(st State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = st
	close(s.changed)
	s.changed = make(chan struct{})
	s.sup.touch()
}

func (s *service) get() (State, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state, s.changed
}

// wait waits until the state satisfies ok; false if ctx ended first.
func (s *service) wait(ctx context.Context, ok func(State) bool) bool {
	for {
		st, ch := s.get()
		if ok(st) {
			return true
		}
		select {
		case <-ch:
		case <-ctx.Done():
			return false
		}
	}
}

// life starts the service again and again until it has ended for good.
func (s *service) life(ctx context.Context) {
	last := Ended
	defer func() { s.set(last); s.sup.podEnds(s) }()
	if !s.waitRequired(ctx) {
		return
	}
	s.waitAfter()
	delay := s.sup.timing.First
	row := 0 // deaths without a stable time between them
	for ctx.Err() == nil {
		began := time.Now()
		how, asked := s.run(ctx)
		switch {
		case s.isFinal() || ctx.Err() != nil:
			s.sup.printf("service %s: ended: %s", s.Name, how)
			return
		case s.Once && how.ok:
			s.sup.printf("service %s: done", s.Name)
			last = Done
			return
		case asked:
			s.sup.printf("service %s: ended as asked: %s", s.Name, how)
			delay = s.sup.timing.First
			continue // at once
		case s.Restart == table.RestartNever, s.Restart == table.RestartOnFailure && how.ok:
			s.sup.printf("service %s: exited: %s", s.Name, how)
			return
		}
		if time.Since(began) >= s.sup.timing.Stable {
			delay, row = s.sup.timing.First, 0
		}
		row++
		n := s.died()
		select {
		case <-s.kick: // meant for an earlier back-off
		default:
		}
		s.set(BackOff)
		s.sup.printf("service %s: exited: %s, restart in %s%s", s.Name, how, delay, times(n))
		s.lastWords(row)
		if !s.isFinal() { // else nobody ends the back-off early any more
			s.pause(ctx, delay)
		}
		delay = min(2*delay, s.sup.timing.Max)
	}
}

// died counts a death and returns how many there were since boot.
func (s *service) died() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deaths++
	return s.deaths
}

func times(n int) string {
	if n < 2 {
		return ""
	}
	return fmt.Sprintf(", %d times since boot", n)
}

const (
	talkative = 3  // deaths in a row whose last words the console shows
	seldom    = 10 // ... and of later ones each so manieth
)

// lastWords shows the last lines of a service that died. One that dies again
// and again says the same each time; the file has it all.
func (s *service) lastWords(row int) {
	if s.log == nil {
		return
	}
	tail := s.log.Tail()
	if row > talkative && row%seldom != 0 {
		if row == talkative+1 {
			s.sup.printf("service %s: its last lines are shown every %dth time from now on; see %s", s.Name, seldom, s.log.path)
		}
		return
	}
	for _, line := range tail {
		s.sup.printf("service %s: said: %s", s.Name, line)
	}
}

func (s *service) pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.kick:
	case <-ctx.Done():
	}
}

func (s *service) isFinal() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.final && !s.once
}

// waitAfter waits for the services this one comes after, within its limit.
func (s *service) waitAfter() {
	if len(s.After) == 0 || s.WaitSeconds <= 0 {
		return
	}
	wctx, cancel := context.WithTimeout(s.sup.starting, time.Duration(s.WaitSeconds)*time.Second)
	defer cancel()
	for _, name := range s.After {
		o := s.sup.byName(name)
		if o == nil {
			continue
		}
		if !o.wait(wctx, func(st State) bool { return st == Ready || st == Done || st == Ended }) && s.sup.starting.Err() == nil {
			s.sup.printf("service %s: %s is not ready after %ds, started anyway", s.Name, name, s.WaitSeconds)
		}
	}
}

// waitRequired waits for the tasks that this service requires, for as long as
// they are tried, and for sidecars to have started; false if one has failed for
// good or the node shuts down.
func (s *service) waitRequired(ctx context.Context) bool {
	for _, name := range s.Requires {
		o := s.sup.byName(name)
		if o == nil {
			continue // a checked table has it
		}
		var met bool
		over := o.wait(s.sup.starting, func(st State) bool {
			met = st == Done || o.Sidecar && o.isUp()
			return met || st == Ended
		})
		if !over || ctx.Err() != nil {
			return false
		}
		if !met {
			s.sup.printf("service %s: not started: it requires %s, which has failed", s.Name, name)
			return false
		}
	}
	return true
}

// exit is how a run ended.
type exit struct {
	text string
	ok   bool
}

func (e exit) String() string { return e.text }

// run is one run of the service, from start to death.
func (s *service) run(ctx context.Context) (exit, bool) {
	began := time.Now()
	p, err := s.start()
	if err != nil {
		s.mu.Lock()
		s.failure = err.Error()
		s.mu.Unlock()
		return exit{text: err.Error()}, false
	}
	s.sup.printf("service %s: started, pid %d", s.Name, p.Pid)
	s.set(Starting)
	rctx, cancel := context.WithCancel(ctx)
	probed := make(chan struct{})
	go func() {
		defer close(probed)
		defer s.sup.guard("probes of " + s.Name)
		s.attend(rctx, p, began)
	}()
	<-p.Done()
	cancel()
	<-probed
	ws := p.Status()
	s.mu.Lock()
	asked := s.asked
	s.asked, s.proc, s.last, s.earlier = false, nil, exited(ws, s.started), s.last
	s.last.Message = strings.Join(s.blame, "; ")
	s.up, s.ending, s.blame = false, nil, nil
	s.mu.Unlock()
	s.set(Waiting)
	return exit{Describe(ws), ws.Exited() && ws.ExitStatus() == 0}, asked
}

// spec says how to start a program as the service's own is: by its user, with its
// capabilities, limits, environment and mounts. Its group is the caller's to choose.
func (s *service) spec(command []string) (Spec, error) {
	env := slices.Clone(s.Env)
	defaults := []string{defaultPath, defaultHome}
	if name, err := os.Hostname(); err == nil {
		defaults = append(defaults, "HOSTNAME="+name) // what every container has
	}
	for _, d := range defaults {
		name, _, _ := strings.Cut(d, "=")
		if !slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, name+"=") }) {
			env = append(env, d)
		}
	}
	spec := Spec{Argv: command, Env: env, Dir: s.Dir, Output: -1, Cgroup: -1}
	if launch.Needed(&s.Service) {
		as := s.Service
		as.Command = command
		argv, err := launch.Argv(&as)
		if err != nil {
			return spec, err
		}
		spec.Argv, spec.Path = argv, self
		if len(s.Mounts) > 0 || s.Root != nil {
			spec.Dir = "" // it may be in one of them, or in the root
		}
	}
	if s.log != nil {
		spec.Output = s.log.write
	}
	return spec, nil
}

// score tells the kernel how willingly it may kill a process when memory runs out.
func (s *service) score(p *Process) {
	if s.OOMScoreAdj == 0 {
		return
	}
	f := s.sup.root + "/proc/" + strconv.Itoa(p.Pid) + "/oom_score_adj"
	if err := os.WriteFile(f, []byte(strconv.Itoa(s.OOMScoreAdj)), 0o644); err != nil {
		s.sup.printf("service %s: oom_score_adj: %v", s.Name, err)
	}
}

func (s *service) start() (*Process, error) {
	spec, err := s.spec(s.Command)
	if err != nil {
		return nil, err
	}
	if s.sup.cgroup != nil {
		d, err := s.sup.cgroup(s.Name)
		if err != nil {
			return nil, fmt.Errorf("cgroup: %w", err)
		}
		defer d.Close()
		spec.Cgroup = int(d.Fd())
	}
	// The lock is held over the start: who asks for the pid meanwhile (the
	// system socket, for a kubelet that connects at once) gets the new one.
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.final && !s.once {
		return nil, errors.New("not started any more: it is to end")
	}
	s.once = false
	p, err := s.sup.reaper.Start(spec)
	if err != nil {
		return nil, err
	}
	s.proc, s.started, s.failure = p, time.Now(), ""
	s.starts++
	s.score(p)
	return p, nil
}

// self is this program, which launches services too.
const self = "/proc/self/exe"
