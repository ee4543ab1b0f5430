package pod

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"garboard.local/init/table"
)

// maxStatus is the longest status of PID 1 that is read, in bytes.
const maxStatus = 4 << 20

// Status makes a pod's status of what PID 1 says of its services in
// table.StatusPath, as a kubelet would report it. The plan is one for Init.
func Status(p *Plan, from io.Reader) (*corev1.Pod, error) {
	b, err := io.ReadAll(io.LimitReader(from, maxStatus+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxStatus {
		return nil, fmt.Errorf("status of the services: more than %d bytes", maxStatus)
	}
	var list []table.ServiceStatus
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, fmt.Errorf("status of the services: %w; a node has it in %s", err, table.StatusPath)
	}
	said := map[string]table.ServiceStatus{}
	for _, s := range list {
		if _, twice := said[s.Name]; twice {
			return nil, fmt.Errorf("status of the services: %q is there twice", s.Name)
		}
		said[s.Name] = s
	}
	out := p.object()
	st := &out.Status
	initialized, ready := true, true
	for i, t := range p.table() {
		s, ok := said[t.Name]
		if !ok {
			return nil, fmt.Errorf("status of the services: %s is not in it; it is that of a node with other services", t.Name)
		}
		c, err := containerStatus(&p.Services[i], s)
		if err != nil {
			return nil, fmt.Errorf("status of the services: %s: %w", t.Name, err)
		}
		if s.Started != nil && (st.StartTime == nil || s.Started.Before(st.StartTime.Time)) {
			at := metav1.NewTime(s.Started.UTC().Truncate(time.Second))
			st.StartTime = &at
		}
		switch p.Services[i].Kind {
		case InitContainer:
			initialized = initialized && c.Ready
			st.InitContainerStatuses = append(st.InitContainerStatuses, c)
			continue
		case Sidecar:
			initialized, ready = initialized && s.Up, ready && c.Ready
			st.InitContainerStatuses = append(st.InitContainerStatuses, c)
			continue
		}
		ready = ready && c.Ready
		st.ContainerStatuses = append(st.ContainerStatuses, c)
	}
	for _, c := range st.ContainerStatuses { // one that has run proves it, whatever a sidecar does now
		initialized = initialized || c.State.Waiting == nil || c.LastTerminationState.Terminated != nil
	}
	st.Phase = Phase(p, st)
	st.Conditions = Conditions(initialized, ready)
	return out, nil
}

// object is the pod without a status.
func (p *Plan) object() *corev1.Pod {
	return &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{
		Name: p.Name, Namespace: p.Namespace, Labels: p.Labels, Annotations: p.Annotations,
	}}
}

func containerStatus(s *Service, said table.ServiceStatus) (corev1.ContainerStatus, error) {
	c := corev1.ContainerStatus{Name: s.Name, Image: s.Image, RestartCount: int32(said.Restarts)}
	last := terminatedState(said.Last)
	var started bool
	switch said.State {
	case table.StateStarting, table.StateReady:
		started = said.Up || said.State == table.StateReady
		c.State.Running, c.Ready, c.Started = &corev1.ContainerStateRunning{}, said.State == table.StateReady, &started
		if said.Started != nil {
			c.State.Running.StartedAt = metav1.NewTime(said.Started.UTC().Truncate(time.Second))
		}
		c.LastTerminationState.Terminated = last
	case table.StateBackOff:
		c.State.Waiting = &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off before the next start"}
		if said.Error != "" {
			c.State.Waiting.Reason, c.State.Waiting.Message = "RunContainerError", said.Error
		}
		c.LastTerminationState.Terminated = last
	case table.StateDone, table.StateEnded:
		switch {
		case last != nil:
			c.State.Terminated, c.Ready = last, said.State == table.StateDone
			c.LastTerminationState.Terminated = terminatedState(said.Previous)
		case said.Error != "":
			c.State.Waiting = &corev1.ContainerStateWaiting{Reason: "RunContainerError", Message: said.Error}
		default:
			c.State.Waiting = &corev1.ContainerStateWaiting{Reason: "PodInitializing", Message: "not started: what it requires has failed"}
		}
	case table.StateWaiting:
		c.State.Waiting = &corev1.ContainerStateWaiting{Reason: "PodInitializing"}
		c.LastTerminationState.Terminated = last
	default:
		return c, fmt.Errorf("%q is no state", said.State)
	}
	return c, nil
}

func terminatedState(e *table.ServiceExit) *corev1.ContainerStateTerminated {
	if e == nil {
		return nil
	}
	t := &corev1.ContainerStateTerminated{ExitCode: int32(e.Code), Signal: int32(e.Signal), Reason: "Completed",
		StartedAt: metav1.NewTime(e.Started.UTC().Truncate(time.Second)), FinishedAt: metav1.NewTime(e.Finished.UTC().Truncate(time.Second))}
	if t.ExitCode != 0 {
		t.Reason = "Error"
	}
	if t.Message = e.Message; e.Signal != 0 {
		t.Message = strings.TrimPrefix(t.Message+"; signal: "+syscall.Signal(e.Signal).String(), "; ")
	}
	return t
}

// Phase follows the Pod life cycle: Pending until a container has run, Running
// while one runs or is going to, then Succeeded or Failed.
func Phase(p *Plan, st *corev1.PodStatus) corev1.PodPhase {
	failed, ended, begun := false, 0, false
	for _, c := range st.ContainerStatuses {
		begun = begun || c.State.Waiting == nil || c.LastTerminationState.Terminated != nil
		t := c.State.Terminated
		policy := p.Services[slices.IndexFunc(p.Services, func(s Service) bool { return s.Name == c.Name })].Restart
		if t == nil || policy == "Always" || t.ExitCode != 0 && policy == "OnFailure" {
			continue // it runs, or comes again
		}
		ended++
		failed = failed || t.ExitCode != 0
	}
	for _, c := range st.InitContainerStatuses {
		at := slices.IndexFunc(p.Services, func(s Service) bool { return s.Name == c.Name })
		if t := c.State.Terminated; at >= 0 && p.Services[at].Kind == InitContainer && p.Services[at].Restart == "Never" && t != nil && t.ExitCode != 0 {
			return corev1.PodFailed
		}
	}
	switch {
	case ended == len(st.ContainerStatuses) && failed:
		return corev1.PodFailed
	case ended == len(st.ContainerStatuses):
		return corev1.PodSucceeded
	case begun:
		return corev1.PodRunning
	}
	return corev1.PodPending
}

// Conditions are those of a pod whose init containers have ended well or not, and
// whose containers are all ready or not.
func Conditions(initialized, ready bool) []corev1.PodCondition {
	var out []corev1.PodCondition
	for _, c := range []struct {
		kind corev1.PodConditionType
		ok   bool
	}{{corev1.PodInitialized, initialized}, {corev1.ContainersReady, ready}, {corev1.PodReady, ready && initialized}} {
		status := corev1.ConditionFalse
		if c.ok {
			status = corev1.ConditionTrue
		}
		out = append(out, corev1.PodCondition{Type: c.kind, Status: status})
	}
	return out
}
