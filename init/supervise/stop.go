package supervise

import (
	"context"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"garboard.local/init/table"
)

const (
	// minGrace is left for the stop signal, whatever was waited for before it.
	minGrace = table.MinGraceSeconds * time.Second
	// hurried is that when the one who waits for the end cannot wait any longer.
	hurried  = time.Second
	killWait = 2 * time.Second
)

// ending is the end of one run. Several may ask for it at once: a probe that
// fails, the system socket, a shutdown. The first one's words are printed.
type ending struct {
	done   chan struct{}
	hurry  context.CancelFunc
	killed bool // valid once done is closed
}

// stop ends the run that is now: the preStop hook, its turn, the stop signal, and
// SIGKILL once the grace, which is for all of them, is over or ctx ends. It says
// whether SIGKILL was needed. A turn comes when all its channels are closed.
func (s *service) stop(ctx context.Context, why string, turn ...<-chan struct{}) (killed bool) {
	s.mu.Lock()
	p, e := s.proc, s.ending
	switch {
	case p == nil:
		s.mu.Unlock()
		return false
	case e != nil: // somebody is at it
		s.mu.Unlock()
		select {
		case <-e.done:
		case <-ctx.Done():
			e.hurry()
			<-e.done
		}
		return e.killed
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	e = &ending{done: make(chan struct{}), hurry: cancel}
	defer close(e.done)
	s.ending = e
	if s.unhook != nil {
		s.unhook()
	}
	s.mu.Unlock()
	e.killed = s.end(ctx, p, why, turn)
	return e.killed
}

// end is what stop does, once for a run.
func (s *service) end(ctx context.Context, p *Process, why string, turn []<-chan struct{}) (killed bool) {
	whole := grace(s.GraceSeconds)
	over := time.Now().Add(whole)
	if s.PreStop != nil && whole > 0 && running(ctx, p) {
		s.sup.printf("service %s: %s, preStop hook, at most %s", s.Name, why, whole)
		s.goOn(p)
		s.preStop(ctx, p, whole)
	}
	if !s.awaitTurn(ctx, p, turn, over) {
		return false
	}
	rest := max(time.Until(over), minGrace).Round(time.Second)
	if ctx.Err() != nil {
		rest, ctx = hurried, context.Background()
	}
	sig := unix.SIGTERM
	if s.StopSignal != 0 {
		sig = unix.Signal(s.StopSignal)
	}
	if p.Signal(sig) != nil {
		return false
	}
	s.sup.printf("service %s: %s, %s, at most %s", s.Name, why, unix.SignalName(sig), rest)
	s.goOn(p)
	t := time.NewTimer(rest)
	defer t.Stop()
	select {
	case <-p.Done():
		return false
	case <-t.C:
	case <-ctx.Done():
	}
	if p.Signal(unix.SIGKILL) != nil {
		return false
	}
	s.sup.printf("service %s: still there, SIGKILL", s.Name)
	k := time.NewTimer(killWait)
	defer k.Stop()
	select {
	case <-p.Done():
	case <-k.C: // in the kernel, where not even SIGKILL reaches it
		s.sup.printf("service %s: pid %d does not die", s.Name, p.Pid)
	}
	return true
}

// awaitTurn waits for others to have ended, until a time; false if the run has
// ended meanwhile.
func (s *service) awaitTurn(ctx context.Context, p *Process, turn []<-chan struct{}, over time.Time) bool {
	t := time.NewTimer(time.Until(over))
	defer t.Stop()
	for _, gone := range turn {
		select {
		case <-gone:
			continue
		case <-p.Done():
			return false
		case <-t.C:
			s.sup.printf("service %s: what it waits for has not ended within the grace", s.Name)
		case <-ctx.Done():
		}
		break
	}
	return !p.over()
}

// over says whether the process has ended.
func (p *Process) over() bool {
	select {
	case <-p.Done():
		return true
	default:
		return false
	}
}

// accuse notes why a run is ended, or what went wrong in it, for its status.
func (s *service) accuse(p *Process, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == p {
		s.blame = append(s.blame, oneLine(format, args...))
	}
}

// goOn continues a process that somebody has stopped (SIGSTOP): it could not
// even see a SIGTERM. To one that runs it does nothing.
func (s *service) goOn(p *Process) {
	stat, err := os.ReadFile(s.sup.root + "/proc/" + strconv.Itoa(p.Pid) + "/stat")
	if err == nil && stopped(string(stat)) {
		s.sup.printf("service %s: pid %d was stopped, SIGCONT", s.Name, p.Pid)
	}
	_ = p.Signal(unix.SIGCONT) // it may have ended meanwhile
}

// stopped reads the state out of proc_pid_stat(5), which is the field after the
// command name: any bytes in parentheses.
func stopped(stat string) bool {
	i := strings.LastIndexByte(stat, ')')
	f := strings.Fields(stat[i+1:])
	return i >= 0 && len(f) > 0 && (f[0] == "T" || f[0] == "t")
}
