package systemd

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"garboard.local/pod"
	"garboard.local/pod/manifest"
)

func statusPlan(t *testing.T, policy string) *pod.Plan {
	t.Helper()
	docs, err := manifest.Read("p.yaml", []byte(fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: p, namespace: ns}
spec:
  restartPolicy: %s
  initContainers: [{name: i, command: [/i]}]
  containers:
    - {name: c-1, image: x, command: [/c], readinessProbe: {tcpSocket: {port: 1}}}
    - {name: d, command: [/d], startupProbe: {tcpSocket: {port: 1}}}
`, policy)))
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := pod.Translate(docs[0], pod.Options{Target: pod.Systemd})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// show makes what systemctl show prints.
func show(units ...string) string { return strings.Join(units, "\n\n") + "\n" }

func ended(id string, code, status int, more string) string {
	return fmt.Sprintf("Id=%s\nMainPID=0\nExecMainStartTimestamp=@100\nExecMainExitTimestamp=@160\nExecMainCode=%d\nExecMainStatus=%d\nNRestarts=2\n%s", id, code, status, more)
}

func running(id string) string {
	return "Id=" + id + "\nMainPID=77\nExecMainStartTimestamp=@200\nExecMainExitTimestamp=\nActiveState=active\nNRestarts=1"
}

const (
	unitI = `pod-ns-p-i.service`
	unitC = `pod-ns-p-c\x2d1.service`
	unitD = `pod-ns-p-d.service`
	up    = "ActiveState=active"
)

func TestStatus(t *testing.T) {
	sandbox := "Id=pod-ns-p.service\nActiveState=active\nActiveEnterTimestamp=@99"
	ready := "Id=pod-ns-p-c\\x2d1_readiness.service\n" + up
	started := "Id=pod-ns-p-d_startup.service\n" + up
	for _, c := range []struct {
		name, policy, show string
		phase              corev1.PodPhase
		want               string // of init, c-1 and d
		ready              bool
	}{
		{"nothing yet", "Always", show(sandbox, "Id="+unitI+"\nMainPID=0"), corev1.PodPending, "waiting PodInitializing; waiting PodInitializing; waiting PodInitializing", false},
		{"init runs", "Always", show(sandbox, running(unitI)), corev1.PodPending, "running 200; waiting PodInitializing; waiting PodInitializing", false},
		{"all run and are ready", "Always", show(sandbox, ended(unitI, 1, 0, ""), running(unitC), ready, running(unitD), started), corev1.PodRunning, "ended 0 Completed; running 200; running 200", true},
		{"not ready", "Always", show(sandbox, ended(unitI, 1, 0, ""), running(unitC), running(unitD), started), corev1.PodRunning, "ended 0 Completed; running 200; running 200", false},
		{"crash loop", "Always", show(sandbox, ended(unitI, 1, 0, ""), ended(unitC, 1, 3, "SubState=auto-restart"), running(unitD), started), corev1.PodRunning, "ended 0 Completed; waiting CrashLoopBackOff, before: 3 Error; running 200", false},
		{"succeeded", "OnFailure", show(sandbox, ended(unitI, 1, 0, ""), ended(unitC, 1, 0, ""), ended(unitD, 1, 0, "")), corev1.PodSucceeded, "ended 0 Completed; ended 0 Completed; ended 0 Completed", false},
		{"failed", "Never", show(sandbox, ended(unitI, 1, 0, ""), ended(unitC, 1, 0, ""), ended(unitD, 2, 9, "Result=oom-kill")), corev1.PodFailed, "ended 0 Completed; ended 0 Completed; ended 137 OOMKilled", false},
		{"init failed for good", "Never", show(sandbox, ended(unitI, 1, 4, "Result=exit-code")), corev1.PodFailed, "ended 4 Error; waiting PodInitializing; waiting PodInitializing", false},
		{"one still runs", "Never", show(sandbox, ended(unitI, 1, 0, ""), ended(unitC, 1, 1, ""), running(unitD), started), corev1.PodRunning, "ended 0 Completed; ended 1 Error; running 200", false},
		{"cannot be executed", "Always", show(sandbox, ended(unitI, 1, 0, ""), "Id="+unitC+"\nMainPID=0\nResult=exit-code", running(unitD)), corev1.PodRunning, "ended 0 Completed; waiting RunContainerError; running 200", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Status(statusPlan(t, c.policy), strings.NewReader(c.show))
			if err != nil {
				t.Fatal(err)
			}
			var words []string
			for _, s := range append(got.Status.InitContainerStatuses, got.Status.ContainerStatuses...) {
				switch st := s.State; {
				case st.Running != nil:
					words = append(words, fmt.Sprintf("running %d", st.Running.StartedAt.Unix()))
				case st.Terminated != nil:
					words = append(words, fmt.Sprintf("ended %d %s", st.Terminated.ExitCode, st.Terminated.Reason))
					if s.RestartCount != 2 || st.Terminated.StartedAt.Unix() != 100 || st.Terminated.FinishedAt.Unix() != 160 {
						t.Errorf("%s: %+v", s.Name, s)
					}
				case s.LastTerminationState.Terminated != nil:
					l := s.LastTerminationState.Terminated
					words = append(words, fmt.Sprintf("waiting %s, before: %d %s", st.Waiting.Reason, l.ExitCode, l.Reason))
				default:
					words = append(words, "waiting "+st.Waiting.Reason)
				}
			}
			if s := strings.Join(words, "; "); s != c.want || got.Status.Phase != c.phase {
				t.Errorf("%s: %s; want %s: %s", got.Status.Phase, s, c.phase, c.want)
			}
			ready := got.Status.Conditions[len(got.Status.Conditions)-1]
			if (ready.Status == corev1.ConditionTrue) != c.ready || ready.Type != corev1.PodReady {
				t.Errorf("condition %+v, want ready %v", ready, c.ready)
			}
			if got.Status.StartTime == nil || got.Status.StartTime.Unix() != 99 {
				t.Errorf("start time %v", got.Status.StartTime)
			}
		})
	}
}

func TestStatusErrors(t *testing.T) {
	p := statusPlan(t, "Always")
	for in, want := range map[string]string{
		"": "systemctl show --all --timestamp=unix -- 'pod-ns-p*'",
		"Id=" + unitI + "\nExecMainStartTimestamp=Sun 2026-11-29 20:00:18 UTC\n": "add --timestamp=unix",
	} {
		if _, err := Status(p, strings.NewReader(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", in, err, want)
		}
	}
}

func FuzzStatus(f *testing.F) {
	f.Add(show(ended(unitC, 2, 9, "")))
	f.Add("Id=" + unitC + "\nExecMainStatus=99999999999999\nExecMainCode=2\nExecMainExitTimestamp=@1\n")
	f.Fuzz(func(t *testing.T, s string) {
		got, err := Status(statusPlan(t, "Never"), strings.NewReader(s))
		if err == nil && got.Status.Phase == "" {
			t.Errorf("%q has no phase", s)
		}
	})
}
