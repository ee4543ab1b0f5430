package probe

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// asked is a systemctl that says what it is told to.
func asked(t *testing.T, says string) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), "systemctl")
	if err := os.WriteFile(p, []byte("#!/bin/sh\n"+says+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return p
}

// The message comes from the service's main process, as far as its receiver can see.
func TestFail(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSCRED, 1) }); err != nil {
		t.Fatal(err)
	}
	pid := os.Getpid()
	if os.Geteuid() == 0 { // who may speak for others does
		other := exec.Command("/bin/sleep", "60")
		if err := other.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { other.Process.Kill(); other.Wait() }()
		pid = other.Process.Pid
	}
	if os.Geteuid() == 0 { // others may not even name root's number, 0, as theirs
		if err := fail(t.Context(), asked(t, fmt.Sprintf("test \"$5\" = a.service && echo %d", pid)), socket, "a.service"); err != nil {
			t.Fatal(err)
		}
		b, oob := make([]byte, 100), make([]byte, 100)
		n, oobn, _, _, err := c.ReadMsgUnix(b, oob)
		if err != nil {
			t.Fatal(err)
		}
		list, err := unix.ParseSocketControlMessage(oob[:oobn])
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		who, err := unix.ParseUnixCredentials(&list[0])
		if err != nil || int(who.Pid) != pid || string(b[:n]) != "WATCHDOG=trigger" {
			t.Errorf("%q from %+v, %v; want one from %d", b[:n], who, err, pid)
		}
	}
	if err := fail(t.Context(), asked(t, "echo 0"), socket+".none", "a.service"); err != nil {
		t.Errorf("a service that does not run: %v", err)
	}
	for says, want := range map[string]string{
		"echo x": "the main process is", "echo no such unit >&2; exit 4": "no such unit", fmt.Sprintf("echo %d", pid): socket + ".none",
	} {
		if err := fail(t.Context(), asked(t, says), socket+".none", "a.service"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", says, err, want)
		}
	}
}
