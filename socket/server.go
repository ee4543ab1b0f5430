package socket

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"sync"
	"time"
)

// Handler is what PID 1 does about the commands. Each function is called on the
// connection's own goroutine, possibly by several connections at once. It must
// return soon, must bear being asked again and again, and must not call
// Server.Close, which waits for it.
type Handler interface {
	// Shutdown asks for a power-off with grace; a later one asks to hurry.
	Shutdown(Request)
	// Reboot asks for a reboot with grace; a later one asks to hurry.
	Reboot(Request)
	// PowerOffNow asks for a power-off without grace: Continue outside a
	// shutdown. It comes from the root socket only.
	PowerOffNow(Request)
	// RestartKubelet and RestartRuntime are not called once a shutdown began.
	RestartKubelet(Request)
	RestartRuntime(Request)
}

// DefaultMaxConns is how many connections one socket holds open.
const DefaultMaxConns = 256

const (
	writeLimit = 2 * time.Second // for the one byte of an event
	freeBytes  = 1024            // what a connection may send at full speed
	readPause  = 10 * time.Millisecond
	logBurst   = 40
	logEvery   = time.Second
)

// Server is PID 1's side of the system socket. Set the exported fields, call
// Listen for each socket, BeginShutdown once the node goes down, and Close at
// the end. All methods may be called from any goroutine.
type Server struct {
	Handler Handler
	// KubeletPID is the pid of the kubelet that PID 1 started and has not yet
	// reaped, or 0. It must be right by the time that kubelet can connect. The
	// server calls it without holding a lock of its own.
	KubeletPID func() int
	// Logf writes one line; nil means no log. Lines caused by clients are
	// limited in number, for each socket by itself.
	Logf func(format string, args ...any)
	// MaxConns is how many connections each socket holds; 0 means
	// DefaultMaxConns. At the limit a new one displaces the oldest of the
	// process that has most, the kubelet's last of all: whoever floods the
	// socket displaces itself.
	MaxConns int

	mu        sync.Mutex
	wg        sync.WaitGroup // accept loops, connections, event writers
	listeners []*Listener
	conns     map[*conn]struct{}
	lastID    uint64
	shutdown  *ShutdownHandle // nil until BeginShutdown
	changed   chan struct{}   // closed and replaced when conns or locks change
	done      chan struct{}   // closed by Close
	closed    bool
	limits    [2]limiter // log lines by socket
}

// lock takes the mutex and makes the zero Server usable.
func (s *Server) lock() {
	s.mu.Lock()
	if s.done == nil {
		s.done = make(chan struct{})
		s.changed = make(chan struct{})
		s.conns = make(map[*conn]struct{})
		for i := range s.limits {
			s.limits[i].burst, s.limits[i].interval = logBurst, logEvery
		}
	}
}

// notify wakes everyone who waits for a change. The mutex is held.
func (s *Server) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Listen serves which at path (RootPath, RestartPath) in the background until Close.
func (s *Server) Listen(which Socket, path string) error {
	mode := map[Socket]fs.FileMode{Root: RootMode, Restart: RestartMode}[which]
	l, err := Listen(path, mode)
	if err != nil {
		return err
	}
	s.lock()
	defer s.mu.Unlock()
	if s.closed {
		l.Close()
		return fmt.Errorf("system socket %s: server is closed", path)
	}
	s.listeners = append(s.listeners, l)
	s.wg.Add(1)
	go s.accept(l, which)
	return nil
}

// Close stops listening, closes every connection and waits until nothing of the
// server runs any more. The sockets' files are removed.
func (s *Server) Close() error {
	s.lock()
	if !s.closed {
		s.closed = true
		close(s.done)
	}
	var errs []error
	for _, l := range s.listeners {
		errs = append(errs, l.Close())
	}
	s.listeners = nil
	for c := range s.conns {
		s.forget(c)
	}
	s.mu.Unlock()
	s.wg.Wait()
	return errors.Join(errs...)
}

func (s *Server) accept(l *Listener, which Socket) {
	defer s.wg.Done()
	var pause time.Duration
	for {
		nc, err := l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors or memory: it passes
			if pause = max(5*time.Millisecond, 2*pause); pause > time.Second {
				pause = time.Second
			}
			s.clientf(which, "system socket: accept on the %s socket: %v; again in %v", which, err, pause)
			if !s.sleep(pause) {
				return
			}
			continue
		}
		pause = 0
		s.admit(nc, which)
	}
}

// admit begins to serve a new connection.
func (s *Server) admit(nc *net.UnixConn, which Socket) {
	peer, err := peerOf(nc)
	if err != nil {
		nc.Close()
		s.clientf(which, "system socket: connection on the %s socket refused: %v", which, err)
		return
	}
	c := &conn{nc: nc, socket: which, peer: peer, start: startOf(peer.PID)}
	kubelet := s.kubeletPID()

	s.lock()
	if s.closed {
		s.mu.Unlock()
		nc.Close()
		return
	}
	victim := s.makeRoom(which, kubelet)
	s.lastID++
	c.id = s.lastID
	s.conns[c] = struct{}{}
	s.wg.Add(1)
	go s.serve(c)
	if s.shutdown != nil { // state is sent on connect
		c.holds = c.is(kubelet)
		s.wg.Add(1)
		go s.tell(c)
	}
	s.notify()
	s.mu.Unlock()

	if victim != nil {
		s.clientf(which, "system socket: %s socket is full: connection %d of %s closed", which, victim.id, victim.peer)
	}
}

// makeRoom closes a connection if the socket has as many as it may: the oldest
// of the process that has most; the kubelet's only if there is no other. The
// mutex is held.
func (s *Server) makeRoom(which Socket, kubelet int) *conn {
	limit := s.MaxConns
	if limit <= 0 {
		limit = DefaultMaxConns
	}
	total, count := 0, make(map[int]int)
	for c := range s.conns {
		if c.socket == which {
			total++
			count[c.peer.PID]++
		}
	}
	if total < limit {
		return nil
	}
	delete(count, kubelet) // counts as none
	var victim *conn
	for c := range s.conns {
		if c.socket != which {
			continue
		}
		if victim != nil {
			a, b := count[c.peer.PID], count[victim.peer.PID]
			if a < b || a == b && c.id > victim.id {
				continue
			}
		}
		victim = c
	}
	s.forget(victim)
	return victim
}

func (s *Server) kubeletPID() int {
	if s.KubeletPID == nil {
		return 0
	}
	return s.KubeletPID()
}

// sleep waits for d, or until Close; it reports whether to go on.
func (s *Server) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.done:
		return false
	}
}

func (s *Server) logf(format string, args ...any) {
	if s.Logf != nil {
		s.Logf(format, args...)
	}
}

// clientf logs a line that a client on the socket caused.
func (s *Server) clientf(which Socket, format string, args ...any) {
	ok, missed := s.limits[which].allow(time.Now())
	if !ok {
		return
	}
	if missed > 0 {
		s.logf("system socket: %d lines about the %s socket left out", missed, which)
	}
	s.logf(format, args...)
}
