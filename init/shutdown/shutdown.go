// Package shutdown ends the node. There is one way down, whoever asked for it:
//
//	event -> the kubelet ends its pods (or, without a kubelet, PID 1 gives them
//	SIGTERM and a stated grace) -> kubelet, other services, runtime end by their
//	grace -> SIGTERM to all that is left, SIGKILL -> sync -> unmount -> power
//	off or reboot.
//
// Every wait says on the console what it waits for and how long it may take. A
// second request some seconds after the first makes all waits short. There is a
// ceiling over everything.
package shutdown

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
)

// Config is what a Sequence works with.
type Config struct {
	Printf   func(format string, args ...any)
	Boot     Boot        // may be nil
	Lock     func() Lock // nil result: there is no system socket (yet)
	Services func() Services
	Pods     Pods
	Machine  Machine
	Limits   Limits
}

// Sequence is the one way down. Make one with New and start its Run.
type Sequence struct {
	Config
	first   chan Request
	hurry   context.Context
	hurryUp context.CancelFunc

	mu      sync.Mutex
	begun   time.Time // zero: not asked for
	unclean []string
}

// New prepares a sequence.
func New(c Config) *Sequence {
	s := &Sequence{Config: c, first: make(chan Request, 1)}
	s.hurry, s.hurryUp = context.WithCancel(context.Background())
	return s
}

// Ask asks for the end. It never blocks and may be called from anywhere, again and again.
func (s *Sequence) Ask(r Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Fault != "" {
		s.unclean = append(s.unclean, r.Fault)
	}
	if s.begun.IsZero() {
		s.begun = time.Now()
		s.Printf("shutdown requested by %s: %s", r.Who, r.Mode)
		s.first <- r
		return
	}
	if since := time.Since(s.begun); r.Now || since >= s.Limits.Again {
		if s.hurry.Err() == nil {
			s.Printf("shutdown requested again by %s: what is left gets %s at most", r.Who, s.Limits.Hurry)
		}
		s.hurryUp()
		return
	}
	s.Printf("shutdown requested by %s too: under way already; ask again in %s to hurry", r.Who, s.Limits.Again)
}

// Begun says whether the node goes down.
func (s *Sequence) Begun() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.begun.IsZero()
}

// Ceiling is how long the way down may take at most.
func (s *Sequence) Ceiling() time.Duration { return s.Limits.Total(s.grace()) }

// Clean says whether nothing has gone wrong so far.
func (s *Sequence) Clean() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.unclean) == 0
}

// Run waits for the first request and carries it out. It returns only if the
// kernel refuses to end.
func (s *Sequence) Run() {
	r := <-s.first
	grace := s.grace()
	total := s.Limits.Total(grace)
	expired, cancel := context.WithTimeout(context.Background(), total)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer s.guard()
		s.down(expired, r, grace)
	}()
	select {
	case <-done:
	case <-expired.Done():
		s.blame("the whole took longer than %s", total)
	}
	s.mu.Lock()
	doubtful := len(s.unclean) > 0
	s.mu.Unlock()
	if doubtful { // a process that does not die may have a file system of its own mounted
		s.bounded("making everything read-only", s.Limits.ReadOnly, s.Machine.ReadOnly)
	}
	// Once more even after a panic above: what is written stays written.
	s.bounded("the last sync", s.Limits.Sync, s.Machine.Sync)
	s.mu.Lock()
	reasons := strings.Join(s.unclean, "; ")
	s.mu.Unlock()
	if reasons == "" {
		s.Printf("shutdown: clean")
	} else {
		s.Printf("shutdown: unclean: %s", reasons)
	}
	s.Printf("%s", r.Mode)
	s.Machine.Flush(2 * time.Second)
	s.Machine.End(r.Mode)
	s.Printf("the kernel refuses the %s; the machine can be switched off", r.Mode)
}

func (s *Sequence) guard() {
	if v := recover(); v != nil {
		s.blame("panic during the shutdown: %v", v)
	}
}

func (s *Sequence) blame(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unclean = append(s.unclean, fmt.Sprintf(format, args...))
}

// grace is how long the kubelet may take.
func (s *Sequence) grace() time.Duration {
	g, err := s.Machine.Grace()
	if err != nil {
		return s.Limits.KubeletDefault
	}
	return g
}

// wait is a context that ends after d, or Hurry after somebody hurries.
func (s *Sequence) wait(d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	stop := context.AfterFunc(s.hurry, func() {
		t := time.NewTimer(s.Limits.Hurry)
		defer t.Stop()
		select {
		case <-t.C:
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() { stop(); cancel() }
}

// down is the story, top to bottom. A panic in one step is not the end of the
// others: what is on the disks has to be complete all the same.
func (s *Sequence) down(expired context.Context, r Request, grace time.Duration) {
	s.safely(func() { s.bootEnds(r.Now) })
	services := s.Services()
	s.safely(services.NoMoreRestarts)
	if !r.Now {
		s.safely(func() { s.podsEnd(services, grace) })
		s.safely(func() { s.servicesEnd(services) })
		s.safely(s.everythingEnds)
	} else {
		s.safely(s.everythingIsKilled)
	}
	s.safely(s.drain)
	s.safely(func() {
		if err := services.Close(); err != nil {
			s.Printf("shutdown: %v", err)
		}
	})
	s.safely(s.Machine.CloseAll)
	s.bounded("sync", s.Limits.Sync, s.Machine.Sync)
	s.safely(func() {
		ctx, cancel := context.WithTimeout(expired, s.Limits.Unmount)
		defer cancel()
		for _, reason := range s.Machine.Unmount(ctx.Done()) {
			s.blame("%s", reason)
		}
	})
}

func (s *Sequence) safely(f func()) {
	defer s.guard()
	f()
}

// bootEnds stops a boot that is not over: what a phase makes after the steps
// below have looked, nobody would end.
func (s *Sequence) bootEnds(now bool) {
	if s.Boot == nil {
		return
	}
	s.Boot.Stop()
	if s.Boot.Wait(expiredNow()) {
		return
	}
	limit := s.Limits.Boot
	if now {
		limit = s.Limits.Hurry
	}
	s.Printf("shutdown: the boot is not over: waiting for %s, at most %s", s.Boot.Running(), limit)
	ctx, cancel := s.wait(limit)
	defer cancel()
	if !s.Boot.Wait(ctx) {
		s.Printf("shutdown: %s does not end, left behind", s.Boot.Running())
	}
}

// podsEnd lets the kubelet end its pods; without one PID 1 does it.
func (s *Sequence) podsEnd(services Services, grace time.Duration) {
	outcome := NoHolder
	if lock := s.Lock(); lock != nil {
		lock.Begin()
		outcome = s.kubelet(lock, services, grace)
	}
	young := services.KubeletAge() < s.Limits.KubeletSettled
	// A kubelet that is not done would start again what PID 1 ends.
	ctx, cancel := s.wait(s.Limits.Services)
	services.StopKubelet(ctx)
	cancel()
	if !s.Pods.Left() {
		s.drain()
		return
	}
	limit, why := s.Limits.Pods, "no kubelet ends the pods"
	switch outcome {
	case TimedOut:
		limit = s.Limits.PodsLate
	case Continued:
		// A container that was being made when the runtime was restarted, for one:
		// the kubelet gives up on it, and the runtime would hang on it when it stops.
		limit, why = s.Limits.PodsLate, "the kubelet is done, but has left something"
		if young { // one that was started a moment ago knows nothing yet of the pods that run, and ends none
			limit, why = s.Limits.Pods, "the kubelet is done, but may not have known all pods yet"
		}
	}
	n := s.Pods.Signal(false)
	s.Printf("shutdown: %s: SIGTERM to %d processes of containers, at most %s", why, n, limit)
	ctx, cancel = s.wait(limit)
	defer cancel()
	if !s.Pods.WaitGone(ctx) {
		n := s.Pods.Signal(true)
		if outcome == Continued { // these had all the grace that they were to have
			s.Printf("shutdown: SIGKILL to %d processes of containers", n)
		} else {
			s.blame("%d processes of containers did not end within %s of SIGTERM", n, limit)
		}
		kctx, kcancel := s.wait(s.Limits.Kill)
		s.Pods.WaitGone(kctx)
		kcancel()
	}
	s.drain()
}

// kubelet waits for the kubelet's lock, if it can have one.
func (s *Sequence) kubelet(lock Lock, services Services, grace time.Duration) Outcome {
	if !services.KubeletAlive() {
		return NoHolder
	}
	limit := s.Limits.KubeletStart
	age := services.KubeletAge()
	if age >= s.Limits.KubeletSettled {
		limit = s.Limits.KubeletAgain
	}
	ctx, cancel := s.wait(limit)
	// It may die instead of connecting; then nobody waits any longer.
	alive, dead := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		defer s.guard()
		services.WaitKubeletDead(alive)
		dead()
	}()
	held := lock.WaitHolder(expiredNow())
	if !held {
		s.Printf("shutdown: the kubelet is not connected: waiting for it, at most %s", limit)
		if limit != s.Limits.KubeletStart {
			s.Printf("shutdown: it has run for %s without a word: is its shutdownGracePeriod 0?", age.Round(time.Second))
		}
		held = lock.WaitHolder(alive)
	}
	dead()
	<-watched
	cancel()
	if !held {
		s.Printf("shutdown: the kubelet did not connect")
		return NoHolder
	}
	limit = grace + s.Limits.KubeletMargin
	s.Printf("shutdown: waiting for the kubelet to end its pods, at most %s", limit)
	began := time.Now()
	ctx, cancel = s.wait(limit)
	defer cancel()
	outcome := lock.Wait(ctx)
	took := time.Since(began).Round(10 * time.Millisecond)
	switch outcome {
	case Continued:
		s.Printf("shutdown: the kubelet is done, %s", took)
	case TimedOut:
		s.blame("the kubelet did not end its pods within %s", took)
	default:
		s.Printf("shutdown: the kubelet has gone without having finished, %s", took)
	}
	return outcome
}

// expiredNow is a context for a look without a wait.
func expiredNow() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func (s *Sequence) servicesEnd(services Services) {
	for _, stop := range []func(context.Context) bool{services.StopOthers, services.StopRuntime} {
		ctx, cancel := s.wait(s.Limits.Services)
		if stop(ctx) {
			s.blame("a service had to be killed")
		}
		cancel()
	}
}

func (s *Sequence) everythingIsKilled() {
	s.Machine.KillAll(true)
	ctx, cancel := s.wait(s.Limits.Kill)
	defer cancel()
	if !s.Machine.WaitAlone(ctx) {
		s.blame("SIGKILL does not end %s", s.Machine.Survivors())
	}
}

func (s *Sequence) everythingEnds() {
	// Most often nobody is left, and that is seen without any signal.
	if s.Machine.WaitAlone(expiredNow()) {
		return
	}
	for _, step := range []struct {
		kill  bool
		name  string
		limit time.Duration
	}{{false, "SIGTERM", s.Limits.Term}, {true, "SIGKILL", s.Limits.Kill}} {
		s.Printf("shutdown: %s to all that is left, at most %s: %s", step.name, step.limit, s.Machine.Survivors())
		s.Machine.KillAll(step.kill)
		ctx, cancel := s.wait(step.limit)
		alone := s.Machine.WaitAlone(ctx)
		cancel()
		if alone {
			return
		}
	}
	s.blame("SIGKILL does not end %s", s.Machine.Survivors())
}

func (s *Sequence) drain() {
	ctx, cancel := s.wait(s.Limits.Drain)
	defer cancel()
	s.Machine.DrainLogs(ctx)
}

// bounded calls f, which may hang in the kernel; then it is left behind.
func (s *Sequence) bounded(what string, d time.Duration, f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer s.guard()
		f()
	}()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
		s.blame("%s did not end within %s", what, d)
	}
}
