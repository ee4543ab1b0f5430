package observed

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// printed is a report as a guest prints it, in lines of so many bytes.
func printed(t testing.TB, r Report, nonce string, size int) []string {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	if err := json.NewEncoder(w).Encode(r); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	chunks := slices.Collect(slices.Chunk([]byte(base64.StdEncoding.EncodeToString(z.Bytes())), size))
	var lines []string
	for i, c := range chunks {
		lines = append(lines, fmt.Sprintf("default/collector-x/collector: %s%s %d/%d %s", Prefix, nonce, i+1, len(chunks), c))
	}
	return lines
}

// A report is taken whole or not at all.
func TestRead(t *testing.T) {
	whole := printed(t, Report{Status: "ok", Events: []Event{{Who: "a/b", What: "start", Run: 1}}}, "n1", 40)
	if len(whole) < 3 {
		t.Fatalf("only %d lines", len(whole))
	}
	r, err := Read(append([]string{"noise", Prefix + "other 1/1 x"}, whole...), "n1")
	if err != nil || r.Status != "ok" || len(r.Events) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	swapped := slices.Clone(whole)
	swapped[0], swapped[1] = swapped[1], swapped[0]
	damaged := slices.Clone(whole)
	damaged[1] = strings.Replace(damaged[1], " 2/", " 2/1", 1)
	for name, lines := range map[string][]string{
		"nothing": nil, "no end": whole[:len(whole)-1], "no beginning": whole[1:], "a line missing": slices.Delete(slices.Clone(whole), 1, 2),
		"twice": append(slices.Clone(whole), whole...), "out of order": swapped, "another count": damaged,
		"not a report": {Prefix + "n1 1/1 aGVsbG8="}, "malformed": {Prefix + "n1 hello"},
	} {
		if r, err := Read(lines, "n1"); err == nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(strings.Join(printed(f, Report{Status: "x"}, "n", 30), "\n"))
	f.Add("OBSERVED n 1/1 H4sIAAAAAAAA/w==")
	f.Add("OBSERVED n 1/-1 a\nOBSERVED n 99999999999999999999/1 b")
	f.Fuzz(func(t *testing.T, console string) {
		if r, err := Read(strings.Split(console, "\n"), "n"); err == nil && r == nil {
			t.Error("neither a report nor an error")
		}
	})
}

func value(t *testing.T, facts []Fact, key string) string {
	t.Helper()
	for _, f := range facts {
		if f.Key == key {
			return f.Value
		}
	}
	t.Errorf("no fact %q", key)
	return ""
}

func TestFacts(t *testing.T) {
	look := &Look{UID: 1, GID: 2, Groups: []int{2, 3}, Args: []string{"observer", "--", "a b"}, Env: []string{"INVOCATION_ID=4f", "X=1"},
		Status: map[string]string{"CapBnd": "400", "CapEff": "1ffffffffff", "CapPrm": "0"}, Namespaces: map[string]string{"net": "n1", "ipc": "host", "pid": "p1"}}
	other := *look
	other.Namespaces = map[string]string{"net": "n1", "ipc": "i2", "pid": "p2"}
	r := &Report{Namespaces: map[string]string{"ipc": "host"}, Events: []Event{
		{Who: "p/init", What: "start", At: 1e9, Run: 1, Look: look}, {Who: "p/init", What: "exit", At: 2e9, Code: 1},
		{Who: "p/init", What: "start", At: 13e9, Run: 2, Look: look}, {Who: "p/init", What: "exit", At: 14e9},
		{Who: "p/main", What: "start", At: 15e9, Run: 1, Look: &other}, {Who: "p/main", What: "alive"}, {Who: "p/main", What: "alive"},
	}}
	spec := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "init"}}, Containers: []corev1.Container{{Name: "main"}, {Name: "never"}},
	}}
	status := &corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
		{Name: "main", RestartCount: 2, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error"}}},
	}}
	facts := Facts(r, []Pod{{spec, status}})
	for key, want := range map[string]string{
		"p/main: began after the success of init": "yes",
		"p/init: life":                            "start, exit 1, start, exit 0",
		"p/main: life":                            "start, alive",
		"p/never: life":                           "never started",
		"p/init: user, group, other groups":       "1:2 [3]",
		"p/init: bounding capabilities":           "NET_BIND_SERVICE",
		"p/init: effective capabilities":          "all",
		"p/init: permitted capabilities":          "none",
		"p/init: arguments":                       `["a b"]`,
		"p/init: variable INVOCATION_ID":          "(set)",
		"p/init: variable X":                      `"1"`,
		"p/init: net namespace":                   "the pod's",
		"p/init: ipc namespace":                   "the machine's",
		"p/init: has the machine's PID namespace": "no",
		"p: phase":                                "Running",
		"p/main: state":                           "terminated: 3 Error",
		"p/main: restarts":                        "2",
	} {
		if got := value(t, facts, key); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
	// One that began although the init container before it had failed.
	r.Events[3].Code = 9
	if got := value(t, Facts(r, []Pod{{spec, nil}}), "p/main: began after the success of init"); got != "no" {
		t.Errorf("began after a failed init container: %q", got)
	}
}

// Sidecars are waited for until they have started; they hear of the end at once, and
// end last. Pauses are told by their size, and what never settles by that.
func TestOrderAndPauses(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	hooks := &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{}, PreStop: &corev1.LifecycleHandler{}}
	spec := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "side", RestartPolicy: &always, StartupProbe: &corev1.Probe{}, Lifecycle: hooks}, {Name: "stuck"}},
		Containers:     []corev1.Container{{Name: "main"}},
	}}
	event := func(who, what string, at, code int) Event {
		return Event{Who: "p/" + who, What: what, At: int64(at) * 1e9, Code: code}
	}
	r := &Report{Events: []Event{
		event("side", "start", 1, 0), event("side", "postStart ended", 2, 0), event("side", "stays", 3, 0), event("side", "preStop", 41, 0), event("side", "exit", 60, 0),
		event("stuck", "start", 4, 0), event("stuck", "exit", 5, 3), event("stuck", "start", 6, 0), event("stuck", "exit", 7, 3), event("stuck", "start", 8, 0), event("stuck", "exit", 9, 3),
		event("main", "start", 10, 0), event("main", "exit", 11, 1), event("main", "start", 12, 0), event("main", "exit", 13, 1), event("main", "start", 15, 0), event("main", "exit", 16, 1),
		event("main", "start", 20, 0), event("main", "exit", 50, 0),
	}}
	status := &corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{Name: "stuck", RestartCount: 7}}}
	check := func(want map[string]string) {
		t.Helper()
		facts := Facts(r, []Pod{{spec, status}})
		for key, want := range want {
			if got := value(t, facts, key); got != want {
				t.Errorf("%s: %q, want %q", key, got, want)
			}
		}
	}
	check(map[string]string{
		"p/stuck: began after the start of side":                "yes",
		"p/main: began after the start of side":                 "yes",
		"p/main: began after the success of stuck":              "no",
		"p: ended in the order":                                 "main, side",
		"p/side: preStop hook before the end of the containers": "yes",
		"p/side: postStart hook":                                "postStart ended",
		"p/side: life":                                          "start, stays, preStop, exit 0",
		"p/stuck: life":                                         "start, exit 3, again and again",
		"p/stuck: state":                                        "fails again and again",
		"p/stuck: restarts":                                     "2 or more",
		"p/main: pause before its fourth run":                   "some seconds",
		"p/main: which is longer than that before the second":   "yes",
		"p/main: life":                                          "start, exit 1, start, exit 1, start, exit 1, start, exit 0",
	})
	// Too early, too late, in the wrong order.
	r.Events[2].At, r.Events[3].At, r.Events[4].At, r.Events[17].At = 5e9, 51e9, 49e9, 30e9
	check(map[string]string{
		"p/stuck: began after the start of side":                "no",
		"p: ended in the order":                                 "side, main",
		"p/side: preStop hook before the end of the containers": "no",
		"p/main: pause before its fourth run":                   "10 s or more",
	})
}

func TestRows(t *testing.T) {
	rows := Rows([]Fact{{"a: x", "1"}, {"a: y", "2"}, {"b: x", "3"}, {"c: x", "1"}}, []Fact{{"a: x", "1"}, {"c: x", "1"}, {"b: x", "4"}, {"a: z", "5"}},
		[]Fact{{"a: x", "1"}, {"a: y", "2"}, {"a: z", "5"}, {"b: x", "3"}}, []string{"c"})
	want := []Row{{"a: x", "1", "1", "1"}, {"a: y", "2", "", "2"}, {"a: z", "", "5", "5"}, {"b: x", "3", "4", "3"}, {"c: x", "1", "1", Refused}}
	if !slices.Equal(rows, want) {
		t.Fatalf("%q", rows)
	}
	known := []Difference{{Systemd, "a: .", "because"}, {Systemd, "d: x", "of old"}, {Init, "b: x", "of another world"}}
	unexplained, stale, err := Explained(rows, known, Systemd)
	if err != nil || len(unexplained) != 1 || unexplained[0].Key != "b: x" || len(stale) != 1 || stale[0].Keys != "d: x" {
		t.Errorf("%q, %q, %v", unexplained, stale, err)
	}
	unexplained, stale, err = Explained(rows, known, Init)
	if err != nil || len(unexplained) != 1 || unexplained[0].Key != "a: z" || len(stale) != 1 || stale[0].Keys != "b: x" {
		t.Errorf("%q, %q, %v", unexplained, stale, err)
	}
	if _, _, err := Explained(rows, []Difference{{Systemd, "(", ""}}, Systemd); err == nil {
		t.Error("an expression that is none is taken")
	}
	var page bytes.Buffer
	if err := Write(&page, rows, append(known, Difference{Init, "a: z", "new"}), map[string]string{"c": "c.yaml: not yet"}); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"| y | a | 2 | not there |", "| z | a | not there | 5 |", "| x | a, c | 1 |", "Of 5 observations\n3 differ under systemd and 1 under PID 1; 2 are the same everywhere", "| c | c.yaml: not yet |"} {
		if !strings.Contains(page.String(), line) {
			t.Errorf("the page lacks %q:\n%s", line, &page)
		}
	}
}
