package pod

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"garboard.local/pod/manifest"
)

func initPlan(t testing.TB, policy string) *Plan {
	t.Helper()
	docs, err := manifest.Read("p.yaml", []byte(`apiVersion: v1
kind: Pod
metadata: {name: p, namespace: ns}
spec:
  restartPolicy: `+policy+`
  hostNetwork: true
  hostPID: true
  hostIPC: true
  initContainers: [{name: i, command: [/i]}]
  containers:
    - {name: c, command: [/c]}
    - {name: d, command: [/d], startupProbe: {tcpSocket: {port: 1}}}
`))
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := Translate(docs[0], Options{Target: Init})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// said is what PID 1 says of p-i, p-c and p-d, between the other services of a node.
func said(i, c, d string) string {
	return `[{"name":"crio","state":"ready","pid":9,"restarts":0},{"name":"p-i",` + i + `},{"name":"p-c",` + c + `},{"name":"p-d",` + d + `}]`
}

const (
	saidDone    = `"state":"done","restarts":1,"started":"2026-01-01T00:00:01.5Z","last":{"started":"2026-01-01T00:00:01.5Z","finished":"2026-01-01T00:00:02.7Z","code":0}`
	saidFailed  = `"state":"ended","restarts":0,"started":"2026-01-01T00:00:03Z","last":{"started":"2026-01-01T00:00:03Z","finished":"2026-01-01T00:00:04Z","code":3}`
	saidOK      = `"state":"ended","restarts":0,"started":"2026-01-01T00:00:03Z","last":{"started":"2026-01-01T00:00:03Z","finished":"2026-01-01T00:00:04Z","code":0}`
	saidReady   = `"state":"ready","pid":7,"restarts":2,"started":"2026-01-01T00:00:05Z","last":{"started":"2026-01-01T00:00:03Z","finished":"2026-01-01T00:00:04Z","code":137,"signal":9}`
	saidStarts  = `"state":"starting","pid":7,"restarts":0,"started":"2026-01-01T00:00:05Z"`
	saidBackOff = `"state":"back-off","restarts":1,"started":"2026-01-01T00:00:03Z","last":{"started":"2026-01-01T00:00:03Z","finished":"2026-01-01T00:00:04Z","code":1}`
	saidMissing = `"state":"back-off","restarts":0,"error":"fork/exec /c: no such file"`
	saidWaiting = `"state":"waiting","restarts":0`
)

func TestStatus(t *testing.T) {
	for _, tt := range []struct {
		name, policy string
		i, c, d      string
		phase        corev1.PodPhase
		conditions   string // initialized, containers ready, ready
		want         string // of c: state, reason, code, signal, restarts
	}{
		{"runs", "Always", saidDone, saidReady, saidReady, corev1.PodRunning, "True True True", "running - 137 9 2"},
		{"not ready", "Always", saidDone, saidReady, saidStarts, corev1.PodRunning, "True False False", "running - 137 9 2"},
		{"back-off", "Always", saidDone, saidBackOff, saidReady, corev1.PodRunning, "True False False", "waiting CrashLoopBackOff 1 0 1"},
		{"cannot start", "Always", saidDone, saidMissing, saidReady, corev1.PodRunning, "True False False", "waiting RunContainerError - - 0"},
		{"init waits", "Always", saidWaiting, saidWaiting, saidWaiting, corev1.PodPending, "False False False", "waiting PodInitializing - - 0"},
		{"init failed", "Never", saidFailed, `"state":"ended","restarts":0`, `"state":"ended","restarts":0`, corev1.PodFailed, "False False False", "waiting PodInitializing - - 0"},
		{"both succeeded", "Never", saidDone, saidOK, saidOK, corev1.PodSucceeded, "True False False", "terminated Completed 0 0 0"},
		{"one failed", "Never", saidDone, saidFailed, saidOK, corev1.PodFailed, "True False False", "terminated Error 3 0 0"},
		{"one still runs", "Never", saidDone, saidFailed, saidReady, corev1.PodRunning, "True False False", "terminated Error 3 0 0"},
		{"comes again", "OnFailure", saidDone, saidBackOff, saidOK, corev1.PodRunning, "True False False", "waiting CrashLoopBackOff 1 0 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := Status(initPlan(t, tt.policy), strings.NewReader(said(tt.i, tt.c, tt.d)))
			if err != nil {
				t.Fatal(err)
			}
			var conditions []string
			for _, c := range p.Status.Conditions {
				conditions = append(conditions, string(c.Status))
			}
			if p.Status.Phase != tt.phase || strings.Join(conditions, " ") != tt.conditions {
				t.Errorf("%s, %v, want %s, %s", p.Status.Phase, conditions, tt.phase, tt.conditions)
			}
			if got := summary(p.Status.ContainerStatuses[0]); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

func summary(c corev1.ContainerStatus) string {
	state, reason := "running", "-"
	last := c.LastTerminationState.Terminated
	switch {
	case c.State.Waiting != nil:
		state, reason = "waiting", c.State.Waiting.Reason
	case c.State.Terminated != nil:
		last = c.State.Terminated
		state, reason = "terminated", last.Reason
	}
	b, code := []byte("-"), "-"
	if last != nil {
		b, _ = json.Marshal(last.ExitCode)
		code, b = string(b), nil
		b, _ = json.Marshal(last.Signal)
	}
	n, _ := json.Marshal(c.RestartCount)
	return state + " " + reason + " " + code + " " + string(b) + " " + string(n)
}

func TestStatusTimes(t *testing.T) {
	p, err := Status(initPlan(t, "Always"), strings.NewReader(said(saidDone, saidReady, saidReady)))
	if err != nil {
		t.Fatal(err)
	}
	i := p.Status.InitContainerStatuses[0].State.Terminated
	if got := p.Status.StartTime.UTC().String() + i.StartedAt.UTC().String() + i.FinishedAt.UTC().String(); got != "2026-01-01 00:00:01 +0000 UTC2026-01-01 00:00:01 +0000 UTC2026-01-01 00:00:02 +0000 UTC" {
		t.Error(got)
	}
}

func TestStatusRefuses(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"", "unexpected end"},
		{"{}", "cannot unmarshal"},
		{"[]", "p-i is not in it"},
		{`[{"name":"a","state":"ready"},{"name":"a","state":"ready"}]`, `"a" is there twice`},
		{said(`"state":"asleep"`, saidReady, saidReady), `p-i: "asleep" is no state`},
		{said(saidDone, saidReady, saidReady)[:90], "unexpected end"},
		{"[" + strings.Repeat(" ", maxStatus) + "]", "more than"},
	} {
		if _, err := Status(initPlan(t, "Always"), strings.NewReader(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.60q: %v, want %q", tt.text, err, tt.want)
		}
	}
}

// Whatever a node says, a status names each container once, or there is an error.
func FuzzStatus(f *testing.F) {
	f.Add(said(saidDone, saidReady, saidBackOff))
	f.Add(said(saidFailed, saidMissing, saidWaiting))
	f.Add(`[{"name":"p-i","last":{"code":-1,"signal":-9}}]`)
	p := initPlan(f, "OnFailure")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Status(p, strings.NewReader(text))
		if err != nil {
			return
		}
		if len(got.Status.ContainerStatuses) != 2 || len(got.Status.InitContainerStatuses) != 1 || got.Status.Phase == "" {
			t.Fatalf("%+v", got.Status)
		}
		for _, c := range append(got.Status.ContainerStatuses, got.Status.InitContainerStatuses...) {
			n := 0
			for _, there := range []bool{c.State.Running != nil, c.State.Waiting != nil, c.State.Terminated != nil} {
				if there {
					n++
				}
			}
			if n != 1 {
				t.Fatalf("%s has %d states: %+v", c.Name, n, c.State)
			}
		}
	})
}
