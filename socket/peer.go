package socket

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Peer is the process at the other end of a connection, as the kernel recorded
// it at connect(2) (SO_PEERCRED, unix(7)); Comm is what /proc said at accept.
type Peer struct {
	PID  int
	UID  int
	GID  int
	Comm string // command name, at most 15 bytes, printable; "?" if unknown
}

// String is for log lines: `pid 812 (kubelet), uid 0`.
func (p Peer) String() string {
	return fmt.Sprintf("pid %d (%s), uid %d", p.PID, p.Comm, p.UID)
}

// Request is one command and where it came from.
type Request struct {
	Peer
	Socket  Socket
	Command Command
}

// String is for log lines: `pid 812 (ctl), uid 0, root socket`.
func (r Request) String() string {
	return fmt.Sprintf("%s, %s socket", r.Peer, r.Socket)
}

// peerOf asks the kernel who connected.
func peerOf(c *net.UnixConn) (Peer, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return Peer{}, fmt.Errorf("peer credentials: %w", err)
	}
	var cred *syscall.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); err != nil {
		return Peer{}, fmt.Errorf("peer credentials: %w", err)
	}
	if credErr != nil {
		return Peer{}, fmt.Errorf("peer credentials: getsockopt SO_PEERCRED: %w", credErr)
	}
	pid := int(cred.Pid)
	return Peer{PID: pid, UID: int(cred.Uid), GID: int(cred.Gid), Comm: commOf(pid)}, nil
}

// commOf reads a process's command name. The process chooses it freely, and it
// goes to the console: what is not printable ASCII becomes "?".
func commOf(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return "?"
	}
	name := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, strings.TrimSuffix(string(b), "\n"))
	if name == "" {
		return "?"
	}
	return name
}

// startOf is when a process began, in clock ticks since boot (field 22 of
// /proc/PID/stat, proc(5)), or 0 if that cannot be read. Together with the pid
// it names a process for good: a pid alone is given out again.
func startOf(pid int) uint64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	return parseStart(b)
}

func parseStart(stat []byte) uint64 {
	// The command name, in parentheses, may itself hold spaces and parentheses.
	i := bytes.LastIndexByte(stat, ')')
	if i < 0 {
		return 0
	}
	fields := bytes.Fields(stat[i+1:])
	if len(fields) < 20 { // field 3 is fields[0]
		return 0
	}
	n, err := strconv.ParseUint(string(fields[19]), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
