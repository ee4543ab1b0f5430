package pod

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"garboard.local/init/table"
	"garboard.local/pod/manifest"
)

const sidecars = `apiVersion: v1
kind: Pod
metadata: {name: p, namespace: ns}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 7
  os: {name: linux}
  initContainers:
    - {name: i, command: [/i]}
    - name: s
      command: [/s]
      restartPolicy: Always
      startupProbe: {exec: {command: [/p]}}
      lifecycle: {preStop: {sleep: {seconds: 7}}}
    - {name: j, command: [/j]}
  containers:
    - name: c
      command: [/c]
      lifecycle: {postStart: {exec: {command: [/on, "a b"]}}, preStop: {exec: {command: [/off]}}, stopSignal: SIGUSR2}
`

// A sidecar is required by what comes behind it, and has no part in the pod's policy.
func TestSidecarsAndHooks(t *testing.T) {
	got, err := parse([]byte(sidecars))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []table.Service{
		{Name: "p-i", Restart: "Never", Once: true},
		{Name: "p-s", Restart: "Always", Sidecar: true, Requires: []string{"p-i"}, PreStop: &table.Hook{SleepSeconds: 7}},
		{Name: "p-j", Restart: "Never", Once: true, Requires: []string{"p-i", "p-s"}},
		{Name: "p-c", Restart: "Never", Requires: []string{"p-i", "p-s", "p-j"}, StopSignal: 12,
			PostStart: &table.Hook{Exec: []string{"/on", "a b"}}, PreStop: &table.Hook{Exec: []string{"/off"}}},
	} {
		want.Pod, want.GraceSeconds, want.Command = "ns/p", 7, []string{"/" + strings.TrimPrefix(want.Name, "p-")}
		got[i].Startup = nil
		if !reflect.DeepEqual(got[i], want) {
			t.Errorf("got  %+v\nwant %+v", got[i], want)
		}
	}
	if len(got) != 4 {
		t.Errorf("%d services", len(got))
	}
}

// The role of a pod is that of its first container, whatever comes before it.
func TestRoleIsNoSidecars(t *testing.T) {
	got, err := parse([]byte(strings.Replace(sidecars, "namespace: ns", "annotations: {garboard.local/role: runtime}", 1)))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range got {
		if (s.Role == table.RoleRuntime) != (s.Name == "p-c") {
			t.Errorf("%s is the %q", s.Name, s.Role)
		}
	}
}

func TestSidecarStatus(t *testing.T) {
	docs, err := manifest.Read("p.yaml", []byte(sidecars))
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := Translate(docs[0], Options{Target: Init})
	if err != nil {
		t.Fatal(err)
	}
	const up, late = saidReady + `,"up":true`, saidStarts
	ended := strings.Replace(saidOK, `"code":0`, `"code":137,"signal":9,"message":"preStop hook failed: /off: exit status 1"`, 1)
	for _, tt := range []struct {
		name, s, j, c string
		phase         corev1.PodPhase
		conditions    string
		message       string // of c
	}{
		{"starts", late, saidWaiting, saidWaiting, corev1.PodPending, "False False False", ""},
		{"runs", up, saidDone, up, corev1.PodRunning, "True True True", "signal: killed"},
		{"not ready", up, saidDone, late + `,"up":true`, corev1.PodRunning, "True False False", ""},
		{"sidecar comes again", saidBackOff, saidDone, up, corev1.PodRunning, "True False False", "signal: killed"},
		{"over", saidOK, saidDone, ended, corev1.PodFailed, "True False False", "preStop hook failed: /off: exit status 1; signal: killed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := `[{"name":"p-i",` + saidDone + `},{"name":"p-s",` + tt.s + `},{"name":"p-j",` + tt.j + `},{"name":"p-c",` + tt.c + `}]`
			got, err := Status(p, strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			var conditions []string
			for _, c := range got.Status.Conditions {
				conditions = append(conditions, string(c.Status))
			}
			if got.Status.Phase != tt.phase || strings.Join(conditions, " ") != tt.conditions || len(got.Status.InitContainerStatuses) != 3 {
				t.Errorf("%s, %v, want %s, %s", got.Status.Phase, conditions, tt.phase, tt.conditions)
			}
			c := got.Status.ContainerStatuses[0]
			last := c.LastTerminationState.Terminated
			if c.State.Terminated != nil {
				last = c.State.Terminated
			}
			if last == nil && tt.message != "" || last != nil && last.Message != tt.message {
				t.Errorf("%+v, want %q", last, tt.message)
			}
			if s := got.Status.InitContainerStatuses[1]; tt.name == "starts" && (s.Started == nil || *s.Started) || tt.name == "runs" && !*s.Started {
				t.Errorf("started: %+v", s)
			}
		})
	}
}

// How the run before the last one ended is a container's last state.
func TestStatusOfThePreviousRun(t *testing.T) {
	previous := strings.Replace(saidOK, `"last":`, `"previous":{"started":"2026-01-01T00:00:01Z","finished":"2026-01-01T00:00:02Z","code":7},"last":`, 1)
	p, err := Status(initPlan(t, "OnFailure"), strings.NewReader(said(saidDone, previous, saidOK)))
	if err != nil {
		t.Fatal(err)
	}
	c, d := p.Status.ContainerStatuses[0], p.Status.ContainerStatuses[1]
	if c.State.Terminated.ExitCode != 0 || c.LastTerminationState.Terminated == nil || c.LastTerminationState.Terminated.ExitCode != 7 || d.LastTerminationState.Terminated != nil {
		t.Errorf("%+v\n%+v", c, d)
	}
}
