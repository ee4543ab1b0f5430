package supervise

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Part is a group of processes below a service's, which can be ended as a whole.
type Part interface {
	Fd() int
	Kill() error
	Close() error
}

var (
	errLate  = errors.New("has not ended in time, killed")
	errEnded = errors.New("the service has ended")
)

// exec runs a program as the service does: as its user, with its capabilities,
// environment, mounts and limits, and for its account. If ctx, the run p or the
// supervisor ends first it is killed, with all its children.
func (s *service) exec(ctx context.Context, part string, argv []string, p *Process, loud bool) error {
	spec, err := s.spec(argv)
	if err != nil {
		return err
	}
	if !loud {
		spec.Output = -1
	}
	var group Part
	if s.sup.part != nil {
		if group, err = s.sup.part(s.Name, part); err != nil {
			return fmt.Errorf("cgroup: %w", err)
		}
		defer group.Close()
		spec.Cgroup = group.Fd()
	}
	c, err := s.sup.reaper.Start(spec)
	if err != nil {
		return err
	}
	s.score(c)
	why := errLate
	select {
	case <-c.Done():
		if ws := c.Status(); !ws.Exited() || ws.ExitStatus() != 0 {
			return fmt.Errorf("%s: %s", argv[0], Describe(ws))
		}
		return nil
	case <-p.Done():
		why = errEnded
	case <-ctx.Done():
	case <-s.sup.ctx.Done():
	}
	if group == nil || group.Kill() != nil {
		c.killSession()
	}
	t := time.NewTimer(killWait)
	defer t.Stop()
	select {
	case <-c.Done():
	case <-t.C: // in the kernel; its status is taken by the reaper in any case
		s.sup.printf("service %s: %s: pid %d does not die", s.Name, part, c.Pid)
	}
	return fmt.Errorf("%s: %w", argv[0], why)
}

// killSession ends the process and those of its children that are still in the
// process group that it began with.
func (p *Process) killSession() {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	if p.r.procs[p.Pid] == p { // else the number may be another's
		_ = unix.Kill(-p.Pid, unix.SIGKILL)
	}
}
