package supervise

import (
	"context"
	"fmt"
	"time"

	"garboard.local/init/table"
)

// attend accompanies one run of a service with its postStart hook and its probes:
// startup, then readiness, and liveness beside it. It returns when the run has ended.
func (s *service) attend(ctx context.Context, p *Process, began time.Time) {
	if s.Once {
		return // it is done when it has ended
	}
	if !s.postStart(ctx, p) {
		return
	}
	if err := s.until(ctx, p, "startup", s.Startup); err != nil {
		s.ill(ctx, p, "startup probe", err)
		return
	}
	s.comesUp(p)
	alive := make(chan struct{})
	go func() {
		defer close(alive)
		defer s.sup.guard("liveness of " + s.Name)
		s.live(ctx, p)
	}()
	if s.until(ctx, p, "readiness", s.Service.Ready) == nil && running(ctx, p) {
		s.set(Ready)
		s.sup.printf("service %s: ready, %s", s.Name, time.Since(began).Round(10*time.Millisecond))
	}
	<-alive
}

func running(ctx context.Context, p *Process) bool {
	select {
	case <-p.Done():
		return false
	default:
		return ctx.Err() == nil
	}
}

// live probes until the run ends or has failed too often.
func (s *service) live(ctx context.Context, p *Process) {
	if s.Live == nil {
		return
	}
	watch := *s.Live
	watch.Successes = -1 // never enough
	if err := s.until(ctx, p, "liveness", &watch); err != nil {
		s.ill(ctx, p, "liveness probe", err)
	}
}

// until probes until enough attempts in a row have succeeded. The error is the
// last of too many failures; the end of the run is none. No probe succeeds at once.
func (s *service) until(ctx context.Context, p *Process, which string, probe *table.Probe) error {
	if probe == nil || !s.delay(ctx, p, time.Duration(probe.DelayMillis)*time.Millisecond) {
		return nil
	}
	tick := time.NewTicker(millis(probe.PeriodMillis, defaultPeriod))
	defer tick.Stop()
	enough := probe.Successes
	if enough == 0 {
		enough = 1
	}
	for good, bad := 0, 0; running(ctx, p); {
		err := s.probe(ctx, which, probe, p)
		switch {
		case err == nil:
			if good, bad = good+1, 0; good == enough {
				return nil
			}
		case running(ctx, p): // else it failed because the run has ended
			if good, bad = 0, bad+1; probe.Failures > 0 && bad >= probe.Failures {
				return fmt.Errorf("failed %d times in a row: %w", bad, err)
			}
		}
		select {
		case <-tick.C:
		case <-p.Done():
		case <-ctx.Done():
		}
	}
	return nil
}

// delay waits before a first attempt; false if the run ended first.
func (s *service) delay(ctx context.Context, p *Process, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-p.Done():
	case <-ctx.Done():
	}
	return false
}

// ill ends a run whose probe or postStart hook has failed; what comes then is the
// policy's.
func (s *service) ill(ctx context.Context, p *Process, which string, err error) {
	if s.isFinal() {
		return // it is being ended anyway
	}
	s.set(Starting)
	s.sup.printf("service %s: %s %s", s.Name, which, err)
	s.accuse(p, "%s %s", which, err)
	s.stop(ctx, which+" failed")
}
