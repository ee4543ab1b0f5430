package socket

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"
)

// soon is a ceiling that is expected to pass.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// kubelet connects as the kubelet and waits until it is seen as that.
func kubelet(t *testing.T, n *node) *Client {
	t.Helper()
	c := dial(t, n.root)
	if _, ok := n.WaitHolder(within(t)); !ok {
		t.Fatal("the kubelet's connection is no lock")
	}
	return c
}

func TestLockIsReleasedByContinue(t *testing.T) {
	n := start(t, os.Getpid())
	k := kubelet(t, n)
	h := n.BeginShutdown()
	if got := event(t, k); got != "shutdown" {
		t.Fatal(got)
	}
	if got := h.Wait(soon(t)); got != TimedOut {
		t.Errorf("before continue: %v", got)
	}
	for i := 0; i < 2; i++ { // the second says nothing new
		if err := k.Continue(within(t)); err != nil {
			t.Fatal(err)
		}
	}
	if got := h.Wait(within(t)); got != Continued {
		t.Errorf("after continue: %v", got)
	}
	k.Close()
	eventually(t, "the connection is gone", func() bool { return n.open() == 0 })
	if got := h.Wait(within(t)); got != Continued {
		t.Errorf("hanging up afterwards changed it: %v", got)
	}
	if got := n.called.String(); got != "" {
		t.Errorf("handler was called: %s", got)
	}
}

func TestLockIsReleasedByHangingUp(t *testing.T) {
	n := start(t, os.Getpid())
	k := kubelet(t, n)
	h := n.BeginShutdown()
	k.Close()
	if got := h.Wait(within(t)); got != Closed {
		t.Errorf("Wait = %v", got)
	}
}

func TestLockIsReleasedByDeath(t *testing.T) {
	n := start(t, 0)
	cmd := other(t, "hold", n.root)
	n.setKubelet(cmd.Process.Pid)
	if _, ok := n.WaitHolder(within(t)); !ok {
		t.Fatal("no holder")
	}
	h := n.BeginShutdown()
	if got := h.Wait(soon(t)); got != TimedOut {
		t.Errorf("while it lives: %v", got)
	}
	cmd.Process.Kill()
	if got := h.Wait(within(t)); got != Closed {
		t.Errorf("after SIGKILL: %v", got)
	}
}

// The kubelet is dead, but a child of its keeps the connection open: PID 1 has
// reaped the kubelet, and that is enough.
func TestLockDoesNotOutliveTheKubelet(t *testing.T) {
	n := start(t, os.Getpid())
	kubelet(t, n)
	h := n.BeginShutdown()
	n.setKubelet(0)
	if got := h.Wait(within(t)); got != Closed {
		t.Errorf("Wait = %v", got)
	}
}

// Its pid has been given to another process, which is the kubelet now.
func TestLockIsNotInheritedWithThePID(t *testing.T) {
	n := start(t, os.Getpid())
	kubelet(t, n)
	n.Server.lock()
	for c := range n.conns {
		c.start--
	}
	n.Server.mu.Unlock()
	if got := n.BeginShutdown().Wait(within(t)); got != NoHolder {
		t.Errorf("Wait = %v", got)
	}
}

func TestOnlyTheKubeletHoldsTheLock(t *testing.T) {
	n := start(t, 1)
	dial(t, n.root)
	dial(t, n.restart)
	eventually(t, "both are connected", func() bool { return n.open() == 2 })
	if p, ok := n.Holder(); ok {
		t.Errorf("holder: %v", p)
	}
	if got := n.BeginShutdown().Wait(within(t)); got != NoHolder {
		t.Errorf("Wait = %v", got)
	}
}

func TestTheRestartSocketGivesNoLock(t *testing.T) {
	n := start(t, os.Getpid())
	dial(t, n.restart)
	eventually(t, "it is connected", func() bool { return n.open() == 1 })
	if got := n.BeginShutdown().Wait(within(t)); got != NoHolder {
		t.Errorf("Wait = %v", got)
	}
}

// Continue from anyone else neither releases the lock nor powers off.
func TestContinueFromAnotherProcess(t *testing.T) {
	n := start(t, os.Getpid())
	kubelet(t, n)
	h := n.BeginShutdown()
	other(t, "send", n.root, "2")
	if got := h.Wait(soon(t)); got != TimedOut {
		t.Errorf("Wait = %v", got)
	}
	if got := n.called.String(); got != "" {
		t.Errorf("handler was called: %s", got)
	}
	if log := n.logged(); !strings.Contains(log, "ignored: it holds no lock") {
		t.Errorf("log: %s", log)
	}
}

// Locks are one per connection: each is released on its own.
func TestTwoConnectionsAreTwoLocks(t *testing.T) {
	n := start(t, os.Getpid())
	a, b := kubelet(t, n), dial(t, n.root)
	eventually(t, "both are connected", func() bool { return n.open() == 2 })
	h := n.BeginShutdown()
	event(t, a)
	event(t, b)
	a.Continue(within(t))
	if got := h.Wait(soon(t)); got != TimedOut {
		t.Errorf("with one of two: %v", got)
	}
	b.Continue(within(t))
	if got := h.Wait(within(t)); got != Continued {
		t.Errorf("with both: %v", got)
	}
}

// PID 1 waits for a kubelet that is just starting, then for what it has to do.
func TestKubeletThatComesDuringAShutdown(t *testing.T) {
	n := start(t, 0)
	h := n.BeginShutdown()
	if got := h.Wait(within(t)); got != NoHolder {
		t.Fatalf("Wait = %v", got)
	}
	if _, ok := n.WaitHolder(soon(t)); ok {
		t.Fatal("a holder, but nobody is connected")
	}
	// PID 1 may learn the pid a moment after the connection came.
	k := dial(t, n.root)
	if got := event(t, k); got != "shutdown" {
		t.Fatal(got)
	}
	n.setKubelet(os.Getpid())
	p, ok := n.WaitHolder(within(t))
	if !ok || p.PID != os.Getpid() {
		t.Fatalf("WaitHolder = %v, %v", p, ok)
	}
	if got := h.Wait(soon(t)); got != TimedOut {
		t.Errorf("while it works: %v", got)
	}
	k.Continue(within(t))
	if got := h.Wait(within(t)); got != Continued {
		t.Errorf("Wait = %v", got)
	}
}

// PID 1 may learn the kubelet's pid after its connection came and got the event.
func TestContinueOfAKubeletThatWasNotKnownAtConnect(t *testing.T) {
	n := start(t, 0)
	h := n.BeginShutdown()
	k := dial(t, n.root)
	event(t, k)
	n.setKubelet(os.Getpid())
	k.Continue(within(t))
	k.nc.CloseWrite() // the server hangs up once it has read all
	if got := event(t, k); got != "closed" {
		t.Fatal(got)
	}
	if got := h.Wait(within(t)); got != Continued {
		t.Errorf("Wait = %v", got)
	}
}

// One that comes and goes while PID 1 looks elsewhere has still been there.
func TestKubeletThatComesAndGoesDuringAShutdown(t *testing.T) {
	n := start(t, os.Getpid())
	h := n.BeginShutdown()
	k := dial(t, n.root)
	event(t, k)
	k.Close()
	eventually(t, "it is gone", func() bool { return n.open() == 0 })
	if got := h.Wait(within(t)); got != Closed {
		t.Errorf("Wait = %v", got)
	}
}

// A kubelet that lost its connection finds its lock again with a new one.
func TestKubeletThatComesBack(t *testing.T) {
	n := start(t, os.Getpid())
	k := kubelet(t, n)
	h := n.BeginShutdown()
	for i := 0; i < 3; i++ {
		k.Close()
		eventually(t, "it is gone", func() bool { return n.open() == 0 })
		if got := h.Wait(within(t)); got != Closed {
			t.Errorf("round %d: %v", i, got)
		}
		k = kubelet(t, n)
		if got := event(t, k); got != "shutdown" {
			t.Errorf("round %d: %s", i, got)
		}
		if got := h.Wait(soon(t)); got != TimedOut {
			t.Errorf("round %d, back: %v", i, got)
		}
	}
	k.Continue(within(t))
	if got := h.Wait(within(t)); got != Continued {
		t.Errorf("Wait = %v", got)
	}
}

// A shutdown can be asked for before there is a socket at all.
func TestShutdownBeforeListen(t *testing.T) {
	s := &Server{Handler: &called{}}
	defer s.Close()
	h := s.BeginShutdown()
	if got := h.Wait(within(t)); got != NoHolder {
		t.Errorf("Wait = %v", got)
	}
	path := shortDir(t) + "/late"
	if err := s.Listen(Root, path); err != nil {
		t.Fatal(err)
	}
	if got := event(t, dial(t, path)); got != "shutdown" {
		t.Errorf("event: %s", got)
	}
}
