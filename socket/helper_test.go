package socket

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience bounds every wait for something that must happen.
const patience = 10 * time.Second

// TestMain lets the test binary play another process: the server tells its
// clients apart by pid. SOCKET_TEST_ROLE is "hold PATH" (connect and stay),
// "send PATH BYTE" or "flood PATH N" (N silent connections, and stay).
func TestMain(m *testing.M) {
	role := strings.Fields(os.Getenv("SOCKET_TEST_ROLE"))
	if len(role) == 0 {
		os.Exit(m.Run())
	}
	if err := play(role); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func play(role []string) error {
	ctx := context.Background()
	number := 1
	if len(role) > 2 {
		var err error
		if number, err = strconv.Atoi(role[2]); err != nil {
			return err
		}
	}
	if role[0] == "send" {
		return Send(ctx, role[1], Command(number))
	}
	var keep []net.Conn
	for i := 0; i < number; i++ {
		c, err := net.Dial("unix", role[1])
		if err != nil {
			return err
		}
		keep = append(keep, c)
	}
	fmt.Println("ready")
	time.Sleep(time.Hour)
	return fmt.Errorf("%d connections were never needed again", len(keep))
}

// other starts another process in the role. Unless it is "send", it has
// connected when other returns.
func other(t *testing.T, role ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "SOCKET_TEST_ROLE="+strings.Join(role, " "))
	if role[0] == "send" {
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", role, err, out)
		}
		return cmd
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("%v: said %q, %v", role, line, err)
	}
	return cmd
}

// called records what the handler was asked, as "command socket".
type called struct {
	mu    sync.Mutex
	calls []string
	last  Request
}

func (h *called) add(name string, r Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, name+" "+r.Socket.String())
	h.last = r
}

func (h *called) Shutdown(r Request)       { h.add("shutdown", r) }
func (h *called) Reboot(r Request)         { h.add("reboot", r) }
func (h *called) PowerOffNow(r Request)    { h.add("power-off-now", r) }
func (h *called) RestartKubelet(r Request) { h.add("restart-kubelet", r) }
func (h *called) RestartRuntime(r Request) { h.add("restart-runtime", r) }

func (h *called) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.calls, ", ")
}

// node is a server on two sockets in a directory of its own.
type node struct {
	*Server
	*called
	root, restart string

	mu      sync.Mutex
	kubelet int
	log     []string
}

func (n *node) setKubelet(pid int) {
	n.mu.Lock()
	n.kubelet = pid
	n.mu.Unlock()
}

func (n *node) logged() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Join(n.log, "\n")
}

// start runs a server whose kubelet has the pid, perhaps with a limit other
// than DefaultMaxConns. When the test ends it is closed
// and must leave neither goroutine nor descriptor behind.
func start(t testing.TB, kubelet int, maxConns ...int) *node {
	t.Helper()
	goroutines, files := runtime.NumGoroutine(), openFiles(t)
	dir := shortDir(t)
	n := &node{called: &called{}, root: filepath.Join(dir, "r"), restart: filepath.Join(dir, "garboard/s"), kubelet: kubelet}
	n.Server = &Server{
		Handler: n.called,
		KubeletPID: func() int {
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.kubelet
		},
		Logf: func(format string, args ...any) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.log = append(n.log, fmt.Sprintf(format, args...))
		},
	}
	if len(maxConns) > 0 {
		n.MaxConns = maxConns[0]
	}
	for which, path := range map[Socket]string{Root: n.root, Restart: n.restart} {
		if err := n.Listen(which, path); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		eventually(t, "goroutines and descriptors are given back", func() bool {
			return runtime.NumGoroutine() <= goroutines && openFiles(t) <= files
		})
	})
	return n
}

// shortDir is a temporary directory whose path leaves room for a socket's name.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sock")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// openFiles counts descriptors; the runtime's epoll and eventfd, opened at the
// first use of the network, are left out.
func openFiles(t testing.TB) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, fd := range fds {
		to, err := os.Readlink("/proc/self/fd/" + fd.Name())
		if err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %v it is still not so that %s", patience, what)
		}
	}
}

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// dial connects and closes at the end of the test, before the server does.
func dial(t testing.TB, path string) *Client {
	t.Helper()
	c, err := Dial(within(t), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// event is the next event, or "closed".
func event(t testing.TB, c *Client) string {
	t.Helper()
	select {
	case e, ok := <-c.Events():
		if !ok {
			return "closed"
		}
		return e.String()
	case <-time.After(patience):
		t.Fatal("no event")
		return ""
	}
}

// say writes bytes on a connection of its own, hangs up its side, and waits
// until the server has read them all.
func say(t testing.TB, path string, bytes ...byte) {
	t.Helper()
	c := dial(t, path)
	if _, err := c.nc.Write(bytes); err != nil {
		t.Fatal(err)
	}
	c.nc.CloseWrite()
	for event(t, c) != "closed" {
	}
}
