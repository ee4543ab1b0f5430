package socket

import (
	"errors"
	"net"
	"os"
	"time"
)

// conn is one client's connection. Fields below mu's line are guarded by Server.mu.
type conn struct {
	nc     *net.UnixConn
	id     uint64 // of the connection, and so of the lock that it may be
	socket Socket
	peer   Peer
	start  uint64 // when the peer's process began; see startOf

	// guarded by Server.mu
	told     bool // it was sent EventShutdown, or is just being sent it
	holds    bool // it delays the shutdown that runs
	released bool // it has sent Continue after that
}

// is reports whether the peer is the process that now has this pid and whether
// it may hold the lock. The pid alone would not do: the peer may be dead, its
// connection inherited by a child, and the pid given to another process.
func (c *conn) is(pid int) bool {
	if pid <= 0 || c.socket != Root || c.peer.PID != pid {
		return false
	}
	now := startOf(pid)
	return now == 0 || c.start == 0 || now == c.start
}

// serve reads a connection's bytes until the client hangs up.
func (s *Server) serve(c *conn) {
	defer s.wg.Done()
	defer s.drop(c)
	buf := make([]byte, 64)
	seen := 0
	for {
		n, err := c.nc.Read(buf)
		for _, b := range buf[:n] {
			s.command(c, Command(b))
		}
		if err != nil { // EOF, or closed by us
			return
		}
		// A client has a few bytes to say in its life. One that never stops
		// is slowed down, so that PID 1 does not spend a processor on it.
		if seen += n; seen > freeBytes && !s.sleep(readPause) {
			return
		}
	}
}

// command carries out one byte.
func (s *Server) command(c *conn, cmd Command) {
	req := Request{Peer: c.peer, Socket: c.socket, Command: cmd}
	if !cmd.Known() {
		s.clientf(c.socket, "system socket: byte 0x%02x from %s ignored: not a command", byte(cmd), req)
		return
	}
	if !c.socket.Takes(cmd) {
		s.clientf(c.socket, "system socket: %s from %s refused: this socket takes restarts only", cmd, req)
		return
	}
	if cmd == Continue && s.release(c, req) {
		return
	}
	if (cmd == RestartKubelet || cmd == RestartRuntime) && s.goingDown() {
		s.clientf(c.socket, "system socket: %s from %s ignored: the node is going down", cmd, req)
		return
	}
	s.clientf(c.socket, "system socket: %s from %s", cmd, req)
	switch cmd {
	case Shutdown:
		s.Handler.Shutdown(req)
	case Continue:
		s.Handler.PowerOffNow(req)
	case RestartKubelet:
		s.Handler.RestartKubelet(req)
	case RestartRuntime:
		s.Handler.RestartRuntime(req)
	case Reboot:
		s.Handler.Reboot(req)
	}
}

// release is Continue during a shutdown. It reports false outside one.
func (s *Server) release(c *conn, req Request) bool {
	kubelet := s.kubeletPID()
	s.lock()
	if s.shutdown == nil {
		s.mu.Unlock()
		return false
	}
	// PID 1 may have learned the kubelet's pid only after the connection came.
	c.holds = c.holds || c.is(kubelet)
	holder := c.holds && c.told
	if holder && !c.released {
		c.released = true
		s.shutdown.last = Continued
		s.notify()
	}
	s.mu.Unlock()
	if holder {
		s.clientf(c.socket, "system socket: lock %d released by %s", c.id, req)
	} else {
		s.clientf(c.socket, "system socket: %s from %s ignored: it holds no lock", Continue, req)
	}
	return true
}

// tell sends the shutdown event. It runs on a goroutine of its own, so that no
// client can hold up another, let alone the shutdown.
func (s *Server) tell(c *conn) {
	defer s.wg.Done()
	s.lock()
	c.told = true // before the write: the answer may overtake what follows it
	s.mu.Unlock()
	c.nc.SetWriteDeadline(time.Now().Add(writeLimit))
	_, err := c.nc.Write([]byte{byte(EventShutdown)})
	// A client that has hung up is left to serve: its last byte may still be unread.
	if errors.Is(err, os.ErrDeadlineExceeded) {
		s.clientf(c.socket, "system socket: connection %d of %s closed: it does not take the shutdown event", c.id, c.peer)
		s.drop(c)
	}
}

// drop closes a connection, which releases its lock.
func (s *Server) drop(c *conn) {
	s.lock()
	s.forget(c)
	s.mu.Unlock()
}

// forget is drop with the mutex held. It does nothing the second time.
func (s *Server) forget(c *conn) {
	if _, ok := s.conns[c]; !ok {
		return
	}
	delete(s.conns, c)
	c.nc.Close()
	if s.shutdown != nil && c.holds && !c.released {
		s.shutdown.last = Closed
	}
	s.notify()
}

func (s *Server) goingDown() bool {
	s.lock()
	defer s.mu.Unlock()
	return s.shutdown != nil
}
