package socket

import (
	"context"
	"time"
)

// Outcome says how the wait for the kubelet ended.
type Outcome int

const (
	// NoHolder: no connection of the kubelet's was there to wait for.
	NoHolder Outcome = iota
	// Continued: the kubelet has ended its pods and said so.
	Continued
	// Closed: the kubelet's connection closed, or the kubelet died, without that.
	Closed
	// TimedOut: the context ended first; the kubelet still holds the lock.
	TimedOut
)

// String is for log lines.
func (o Outcome) String() string {
	switch o {
	case NoHolder:
		return "the kubelet is not connected"
	case Continued:
		return "the kubelet is done"
	case Closed:
		return "the kubelet hung up"
	default:
		return "the kubelet did not answer in time"
	}
}

// lockPoll is how often the kubelet's pid is looked at while waiting; connections
// that come, go or release wake the wait at once.
const lockPoll = 200 * time.Millisecond

// ShutdownHandle is a shutdown that has begun. There is one in a Server's life.
type ShutdownHandle struct {
	server *Server
	last   Outcome // guarded by Server.mu
}

// BeginShutdown makes the server say EventShutdown on every connection, and on
// each that comes later. It returns at once, whatever the clients do. A second
// call returns the same handle.
func (s *Server) BeginShutdown() *ShutdownHandle {
	kubelet := s.kubeletPID()
	s.lock()
	defer s.mu.Unlock()
	if s.shutdown != nil {
		return s.shutdown
	}
	s.shutdown = &ShutdownHandle{server: s, last: NoHolder}
	for c := range s.conns {
		c.holds = c.is(kubelet)
		s.wg.Add(1)
		go s.tell(c)
	}
	s.notify()
	return s.shutdown
}

// Wait waits until the kubelet holds no lock, or ctx ends. It returns at once
// if there is none; PID 1 may first give a kubelet that is starting the chance
// to connect (Server.WaitHolder), and may wait again after Closed.
func (h *ShutdownHandle) Wait(ctx context.Context) Outcome {
	s := h.server
	ended := s.await(ctx, func(holders []Peer) bool { return len(holders) == 0 })
	if !ended {
		return TimedOut
	}
	s.lock()
	defer s.mu.Unlock()
	return h.last
}

// Holder is the kubelet, if it is connected and so delays a shutdown, be it one
// that runs or one that may come.
func (s *Server) Holder() (Peer, bool) {
	holders, _ := s.holders()
	if len(holders) == 0 {
		return Peer{}, false
	}
	return holders[0], true
}

// WaitHolder waits until Holder has something to return, or ctx ends.
func (s *Server) WaitHolder(ctx context.Context) (Peer, bool) {
	var found []Peer
	ok := s.await(ctx, func(holders []Peer) bool {
		found = holders
		return len(holders) > 0
	})
	if !ok {
		return Peer{}, false
	}
	return found[0], true
}

// await waits until the holders are as wanted; false if ctx ended first.
func (s *Server) await(ctx context.Context, wanted func([]Peer) bool) bool {
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		holders, changed := s.holders()
		if wanted(holders) {
			return true
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
}

// holders lists whose connections are the lock now, and a channel that is closed
// when that may have changed. Who is the kubelet is asked anew each time: it may
// have died with its connection still open in a child, or PID 1 may have learned
// its pid only after it connected.
func (s *Server) holders() ([]Peer, <-chan struct{}) {
	kubelet := s.kubeletPID()
	s.lock()
	defer s.mu.Unlock()
	var peers []Peer
	for c := range s.conns {
		is := c.is(kubelet)
		if s.shutdown != nil {
			if c.holds && !is && !c.released {
				s.shutdown.last = Closed
			}
			c.holds = is
		}
		if is && !c.released {
			peers = append(peers, c.peer)
		}
	}
	return peers, s.changed
}
