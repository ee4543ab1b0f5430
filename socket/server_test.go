package socket

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// Every byte on each socket, outside a shutdown and during one.
func TestCommands(t *testing.T) {
	tests := []struct {
		cmd                             byte
		root, restart                   string // outside a shutdown
		rootGoingDown, restartGoingDown string
	}{
		{cmd: 0x00},
		{cmd: 0x01, root: "shutdown root", rootGoingDown: "shutdown root"},
		{cmd: 0x02, root: "power-off-now root"},
		{cmd: 0x03, root: "restart-kubelet root", restart: "restart-kubelet restart"},
		{cmd: 0x04, root: "restart-runtime root", restart: "restart-runtime restart"},
		{cmd: 0x05},
		{cmd: 0x0f},
		{cmd: 0x10, root: "reboot root", rootGoingDown: "reboot root"},
		{cmd: 0x11},
		{cmd: '\n'},
		{cmd: 0xff},
	}
	for _, tt := range tests {
		for _, down := range []bool{false, true} {
			for _, which := range []Socket{Root, Restart} {
				t.Run(fmt.Sprintf("0x%02x/%s/goingDown=%v", tt.cmd, which, down), func(t *testing.T) {
					n := start(t, 0)
					want := [2][2]string{{tt.root, tt.restart}, {tt.rootGoingDown, tt.restartGoingDown}}[0][which]
					if down {
						n.BeginShutdown()
						want = [2]string{tt.rootGoingDown, tt.restartGoingDown}[which]
					}
					say(t, [2]string{n.root, n.restart}[which], tt.cmd)
					if got := n.called.String(); got != want {
						t.Errorf("handler got %q, want %q", got, want)
					}
					if want == "" && n.logged() == "" {
						t.Error("ignored without a word in the log")
					}
				})
			}
		}
	}
}

func TestSeveralCommandsInOneWrite(t *testing.T) {
	n := start(t, 0)
	say(t, n.root, 0x03, 0x00, 0x04, 0xee, 0x03, 0x10, 0x01)
	want := "restart-kubelet root, restart-runtime root, restart-kubelet root, reboot root, shutdown root"
	if got := n.called.String(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestRequestTellsWhoAsks(t *testing.T) {
	n := start(t, 0)
	say(t, n.root, byte(Reboot))
	comm, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	want := Request{
		Peer:    Peer{PID: os.Getpid(), UID: os.Getuid(), GID: os.Getgid(), Comm: strings.TrimSpace(string(comm))},
		Socket:  Root,
		Command: Reboot,
	}
	n.called.mu.Lock()
	got := n.called.last
	n.called.mu.Unlock()
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if log := n.logged(); !strings.Contains(log, "reboot from "+want.Peer.String()) {
		t.Errorf("the log does not say who asked: %s", log)
	}
}

// What a client wrote before it died counts once, although it left the event unread.
func TestLastByteOfAClientThatHungUp(t *testing.T) {
	for _, down := range []bool{false, true} {
		n := start(t, 0)
		if down {
			n.BeginShutdown()
		}
		for i := 0; i < 50; i++ {
			c, err := net.Dial("unix", n.root)
			if err != nil {
				t.Fatal(err)
			}
			c.Write([]byte{0x01})
			c.Close()
		}
		served := func() int { return strings.Count(n.called.String(), "shutdown root") }
		eventually(t, "all are served and gone", func() bool { return served() >= 50 && n.open() == 0 })
		if got := served(); got != 50 {
			t.Errorf("goingDown=%v: 50 clients, %d requests", down, got)
		}
	}
}

func TestBareEOFDoesNothing(t *testing.T) {
	n := start(t, os.Getpid())
	say(t, n.root)
	say(t, n.restart)
	n.BeginShutdown()
	say(t, n.root)
	if got := n.called.String(); got != "" {
		t.Errorf("got %s", got)
	}
}

func TestSilentClientsBlockNobody(t *testing.T) {
	n := start(t, 0)
	other(t, "flood", n.root, "100")
	other(t, "flood", n.restart, "100")
	say(t, n.root, 0x01)
	say(t, n.restart, 0x03)
	if got := n.called.String(); got != "shutdown root, restart-kubelet restart" {
		t.Errorf("got %s", got)
	}
	began := time.Now()
	if got := n.BeginShutdown().Wait(within(t)); got != NoHolder || time.Since(began) > time.Second {
		t.Errorf("Wait = %v after %v", got, time.Since(began))
	}
}

// A process that floods a socket displaces its own connections: neither the
// kubelet nor another client loses theirs, and the number stays bounded.
func TestFlood(t *testing.T) {
	n := start(t, 0, 20)
	kubelet := other(t, "hold", n.root)
	n.setKubelet(kubelet.Process.Pid)
	bystander := dial(t, n.root)
	other(t, "flood", n.root, "300")
	other(t, "flood", n.restart, "300")
	eventually(t, "the rest is closed", func() bool { return n.open() <= 2*20 })
	if _, ok := n.Holder(); !ok {
		t.Error("the kubelet lost its connection")
	}
	if err := bystander.RestartRuntime(within(t)); err != nil {
		t.Errorf("bystander: %v", err)
	}
	eventually(t, "the bystander is served", func() bool { return n.called.String() == "restart-runtime root" })
	if lines := strings.Count(n.logged(), "\n"); lines > 3*logBurst {
		t.Errorf("%d log lines", lines)
	}
}

// The kubelet is let in when others fill the socket.
func TestKubeletIsAdmittedToAFullSocket(t *testing.T) {
	n := start(t, 0, 3)
	for i := 0; i < 3; i++ {
		other(t, "hold", n.root)
	}
	n.setKubelet(os.Getpid())
	c := dial(t, n.root)
	if _, ok := n.WaitHolder(within(t)); !ok {
		t.Fatal("not admitted")
	}
	for i := 0; i < 3; i++ {
		other(t, "hold", n.root)
	}
	n.BeginShutdown()
	if got := event(t, c); got != "shutdown" {
		t.Errorf("the kubelet's connection: %s", got)
	}
	if got := n.open(); got != 3 {
		t.Errorf("%d connections, want 3", got)
	}
}

// A client that writes without end is slowed down, and served all the same.
func TestEndlessGarbage(t *testing.T) {
	n := start(t, 0)
	c := dial(t, n.root)
	stop := make(chan struct{})
	written := make(chan int)
	go func() {
		sum := 0
		for {
			select {
			case <-stop:
				written <- sum
				return
			default:
			}
			c.nc.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
			k, _ := c.nc.Write(make([]byte, 4096))
			sum += k
		}
	}()
	time.Sleep(300 * time.Millisecond)
	say(t, n.root, 0x01)
	close(stop)
	if sum := <-written; sum > 1<<20 {
		t.Errorf("%d bytes taken in 0.3 s", sum)
	}
	if got := n.called.String(); got != "shutdown root" {
		t.Errorf("got %s", got)
	}
	if lines := strings.Count(n.logged(), "\n"); lines > logBurst+10 {
		t.Errorf("%d log lines", lines)
	}
}

func TestEventGoesToEveryone(t *testing.T) {
	n := start(t, 0)
	before := []*Client{dial(t, n.root), dial(t, n.root), dial(t, n.restart)}
	eventually(t, "three are connected", func() bool { return n.open() == 3 })
	h := n.BeginShutdown()
	if again := n.BeginShutdown(); again != h {
		t.Error("a second BeginShutdown made another handle")
	}
	clients := append(before, dial(t, n.root), dial(t, n.restart))
	for i, c := range clients {
		if got := event(t, c); got != "shutdown" {
			t.Errorf("client %d: %s", i, got)
		}
	}
	n.Close()
	for i, c := range clients {
		if got := event(t, c); got != "closed" {
			t.Errorf("client %d got a second event: %s", i, got)
		}
	}
}

// A client that takes no bytes is dropped after a while; BeginShutdown does not wait.
func TestClientThatDoesNotRead(t *testing.T) {
	n := start(t, os.Getpid())
	stuck, err := net.Dial("unix", n.root)
	if err != nil {
		t.Fatal(err)
	}
	defer stuck.Close()
	if _, ok := n.WaitHolder(within(t)); !ok {
		t.Fatal("not connected")
	}
	n.Server.lock()
	for c := range n.conns { // fill its receive queue
		c.nc.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		for err := error(nil); err == nil; {
			_, err = c.nc.Write(make([]byte, 4096))
		}
	}
	n.Server.mu.Unlock()
	began := time.Now()
	h := n.BeginShutdown()
	if took := time.Since(began); took > time.Second {
		t.Errorf("BeginShutdown took %v", took)
	}
	if got := h.Wait(within(t)); got != Closed {
		t.Errorf("Wait = %v, want %v", got, Closed)
	}
}

func TestCloseTwiceAndListenAfter(t *testing.T) {
	n := start(t, 0)
	c := dial(t, n.root)
	for i := 0; i < 2; i++ {
		if err := n.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if got := event(t, c); got != "closed" {
		t.Errorf("client: %s", got)
	}
	if err := n.Listen(Root, n.root); err == nil {
		t.Error("Listen after Close: no error")
	}
	if _, err := os.Lstat(n.root); err == nil {
		t.Error("the socket's file is still there")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if _, ok := n.WaitHolder(ctx); ok {
		t.Error("a closed server has a holder")
	}
}

// open is how many connections the server has.
func (n *node) open() int {
	n.Server.lock()
	defer n.Server.mu.Unlock()
	return len(n.conns)
}
