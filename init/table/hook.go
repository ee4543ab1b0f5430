package table

import (
	"fmt"
	"strings"
)

// Hook is what is done when a service has started, or before it is signalled to
// end. Exactly one of Exec and SleepSeconds is set.
type Hook struct {
	// Exec is argv of a program that runs as the service does: as its user, with its
	// capabilities, limits, environment and mounts. Exit status 0 is success.
	Exec         []string `json:"exec,omitempty"`
	SleepSeconds int64    `json:"sleepSeconds,omitempty"`
}

// MinGraceSeconds lie between a service's stop signal and SIGKILL at least, however
// much of its grace a hook, or waiting for its turn, has used up. A kubelet gives the
// same (minimumGracePeriodInSeconds).
const MinGraceSeconds = 2

// highestSignal is that of signals that have one number everywhere, SIGSYS.
const highestSignal = 31

// checkEnd looks at how a service begins and ends: its hooks, and its place in a pod.
func (s *Service) checkEnd() error {
	for name, h := range map[string]*Hook{"postStart": s.PostStart, "preStop": s.PreStop} {
		switch {
		case h == nil:
		case s.Once:
			return fmt.Errorf("a task ends by itself; it has no %s hook", name)
		case (len(h.Exec) > 0) == (h.SleepSeconds > 0) || h.SleepSeconds < 0:
			return fmt.Errorf("its %s hook is either a command or a sleep of some seconds", name)
		case len(h.Exec) > 0 && (h.Exec[0] == "" || h.Exec[0][0] != '/'):
			return fmt.Errorf("the command of its %s hook must begin with an absolute path", name)
		}
	}
	switch {
	case s.StopSignal < 0 || s.StopSignal > highestSignal:
		return fmt.Errorf("stop signal %d is not between 1 and %d", s.StopSignal, highestSignal)
	case s.Sidecar && (s.Pod == "" || s.Once || s.Restart != RestartAlways):
		return fmt.Errorf("a sidecar belongs to a pod, is no task, and is always restarted")
	}
	return nil
}

// Programs are what the service executes out of the root image: its command, and
// those of its hooks and probes that do not lie in one of its mounts.
func (s *Service) Programs() []string {
	out := []string{s.Command[0]}
	add := func(argv []string) {
		if len(argv) == 0 {
			return
		}
		for _, m := range s.Mounts {
			if argv[0] == m.Target || strings.HasPrefix(argv[0], m.Target+"/") {
				return
			}
		}
		out = append(out, argv[0])
	}
	for _, h := range []*Hook{s.PostStart, s.PreStop} {
		if h != nil {
			add(h.Exec)
		}
	}
	for _, p := range []*Probe{s.Startup, s.Live, s.Ready} {
		if p != nil {
			add(p.Exec)
		}
	}
	return out
}
