package pod

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

func (t *translation) probes(at string, c *corev1.Container, s *Service) {
	for _, p := range []struct {
		name string
		from *corev1.Probe
		to   **Probe
	}{{"startupProbe", c.StartupProbe, &s.Startup}, {"livenessProbe", c.LivenessProbe, &s.Liveness}, {"readinessProbe", c.ReadinessProbe, &s.Readiness}} {
		if p.from == nil {
			continue
		}
		if s.Kind == InitContainer {
			t.refuse(at+"."+p.name, "an init container has none: it is ready when it has ended")
			continue
		}
		*p.to = t.probe(at+"."+p.name, c, s, p.from)
	}
}

func (t *translation) probe(at string, c *corev1.Container, s *Service, p *corev1.Probe) *Probe {
	out := &Probe{
		Delay: int(p.InitialDelaySeconds), Period: int(p.PeriodSeconds), Timeout: int(p.TimeoutSeconds),
		Successes: int(p.SuccessThreshold), Failures: int(p.FailureThreshold),
	}
	for _, n := range []struct {
		name string
		v    int
	}{{"initialDelaySeconds", out.Delay}, {"periodSeconds", out.Period}, {"timeoutSeconds", out.Timeout}, {"successThreshold", out.Successes}, {"failureThreshold", out.Failures}} {
		if n.v < 0 || n.v > maxGraceSeconds {
			t.refuse(at+"."+n.name, "%d is not between 0 and %d", n.v, maxGraceSeconds)
		}
	}
	if out.Successes > 1 && !strings.HasSuffix(at, "readinessProbe") {
		t.refuse(at+".successThreshold", "must be 1 for liveness and startup, as in Kubernetes")
	}
	n := 0
	if e := p.Exec; e != nil {
		n++
		if out.Exec = e.Command; len(e.Command) == 0 || e.Command[0] == "" {
			t.refuse(at+".exec.command", "is empty")
		} else {
			out.Exec = t.argv(at+".exec.command", e.Command, s)
		}
	}
	if tcp := p.TCPSocket; tcp != nil {
		n++
		number, err := port(c, tcp.Port)
		if err != nil {
			t.refuse(at+".tcpSocket.port", "%v", err)
		}
		out.TCP = hostPort(tcp.Host, number)
	}
	if h := p.HTTPGet; h != nil {
		n++
		if t.Target == Systemd {
			out.HTTP = t.httpProbe(at+".httpGet", c, h)
		}
	}
	if g := p.GRPC; g != nil {
		n++
		out.GRPC = &GRPCProbe{Address: hostPort("", int(g.Port))}
		if g.Service != nil {
			out.GRPC.Service = *g.Service
		}
		if g.Port < 1 || g.Port > 65535 {
			t.refuse(at+".grpc.port", "%d is not a port number", g.Port)
		}
	}
	if n != 1 {
		t.refuse(at, "%d ways to probe are given; one of exec, tcpSocket, httpGet and grpc is needed", n)
	}
	return out
}

func (t *translation) httpProbe(at string, c *corev1.Container, h *corev1.HTTPGetAction) *HTTPProbe {
	scheme := strings.ToLower(string(h.Scheme))
	if scheme == "" {
		scheme = "http"
	}
	if scheme != "http" && scheme != "https" {
		t.refuse(at+".scheme", "%q is neither HTTP nor HTTPS", h.Scheme)
	}
	number, err := port(c, h.Port)
	if err != nil {
		t.refuse(at+".port", "%v", err)
	}
	u, err := url.Parse(h.Path)
	if err != nil {
		t.refuse(at+".path", "%v", err)
		u = &url.URL{}
	}
	u.Scheme, u.Host = scheme, hostPort(h.Host, number)
	if u.Path == "" || u.Path[0] != '/' {
		u.Path = "/" + u.Path
	}
	out := &HTTPProbe{URL: u.String()}
	for i, x := range h.HTTPHeaders {
		if x.Name == "" || strings.ContainsAny(x.Name+x.Value, "\r\n") || strings.ContainsAny(x.Name, ": ") {
			t.refuse(fmt.Sprintf("%s.httpHeaders[%d].name", at, i), "%q: %q is not a header", x.Name, x.Value)
		}
		out.Headers = append(out.Headers, Setting{x.Name, x.Value})
	}
	return out
}

func (t *translation) lifecycle(at string, c *corev1.Container, s *Service) {
	l := c.Lifecycle
	if l == nil {
		return
	}
	if s.Kind == InitContainer {
		t.refuse(at+".lifecycle", "an init container has none: it ends by itself")
		return
	}
	s.PreStop = t.hook(at+".lifecycle.preStop", s, l.PreStop)
	s.PostStart = t.hook(at+".lifecycle.postStart", s, l.PostStart)
	if l.StopSignal != nil {
		if s.StopSignal = string(*l.StopSignal); !strings.HasPrefix(s.StopSignal, "SIG") || strings.Contains(s.StopSignal, "RTM") {
			t.refuse(at+".lifecycle.stopSignal", "%q: real-time signals are not the same numbers everywhere; use another", s.StopSignal)
		} else if t.Target == Init && signals[s.StopSignal] == 0 {
			t.refuse(at+".lifecycle.stopSignal", "%q is not a signal", s.StopSignal)
		}
	}
}

func (t *translation) hook(at string, s *Service, h *corev1.LifecycleHandler) []string {
	switch {
	case h == nil:
	case h.Exec != nil && len(h.Exec.Command) > 0 && h.Exec.Command[0] != "":
		return t.argv(at+".exec.command", h.Exec.Command, s)
	case h.Exec != nil:
		t.refuse(at+".exec", "the command is empty")
	case h.Sleep != nil && t.Target == Init && (h.Sleep.Seconds < 1 || h.Sleep.Seconds > t.plan.Grace):
		// as in Kubernetes, where a hook's sleep is part of the grace
		t.refuse(at+".sleep.seconds", "%d is not between 1 and the grace of %d", h.Sleep.Seconds, t.plan.Grace)
	case h.Sleep != nil:
		return []string{"", "sleep", fmt.Sprintf("%ds", h.Sleep.Seconds)}
	}
	return nil
}

// argv is the command of a hook or a probe.
func (t *translation) argv(at string, command []string, s *Service) []string {
	if t.Target != Init {
		return command
	}
	out := slices.Clone(command)
	out[0] = t.program(at, out[0], s)
	return out
}
