package socket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestClientCommands(t *testing.T) {
	n := start(t, 0)
	c := dial(t, n.root)
	for _, send := range []func(context.Context) error{c.RestartKubelet, c.RestartRuntime, c.Reboot, c.Shutdown, c.Continue} {
		if err := send(within(t)); err != nil {
			t.Fatal(err)
		}
	}
	want := "restart-kubelet root, restart-runtime root, reboot root, shutdown root, power-off-now root"
	eventually(t, "all are served", func() bool { return n.called.String() == want })
}

func TestClientSeesTheEnd(t *testing.T) {
	n := start(t, 0)
	c := dial(t, n.root)
	if err := c.Err(); err != nil {
		t.Errorf("Err on a standing connection: %v", err)
	}
	eventually(t, "it is accepted", func() bool { return n.open() == 1 }) // else it ends in a reset
	n.Close()
	if got := event(t, c); got != "closed" {
		t.Fatal(got)
	}
	if err := c.Err(); err != io.EOF {
		t.Errorf("Err = %v, want EOF", err)
	}
	if err := c.Shutdown(within(t)); err == nil {
		t.Error("sent to a closed server without an error")
	}
}

func TestClientClose(t *testing.T) {
	n := start(t, 0)
	c := dial(t, n.root)
	for i := 0; i < 2; i++ {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if got := event(t, c); got != "closed" {
		t.Error(got)
	}
	if err := c.Err(); err != net.ErrClosed {
		t.Errorf("Err = %v", err)
	}
	if err := c.Reboot(within(t)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Reboot = %v", err)
	}
}

// Close ends a client whose events nobody reads.
func TestClientCloseWithUnreadEvents(t *testing.T) {
	l, err := Listen(shortDir(t)+"/s", RootMode)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := dial(t, l.path)
	nc, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.Write([]byte{1, 0x7f, 1, 1, 1})
	if a, b := event(t, c), event(t, c); a != "shutdown" || b != "unknown (0x7f)" {
		t.Errorf("events: %s, %s", a, b)
	}
	c.Close()
	eventually(t, "the reader has ended", func() bool { return c.Err() != nil })
}

// A server that does not read: the context bounds the write, and the client can
// be used afterwards.
func TestClientContext(t *testing.T) {
	l, err := Listen(shortDir(t)+"/s", RootMode)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := dial(t, l.path)
	nc, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	full := 0
	for {
		c.nc.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
		k, err := c.nc.Write(make([]byte, 1))
		if full += k; err != nil {
			break
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	for i := 0; i < 2; i++ { // the second finds the context over
		if err := c.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown = %v", err)
		}
	}
	go io.CopyN(io.Discard, nc, int64(full))
	if err := c.Shutdown(within(t)); err != nil {
		t.Errorf("once there is room: %v", err)
	}
}

func TestSendAndDialErrors(t *testing.T) {
	n := start(t, 0)
	if err := Send(within(t), n.restart, RestartKubelet); err != nil {
		t.Error(err)
	}
	if got := n.called.String(); got != "restart-kubelet restart" {
		t.Errorf("Send returned before it was served: %s", got)
	}
	missing := n.root + "-missing"
	if err := Send(within(t), missing, Shutdown); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("no socket: %v", err)
	}
	l, err := Listen(shortDir(t)+"/s", RootMode)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // which never accepts
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := Send(ctx, l.path, Shutdown); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("silent server: %v", err)
	}
}

// The table in the package's documentation is what the code does.
func TestProtocolTable(t *testing.T) {
	src, err := os.ReadFile("protocol.go")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^//\tclient -> PID 1\s+0x([0-9a-f]{2})\s+(\S+)\s+(root, restart|root)\s`).FindAllStringSubmatch(string(src), -1)
	documented := map[string]string{}
	for _, r := range rows {
		documented[r[1]] = r[2] + ": " + r[3]
	}
	known := 0
	for b := 0; b < 256; b++ {
		c, got := Command(b), ""
		if c.Known() {
			known++
			got = c.String() + ": root"
			if Restart.Takes(c) {
				got += ", restart"
			}
		}
		if want := documented[fmt.Sprintf("%02x", b)]; got != want {
			t.Errorf("0x%02x: the table says %q, the code %q", b, want, got)
		}
	}
	inPage := map[string]string{}
	for _, r := range regexp.MustCompile("(?m)^\\| client to PID 1 \\| `0x([0-9a-f]{2})` \\| (\\S+) \\| (root, restart|root) \\|").FindAllStringSubmatch(page(t), -1) {
		inPage[r[1]] = r[2] + ": " + r[3]
	}
	if !maps.Equal(inPage, documented) {
		t.Errorf("docs/system-socket.md says %v, the package %v", inPage, documented)
	}
	if known != 5 {
		t.Errorf("%d commands, want 5", known)
	}
}
