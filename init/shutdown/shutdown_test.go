package shutdown

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// node is a whole node made of switches. Time is synctest's.
type node struct {
	alive     bool          // the kubelet
	connects  time.Duration // after this long; 0 = is connected, <0 = never
	ends      time.Duration // the kubelet is done after this long; <0 = never
	outcome   Outcome
	dies      time.Duration // a kubelet that dies instead of connecting
	grace     time.Duration
	pods      time.Duration // containers end this long after SIGTERM; <0 = never; 0 = none there
	left      bool
	forgets   bool // the kubelet is done although something is left
	stubborn  bool // something ignores SIGTERM at the end
	immortal  bool // and SIGKILL
	hungSync  bool
	crioKill  bool
	unmounted []string
	panics    bool
	age       time.Duration // of the kubelet's process
	phases    time.Duration // the boot's running phase ends this long after it was told to stop; <0 = never
	stopped   time.Time

	mu     *sync.Mutex // of log and of the console's lines
	log    []string
	termed time.Time
	killed bool
	ended  *Mode
	began  time.Time
}

func (n *node) say(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.log = append(n.log, fmt.Sprintf(format, args...))
}

func (n *node) Stop() { n.stopped = time.Now() }
func (n *node) Running() string {
	return "phase network"
}
func (n *node) bootOver(ctx context.Context) bool {
	if n.phases == 0 {
		return true
	}
	if n.phases < 0 || ctx.Err() != nil {
		<-ctx.Done()
		return false
	}
	select {
	case <-time.After(n.phases - time.Since(n.stopped)):
		return true
	case <-ctx.Done():
		return false
	}
}

// boot is n as Boot, whose Wait has another meaning.
type boot struct{ *node }

func (b boot) Wait(ctx context.Context) bool { return b.bootOver(ctx) }

func (n *node) KubeletAge() time.Duration { return n.age }
func (n *node) Survivors() string         { return "7 (dd, D)" }
func (n *node) ReadOnly()                 { n.say("read-only") }

func (n *node) Begin() { n.say("event") }
func (n *node) WaitHolder(ctx context.Context) bool {
	if n.connects == 0 {
		return true
	}
	if n.connects < 0 {
		<-ctx.Done()
		return false
	}
	select {
	case <-time.After(n.connects - time.Since(n.began)):
		return true
	case <-ctx.Done():
		return false
	}
}
func (n *node) Wait(ctx context.Context) Outcome {
	if n.ends < 0 {
		<-ctx.Done()
		return TimedOut
	}
	select {
	case <-time.After(n.ends):
		n.left = n.left && (n.outcome != Continued || n.forgets)
		return n.outcome
	case <-ctx.Done():
		return TimedOut
	}
}
func (n *node) NoMoreRestarts()    { n.say("no restarts") }
func (n *node) KubeletAlive() bool { return n.alive }
func (n *node) WaitKubeletDead(ctx context.Context) {
	if n.dies == 0 {
		<-ctx.Done()
		return
	}
	select {
	case <-time.After(n.dies):
	case <-ctx.Done():
	}
}
func (n *node) StopKubelet(context.Context) bool { n.say("stop kubelet"); return false }
func (n *node) StopOthers(context.Context) bool  { n.say("stop others"); return false }
func (n *node) StopRuntime(context.Context) bool { n.say("stop runtime"); return n.crioKill }
func (n *node) Close() error                     { n.say("close services"); return nil }
func (n *node) Left() bool                       { return n.left }
func (n *node) Signal(kill bool) int {
	n.say("pods signal kill=%v", kill)
	n.termed = time.Now()
	return 1
}
func (n *node) WaitGone(ctx context.Context) bool {
	if n.pods < 0 {
		<-ctx.Done()
		return false
	}
	select {
	case <-time.After(n.pods):
		n.left = false
		return true
	case <-ctx.Done():
		return false
	}
}
func (n *node) Grace() (time.Duration, error) {
	if n.grace == 0 {
		return 0, errors.New("no file")
	}
	return n.grace, nil
}
func (n *node) KillAll(kill bool) { n.say("kill all kill=%v", kill); n.killed = kill }
func (n *node) WaitAlone(ctx context.Context) bool {
	if n.immortal || (n.stubborn && !n.killed) {
		<-ctx.Done()
		return false
	}
	return true
}
func (n *node) DrainLogs(context.Context) { n.say("drain") }
func (n *node) CloseAll() {
	n.say("close all")
	if n.panics {
		panic("boom")
	}
}
func (n *node) Sync() {
	if n.hungSync {
		time.Sleep(time.Hour)
	}
	n.say("sync")
}
func (n *node) Unmount(<-chan struct{}) []string { n.say("unmount"); return n.unmounted }
func (n *node) Flush(time.Duration)              {}
func (n *node) End(m Mode)                       { n.ended = &m; n.say("end %s", m) }

func (n *node) sequence(lines *[]string) *Sequence {
	n.mu = new(sync.Mutex)
	return New(Config{
		Printf: func(format string, args ...any) {
			n.mu.Lock()
			defer n.mu.Unlock()
			*lines = append(*lines, fmt.Sprintf(format, args...))
		},
		Boot: boot{n}, Lock: func() Lock { return n }, Services: func() Services { return n }, Pods: n, Machine: n, Limits: DefaultLimits(),
	})
}

func TestShutdown(t *testing.T) {
	for _, tt := range []struct {
		name    string
		n       node
		req     Request
		again   time.Duration // a second request after this long
		atLeast time.Duration
		atMost  time.Duration
		last    string // of the console, before the mode
		has     string // somewhere on the console
		steps   string // if set, exactly these
	}{
		{name: "the kubelet ends its pods", n: node{alive: true, ends: 3 * time.Second, outcome: Continued, left: true},
			atLeast: 3 * time.Second, atMost: 4 * time.Second, last: "shutdown: clean",
			steps: "no restarts,event,stop kubelet,drain,stop others,stop runtime,drain,close services,close all,sync,unmount,sync,end power-off"},
		{name: "a kubelet that leaves something", n: node{alive: true, age: time.Hour, ends: time.Second, outcome: Continued, left: true, forgets: true, pods: -1},
			atLeast: 4 * time.Second, atMost: 8 * time.Second, last: "shutdown: clean",
			steps: "no restarts,event,stop kubelet,pods signal kill=false,pods signal kill=true,drain,stop others,stop runtime,drain,close services,close all,sync,unmount,sync,end power-off"},
		{name: "a kubelet that was started a moment ago and knows no pods", n: node{alive: true, age: time.Second, outcome: Continued, left: true, forgets: true, pods: 15 * time.Second},
			atLeast: 15 * time.Second, atMost: 16 * time.Second, last: "shutdown: clean", has: "may not have known all pods yet: SIGTERM to 1 processes of containers, at most 20s"},
		{name: "reboot", n: node{alive: true, outcome: Continued}, req: Request{Mode: Reboot}, last: "shutdown: clean", atMost: time.Second},
		{name: "the kubelet never ends", n: node{alive: true, ends: -1, grace: 30 * time.Second, left: true, pods: time.Second},
			atLeast: 40 * time.Second, atMost: 45 * time.Second, last: "shutdown: unclean: the kubelet did not end its pods within 40s"},
		{name: "no grace file", n: node{alive: true, ends: -1}, atLeast: 50 * time.Second, atMost: 55 * time.Second,
			last: "shutdown: unclean: the kubelet did not end its pods within 50s"},
		{name: "a kubelet that is starting", n: node{alive: true, connects: 4 * time.Second, ends: time.Second, outcome: Continued, left: true},
			atLeast: 5 * time.Second, atMost: 6 * time.Second, last: "shutdown: clean", has: "not connected: waiting for it, at most 10s"},
		{name: "a kubelet that never connects", n: node{alive: true, connects: -1, left: true, pods: time.Second},
			atLeast: 11 * time.Second, atMost: 12 * time.Second, last: "shutdown: clean", has: "no kubelet ends the pods: SIGTERM to 1 processes of containers, at most 20s"},
		{name: "a kubelet that dies before it connects", n: node{alive: true, connects: -1, dies: time.Second, left: true, pods: time.Second},
			atLeast: 2 * time.Second, atMost: 3 * time.Second, last: "shutdown: clean"},
		{name: "a kubelet that dies while it ends pods", n: node{alive: true, ends: time.Second, outcome: Closed, left: true, pods: time.Second},
			atLeast: 2 * time.Second, atMost: 3 * time.Second, last: "shutdown: clean", has: "without having finished"},
		{name: "no kubelet, pods end", n: node{left: true, pods: 3 * time.Second},
			atLeast: 3 * time.Second, atMost: 4 * time.Second, last: "shutdown: clean",
			steps: "no restarts,event,stop kubelet,pods signal kill=false,drain,stop others,stop runtime,drain,close services,close all,sync,unmount,sync,end power-off"},
		{name: "no kubelet, pods do not end", n: node{left: true, pods: -1}, atLeast: 20 * time.Second, atMost: 25 * time.Second,
			last: "shutdown: unclean: 1 processes of containers did not end within 20s of SIGTERM"},
		{name: "a kubelet without a shutdown manager", n: node{alive: true, age: time.Hour, connects: -1, left: true, pods: time.Second},
			atLeast: 3 * time.Second, atMost: 4 * time.Second, last: "shutdown: clean", has: "has run for 1h0m0s without a word: is its shutdownGracePeriod 0?"},
		{name: "an old kubelet that connects again", n: node{alive: true, age: time.Hour, connects: time.Second, ends: time.Second, outcome: Continued, left: true},
			atLeast: 2 * time.Second, atMost: 3 * time.Second, last: "shutdown: clean"},
		{name: "amid the boot", n: node{phases: 3 * time.Second}, atLeast: 3 * time.Second, atMost: 4 * time.Second, last: "shutdown: clean",
			has: "the boot is not over: waiting for phase network, at most 5s"},
		{name: "a phase that hangs", n: node{phases: -1}, atLeast: 5 * time.Second, atMost: 6 * time.Second, last: "shutdown: clean",
			has: "phase network does not end, left behind"},
		{name: "power off now, amid the boot", n: node{phases: -1}, req: Request{Now: true}, atLeast: 2 * time.Second, atMost: 3 * time.Second, last: "shutdown: clean"},
		{name: "hurry amid the boot", n: node{phases: -1, alive: true, connects: -1, left: true, pods: -1}, again: 4 * time.Second,
			atLeast: 5 * time.Second, atMost: 15 * time.Second, last: "shutdown: unclean: 1 processes of containers did not end within 20s of SIGTERM"},
		{name: "power off now", n: node{alive: true, ends: -1, left: true, pods: -1}, req: Request{Now: true}, atMost: time.Second, last: "shutdown: clean",
			steps: "no restarts,kill all kill=true,drain,close services,close all,sync,unmount,sync,end power-off"},
		{name: "something ignores SIGTERM", n: node{stubborn: true}, atLeast: 5 * time.Second, atMost: 6 * time.Second,
			last: "shutdown: clean", has: "SIGKILL to all that is left, at most 3s"},
		{name: "something does not die", n: node{immortal: true}, atMost: 10 * time.Second, last: "shutdown: unclean: SIGKILL does not end 7 (dd, D)",
			steps: "no restarts,event,stop kubelet,drain,stop others,stop runtime,kill all kill=false,kill all kill=true,drain,close services,close all,sync,unmount,read-only,sync,end power-off"},
		{name: "a second request hurries", n: node{alive: true, ends: -1, left: true, pods: -1}, again: 5 * time.Second,
			atLeast: 7 * time.Second, atMost: 15 * time.Second, last: "shutdown: unclean: the kubelet did not end its pods within 7s; 1 processes of containers did not end within 3s of SIGTERM"},
		{name: "an echo does not hurry", n: node{alive: true, ends: 10 * time.Second, outcome: Continued}, again: time.Second,
			atLeast: 10 * time.Second, atMost: 11 * time.Second, last: "shutdown: clean", has: "too: under way already"},
		{name: "sync hangs", n: node{hungSync: true}, atLeast: 20 * time.Second, atMost: 21 * time.Second,
			last: "shutdown: unclean: sync did not end within 10s; the last sync did not end within 10s"},
		{name: "busy disk", n: node{unmounted: []string{"/data is busy"}}, last: "shutdown: unclean: /data is busy", atMost: time.Second},
		{name: "the runtime was killed", n: node{crioKill: true}, last: "shutdown: unclean: a service had to be killed", atMost: time.Second},
		{name: "a fault of PID 1", req: Request{Mode: Reboot, Fault: "panic in network: x"}, last: "shutdown: unclean: panic in network: x", atMost: time.Second},
		{name: "a panic on the way down", n: node{panics: true}, last: "shutdown: unclean: panic during the shutdown: boom", atMost: time.Second,
			steps: "no restarts,event,stop kubelet,drain,stop others,stop runtime,drain,close services,close all,sync,unmount,read-only,sync,end power-off"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := tt.n
				var lines []string
				s := n.sequence(&lines)
				n.began = time.Now()
				tt.req.Who = "a test"
				done := make(chan struct{})
				go func() { s.Run(); close(done) }()
				s.Ask(tt.req)
				if tt.again > 0 {
					time.Sleep(tt.again)
					s.Ask(Request{Who: "another"})
				}
				<-done
				n.mu.Lock() // what hung comes back later
				defer n.mu.Unlock()
				took := time.Since(n.began)
				text := strings.Join(lines, "\n")
				if took < tt.atLeast || took > tt.atMost {
					t.Errorf("took %s, want %s to %s", took, tt.atLeast, tt.atMost)
				}
				if n.ended == nil || *n.ended != tt.req.Mode {
					t.Fatalf("did not end:\n%s", text)
				}
				i := slices.Index(lines, tt.req.Mode.String())
				if i < 1 || lines[i-1] != tt.last {
					t.Errorf("want last line %q in\n%s", tt.last, text)
				}
				if !strings.Contains(text, tt.has) || !strings.Contains(lines[0], "shutdown requested by a test") {
					t.Errorf("want %q in\n%s", tt.has, text)
				}
				if got := strings.Join(n.log, ","); tt.steps != "" && got != tt.steps {
					t.Errorf("steps\n%s, want\n%s", got, tt.steps)
				}
				n.mu.Unlock()
				time.Sleep(3 * time.Hour) // for what hung
				n.mu.Lock()
			})
		})
	}
}

// hung never comes back from a step that has no limit of its own.
type hung struct{ *node }

func (h hung) CloseAll() { time.Sleep(24 * time.Hour) }

func TestTotalCeiling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := node{}
		var lines []string
		s := n.sequence(&lines)
		s.Machine = hung{&n}
		began := time.Now()
		go s.Ask(Request{Who: "a test"})
		s.Run()
		if took := time.Since(began); took > 5*time.Minute {
			t.Errorf("took %s", took)
		}
		n.mu.Lock()
		steps := slices.Clone(n.log)
		n.mu.Unlock()
		if !slices.Contains(steps, "read-only") {
			t.Errorf("the disks are left as they were: %q", steps)
		}
		if text := strings.Join(lines, "\n"); !strings.Contains(text, "unclean: the whole took longer than") {
			t.Error(text)
		}
		time.Sleep(48 * time.Hour)
	})
}

func TestWithoutASocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := node{}
		var lines []string
		s := n.sequence(&lines)
		s.Lock, s.Boot = func() Lock { return nil }, nil
		s.Ask(Request{Who: "a failed boot", Mode: Reboot, Fault: "no root"})
		s.Run()
		if n.ended == nil || *n.ended != Reboot {
			t.Error("did not end")
		}
	})
}
