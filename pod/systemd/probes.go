package systemd

import (
	"fmt"

	"garboard.local/pod"
)

// Defaults of probes, a kubelet's.
const (
	defaultPeriod   = 10
	defaultTimeout  = 1
	defaultFailures = 3
)

// helpers are the units beside a container that probe it. They are bound to it:
// they end with it, and come with it again when it is restarted.
func (w *writer) helpers(container *file, s *pod.Service) {
	startup := w.name(s.Name, "_startup.service")
	restart := w.name(s.Name, "_restart.service")
	part := func(name, title string, p *pod.Probe) *file {
		f := w.new(name, title+s.Name+" of "+w.title())
		f.unit("BindsTo", container.name)
		f.unit("After", container.name)
		if s.Startup != nil && name != startup {
			f.unit("Wants", startup)
			f.unit("After", startup)
		}
		container.unit("Wants", name)
		f.service("Slice", w.name("", ".slice"))
		w.surroundings(f, s, p)
		return f
	}
	once := func(f *file) {
		f.service("Type", "oneshot")
		f.service("RemainAfterExit", "yes")
		f.service("TimeoutStartSec", "infinity")
	}
	if p := s.Startup; p != nil {
		f := part(startup, "Waits for the start of container ", p)
		once(f)
		failures := p.Failures
		if failures == 0 {
			failures = defaultFailures
		}
		if s.Kind == pod.Sidecar {
			failures = 0 // what comes after it waits on
		} else {
			f.unit("OnFailure", restart)
		}
		f.service("ExecStart", command(w.probe(p, failures, false)))
	}
	if p := s.Readiness; p != nil {
		f := part(w.name(s.Name, "_readiness.service"), "Waits for the readiness of container ", p)
		once(f)
		f.service("ExecStart", command(w.probe(p, 0, false)))
	}
	if p := s.Liveness; p != nil {
		f := part(w.name(s.Name, "_liveness.service"), "Watches over the life of container ", p)
		f.unit("OnFailure", restart)
		f.service("Type", "exec")
		failures := p.Failures
		if failures == 0 {
			failures = defaultFailures
		}
		f.service("ExecStart", command(w.probe(p, failures, true)))
	}
	if !restarted(s) {
		return
	}
	f := w.new(restart, "Restarts container "+s.Name+" of "+w.title())
	f.service("Type", "oneshot")
	switch {
	case s.Restart == "Never":
		f.service("ExecStart", command([]string{systemctl, "stop", "--no-block", "--", container.name}))
	case s.PreStop != nil: // which a watchdog passes over
		f.service("ExecStart", command([]string{systemctl, "restart", "--no-block", "--", container.name}))
	default:
		f.service("ExecStart", command([]string{w.ProbePath, "fail", container.name}))
		w.watchdog(container, s)
	}
}

// restarted says whether a probe can have the container ended.
func restarted(s *pod.Service) bool {
	return s.Liveness != nil || s.Startup != nil && s.Kind != pod.Sidecar
}

// watchdog is what becomes of a container whose probe has failed: systemd ends it as its
// grace says, and starts it again by its policy, with the back-off, and counts that.
func (w *writer) watchdog(f *file, s *pod.Service) {
	signal := s.StopSignal
	if signal == "" {
		signal = "SIGTERM"
	}
	f.service("WatchdogSignal", signal)
	f.service("TimeoutAbortSec", w.grace())
	// The message comes in the name of the container's process, which itself has no use for the socket.
	f.service("NotifyAccess", "main")
	f.service("UnsetEnvironment", "NOTIFY_SOCKET")
}

// surroundings are the container's for a command in it, and little for the rest.
func (w *writer) surroundings(f *file, s *pod.Service, p *pod.Probe) {
	if len(p.Exec) > 0 {
		inside := *s
		inside.PreStop, inside.PostStart = nil, nil
		inside.Argv = p.Exec
		_ = w.context(f, &inside) // what it refuses was refused for the container
		if s.Root != "" {
			w.bringProbe(f)
		}
		return
	}
	w.namespaces(f)
	f.service("CapabilityBoundingSet", "")
	f.service("NoNewPrivileges", "yes")
	f.service("ProtectSystem", "strict")
}

// probe is the command line of the probe program.
func (w *writer) probe(p *pod.Probe, failures int, watch bool) []string {
	argv := []string{w.ProbePath}
	if watch {
		argv = append(argv, "--watch")
	}
	for _, o := range []struct {
		name       string
		value, def int
		unit       string
	}{{"delay", p.Delay, 0, "s"}, {"period", p.Period, defaultPeriod, "s"}, {"timeout", p.Timeout, defaultTimeout, "s"}, {"successes", p.Successes, 0, ""}, {"failures", failures, 0, ""}} {
		if o.value == 0 {
			o.value = o.def
		}
		if o.value != 0 {
			argv = append(argv, fmt.Sprintf("--%s=%d%s", o.name, o.value, o.unit))
		}
	}
	switch {
	case len(p.Exec) > 0:
		return append(append(argv, "exec"), p.Exec...)
	case p.TCP != "":
		return append(argv, "tcp", p.TCP)
	case p.Unix != "":
		return append(argv, "unix", p.Unix)
	case p.GRPC != nil:
		return append(argv, "grpc", p.GRPC.Address, p.GRPC.Service)
	}
	argv = append(argv, "http", p.HTTP.URL)
	for _, h := range p.HTTP.Headers {
		argv = append(argv, h.Name+": "+h.Value)
	}
	return argv
}
