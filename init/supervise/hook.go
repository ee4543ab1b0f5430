package supervise

import (
	"context"
	"fmt"
	"strings"
	"time"

	"garboard.local/init/table"
)

// postStartMax is how long a postStart hook may take. Kubernetes sets it no limit;
// one that takes longer hangs.
const postStartMax = time.Hour

// postStart runs that hook, if there is one; false if the run is over or is to
// end. One that fails ends it.
func (s *service) postStart(ctx context.Context, p *Process) bool {
	if s.PostStart == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, s.sup.postMax)
	defer cancel()
	if s.interruptible(cancel) {
		return false
	}
	err := s.hook(ctx, "postStart", s.PostStart, p)
	switch {
	case s.interruptible(nil) || p.over():
		return false
	case err == nil:
		return true
	}
	s.ill(s.sup.ctx, p, "postStart hook", err)
	return false
}

// interruptible has whoever ends the run end its postStart hook first; true if
// somebody does already.
func (s *service) interruptible(cancel context.CancelFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unhook = cancel
	return s.ending != nil
}

// preStop runs that hook for at most the whole grace. One that fails is reported,
// and the service ends all the same.
func (s *service) preStop(ctx context.Context, p *Process, whole time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, whole)
	defer cancel()
	if err := s.hook(ctx, "preStop", s.PreStop, p); err != nil && !p.over() {
		s.sup.printf("service %s: preStop hook %s", s.Name, err)
		s.accuse(p, "preStop hook %s", err)
	}
}

// hook runs a hook to its end. It is killed, with all its children, when ctx, the
// run or the supervisor ends; a sleep that is cut short is no failure.
func (s *service) hook(ctx context.Context, which string, h *table.Hook, p *Process) error {
	if len(h.Exec) == 0 {
		t := time.NewTimer(time.Duration(h.SleepSeconds) * time.Second)
		defer t.Stop()
		select {
		case <-t.C:
		case <-p.Done():
		case <-ctx.Done():
		case <-s.sup.ctx.Done():
		}
		return nil
	}
	if err := s.exec(ctx, which, h.Exec, p, true); err != nil {
		return fmt.Errorf("failed: %w", err)
	}
	return nil
}

// comesUp notes that this run has started, unless it has ended or is to end.
func (s *service) comesUp(p *Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != p || s.ending != nil || p.over() {
		return
	}
	s.up = true
	close(s.changed)
	s.changed = make(chan struct{})
	s.sup.touch()
}

func (s *service) isUp() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.up
}

// oneLine is a message without line breaks.
func oneLine(format string, args ...any) string {
	return strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " ")
}
