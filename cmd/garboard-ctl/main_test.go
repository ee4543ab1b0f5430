package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"garboard.local/socket"
)

func TestCommandLine(t *testing.T) {
	for _, tt := range []struct {
		args string
		want string // what is sent, or the end of the complaint
		exit int
	}{
		{"restart kubelet", "restart-kubelet " + socket.RestartPath + " 10s", 0},
		{"restart runtime", "restart-runtime " + socket.RestartPath + " 10s", 0},
		{"shutdown", "shutdown " + socket.RootPath + " 10s", 0},
		{"reboot", "reboot " + socket.RootPath + " 10s", 0},
		{"poweroff-now --no-grace", "continue " + socket.RootPath + " 10s", 0},
		{"--socket /s restart --timeout 2s kubelet", "restart-kubelet /s 2s", 0},
		{"restart kubelet -socket=/s", "restart-kubelet /s 10s", 0},
		{"", "no command", 2},
		{"restart", "restart what", 2},
		{"restart pod", `restart "pod"`, 2},
		{"restart kubelet runtime", `"runtime" is too much`, 2},
		{"halt", `unknown command "halt"`, 2},
		{"poweroff-now", "without grace", 2},
		{"shutdown --no-grace", "goes with poweroff-now only", 2},
		{"shutdown --timeout 0s", "must be more than 0", 2},
		{"shutdown --timeout soon", "soon", 2},
		{"shutdown --now", "-now", 2},
	} {
		t.Run(tt.args, func(t *testing.T) {
			var out, errs bytes.Buffer
			sent := ""
			status := run(t.Context(), strings.Fields(tt.args), &out, &errs, func(ctx context.Context, path string, c socket.Command) error {
				end, _ := ctx.Deadline()
				sent = fmt.Sprintf("%s %s %s", c, path, time.Until(end).Round(time.Second))
				return nil
			})
			if status != tt.exit {
				t.Errorf("exit status %d, want %d (%s)", status, tt.exit, errs.String())
			}
			if tt.exit == 0 && (sent != tt.want || !strings.Contains(out.String(), "PID 1 has read it") || errs.Len() > 0) {
				t.Errorf("sent %q, want %q; said %q", sent, tt.want, out.String()+errs.String())
			}
			if tt.exit != 0 && (sent != "" || !strings.Contains(errs.String(), tt.want) || out.Len() > 0) {
				t.Errorf("sent %q, said %q, want %q", sent, errs.String(), tt.want)
			}
		})
	}
}

func TestHelpNamesEverything(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"restart", "-h"}} {
		var out, errs bytes.Buffer
		if status := run(t.Context(), args, &out, &errs, nil); status != exitOK || errs.Len() > 0 {
			t.Errorf("%v: status %d, %s", args, status, errs.String())
		}
		for _, want := range []string{"restart kubelet", "restart runtime", "shutdown", "reboot", "poweroff-now", "--socket", "--timeout",
			socket.RootPath, socket.RestartPath, "Examples:", "  3  no connection"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%v does not mention %s", args, want)
			}
		}
	}
}

// Each way not to reach PID 1 has its own words and cure.
func TestUnreachable(t *testing.T) {
	dir, err := os.MkdirTemp("", "ctl") // short: a socket's path has at most 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	listen := func(name string) *net.UnixListener {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, name), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	dead := listen("dead")
	dead.SetUnlinkOnClose(false)
	dead.Close()
	listen("silent")
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		path, want string
		exit       int
	}{
		{"missing", "is the socket mounted?", exitUnreachable},
		{"dead", "nobody listens", exitUnreachable},
		{"file", "", exitUnreachable},
		{"silent", "not seen to be read", exitFailed},
	} {
		var out, errs bytes.Buffer
		status := run(t.Context(), []string{"--timeout=100ms", "--socket", filepath.Join(dir, tt.path), "reboot"}, &out, &errs, socket.Send)
		if status != tt.exit || !strings.Contains(errs.String(), tt.want) || out.Len() > 0 {
			t.Errorf("%s: status %d, want %d; said %q, want %q", tt.path, status, tt.exit, errs.String(), tt.want)
		}
	}
	denied := func(context.Context, string, socket.Command) error { return fmt.Errorf("dial: %w", syscall.EACCES) }
	var errs bytes.Buffer
	if status := run(t.Context(), []string{"shutdown"}, &errs, &errs, denied); status != exitUnreachable || !strings.Contains(errs.String(), "for uid 0") {
		t.Errorf("permission: status %d, %q", status, errs.String())
	}
}

// The program itself, against a server, for both architectures.
func TestBinary(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "garboard-ctl")
	for _, arch := range []string{"arm64", ""} { // the host's own last: it is run
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", bin, ".")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOARCH="+arch)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go build for %q: %v\n%s", arch, err, out)
		}
		st, err := os.Stat(bin)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%q: %d bytes", arch, st.Size())
		if st.Size() > 4<<20 {
			t.Errorf("%q: %d bytes: a pod's helper must stay small", arch, st.Size())
		}
	}
	dir, err := os.MkdirTemp("", "ctl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	got := make(chan socket.Command, 1)
	s := &socket.Server{Handler: handler{got}, Logf: t.Logf, KubeletPID: func() int { return 0 }}
	path := filepath.Join(dir, "s")
	if err := s.Listen(socket.Restart, path); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if out, err := exec.Command(bin, "restart", "kubelet", "--socket", path).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	select {
	case c := <-got:
		if c != socket.RestartKubelet {
			t.Errorf("got %s", c)
		}
	case <-time.After(10 * time.Second):
		t.Error("the server got nothing")
	}
}

// handler is socket.Handler and tells what came.
type handler struct{ got chan socket.Command }

func (h handler) Shutdown(r socket.Request)       { h.got <- r.Command }
func (h handler) Reboot(r socket.Request)         { h.got <- r.Command }
func (h handler) PowerOffNow(r socket.Request)    { h.got <- r.Command }
func (h handler) RestartKubelet(r socket.Request) { h.got <- r.Command }
func (h handler) RestartRuntime(r socket.Request) { h.got <- r.Command }
