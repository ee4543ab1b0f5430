package systemd

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/unit"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"garboard.local/pod"
)

// ShowCommand is what has to be asked on the machine; its output is Status' input.
// Without --all systemctl leaves out what has ended.
func ShowCommand(p *pod.Plan) string {
	return "systemctl show --all --timestamp=unix -- " + "'" + base(p.Namespace, p.Name) + "*'"
}

// maxLine is the longest line of systemctl show that is read, in bytes.
const maxLine = 4 << 20

// properties reads what systemctl show prints of several units: lines of
// NAME=VALUE, and an empty one between two units.
func properties(r io.Reader) (map[string]map[string]string, error) {
	out := map[string]map[string]string{}
	current := map[string]string{}
	flush := func() {
		if id := current["Id"]; id != "" {
			out[id] = current
		}
		current = map[string]string{}
	}
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxLine)
	for s.Scan() {
		name, value, ok := strings.Cut(s.Text(), "=")
		if !ok {
			flush()
			continue
		}
		current[name] = value
	}
	flush()
	return out, s.Err()
}

// Status makes a pod's status of what `systemctl show --all --timestamp=unix` says of
// its units, as a kubelet would report it.
func Status(p *pod.Plan, show io.Reader) (*corev1.Pod, error) {
	units, err := properties(show)
	if err != nil {
		return nil, fmt.Errorf("output of systemctl show: %w", err)
	}
	if len(units) == 0 {
		return nil, errors.New("output of systemctl show: no unit in it; it is made with " + ShowCommand(p))
	}
	out := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{
		Name: p.Name, Namespace: p.Namespace, UID: "", Labels: p.Labels, Annotations: p.Annotations,
	}}
	st := &out.Status
	var initialized, ready = true, true
	for i := range p.Services {
		s := &p.Services[i]
		name := base(p.Namespace, p.Name) + "-" + unit.UnitNameEscape(s.Name)
		c, err := container(s, units[name+".service"])
		if err != nil {
			return nil, err
		}
		switch s.Kind {
		case pod.InitContainer:
			c.Ready = c.State.Terminated != nil && c.State.Terminated.ExitCode == 0
			initialized = initialized && c.Ready
		default:
			if s.Readiness != nil {
				c.Ready = c.Ready && units[name+"_readiness.service"]["ActiveState"] == "active"
			}
			ready = ready && c.Ready
		}
		if s.Startup != nil {
			started := units[name+"_startup.service"]["ActiveState"] == "active"
			c.Started, c.Ready = &started, c.Ready && started
		}
		if s.Kind == pod.Container {
			st.ContainerStatuses = append(st.ContainerStatuses, c)
		} else {
			st.InitContainerStatuses = append(st.InitContainerStatuses, c)
		}
	}
	sandbox := units[base(p.Namespace, p.Name)+".service"]
	if at, err := timestamp(sandbox["ActiveEnterTimestamp"]); err != nil {
		return nil, err
	} else if !at.IsZero() {
		st.StartTime = &at
	}
	if st.Phase = pod.Phase(p, st); sandbox["ActiveState"] == "failed" {
		st.Phase = corev1.PodFailed
	}
	st.Conditions = pod.Conditions(initialized, ready)
	return out, nil
}

// container is one container's state out of its unit's properties.
func container(s *pod.Service, u map[string]string) (corev1.ContainerStatus, error) {
	c := corev1.ContainerStatus{Name: s.Name, Image: s.Image}
	if n, err := strconv.Atoi(u["NRestarts"]); err == nil {
		c.RestartCount = int32(n)
	}
	started, err := timestamp(u["ExecMainStartTimestamp"])
	if err != nil {
		return c, err
	}
	ended, err := timestamp(u["ExecMainExitTimestamp"])
	if err != nil {
		return c, err
	}
	running := u["MainPID"] != "" && u["MainPID"] != "0"
	yes := true
	switch {
	case running:
		c.State.Running = &corev1.ContainerStateRunning{StartedAt: started}
		c.Ready, c.Started = true, &yes
	case !ended.IsZero():
		t := terminated(u, started, ended)
		if u["SubState"] == "auto-restart" {
			c.State.Waiting = &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off before the next start"}
			c.LastTerminationState.Terminated = t
		} else {
			c.State.Terminated = t
		}
	case u["Result"] != "" && u["Result"] != "success":
		c.State.Waiting = &corev1.ContainerStateWaiting{Reason: "RunContainerError", Message: u["Result"]}
	default:
		c.State.Waiting = &corev1.ContainerStateWaiting{Reason: "PodInitializing"}
	}
	return c, nil
}

// The codes by which a child ended (CLD_ in sigaction(2)), as ExecMainCode= has them.
const (
	exited = "1"
	killed = "2"
	dumped = "3"
)

func terminated(u map[string]string, started, ended metav1.Time) *corev1.ContainerStateTerminated {
	t := &corev1.ContainerStateTerminated{StartedAt: started, FinishedAt: ended, Reason: "Completed"}
	n, _ := strconv.Atoi(u["ExecMainStatus"])
	t.ExitCode = int32(n)
	if code := u["ExecMainCode"]; code == killed || code == dumped {
		t.Signal, t.ExitCode = int32(n), 128+int32(n) // as container runtimes count
		t.Message = "signal: " + syscall.Signal(n).String()
	} else if code != exited {
		t.Message = "no exit status is known"
	}
	switch {
	case u["Result"] == "oom-kill":
		t.Reason = "OOMKilled"
	case t.ExitCode != 0:
		t.Reason = "Error"
	}
	return t
}

// timestamp reads @SECONDS; nothing, n/a and 0 mean never.
func timestamp(s string) (metav1.Time, error) {
	if s == "" || s == "n/a" || s == "@0" {
		return metav1.Time{}, nil
	}
	n, err := strconv.ParseInt(strings.TrimPrefix(s, "@"), 10, 64)
	if err != nil || s[0] != '@' {
		return metav1.Time{}, fmt.Errorf("output of systemctl show: the time %q is not in seconds; add --timestamp=unix", s)
	}
	return metav1.NewTime(time.Unix(n, 0).UTC()), nil
}
