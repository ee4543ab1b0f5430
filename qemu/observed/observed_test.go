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

func TestRows(t *testing.T) {
	rows := Rows([]Fact{{"a: x", "1"}, {"a: y", "2"}, {"b: x", "3"}, {"c: x", "1"}}, []Fact{{"a: x", "1"}, {"c: x", "1"}, {"b: x", "4"}, {"a: z", "5"}})
	want := []Row{{"a: x", "1", "1"}, {"a: y", "2", ""}, {"a: z", "", "5"}, {"b: x", "3", "4"}, {"c: x", "1", "1"}}
	if !slices.Equal(rows, want) {
		t.Fatalf("%q", rows)
	}
	known := []Difference{{"a: .", "because"}, {"d: x", "of old"}}
	unexplained, stale, err := Explained(rows, known)
	if err != nil || len(unexplained) != 1 || unexplained[0].Key != "b: x" || len(stale) != 1 || stale[0].Keys != "d: x" {
		t.Errorf("%q, %q, %v", unexplained, stale, err)
	}
	if _, _, err := Explained(rows, []Difference{{"(", ""}}); err == nil {
		t.Error("an expression that is none is taken")
	}
	var page bytes.Buffer
	if err := Write(&page, rows, known); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"| y | a | 2 | not there |", "| z | a | not there | 5 |", "| x | a, c | 1 |", "Of 5 observations 3 differ"} {
		if !strings.Contains(page.String(), line) {
			t.Errorf("the page lacks %q:\n%s", line, &page)
		}
	}
}
