package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Events are whole lines in the container's own file, and runs are counted by them.
func TestDiary(t *testing.T) {
	d := diary{dir: t.TempDir(), who: "pod/main"}
	for want := range 3 {
		n, err := d.runs()
		if err != nil || n != want {
			t.Fatalf("%d runs, %v; want %d", n, err, want)
		}
		d.number = n + 1
		if err := d.write(Event{What: "start", Look: &Look{Args: []string{"a\nb"}}}); err != nil {
			t.Fatal(err)
		}
		if err := d.write(Event{What: "exit", Code: 3}); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(filepath.Join(d.dir, "pod.main.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var last int64
	lines := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	if len(lines) != 6 {
		t.Fatalf("%d lines:\n%s", len(lines), b)
	}
	for i, l := range lines {
		var e Event
		if err := json.Unmarshal(l, &e); err != nil {
			t.Fatal(err)
		}
		if e.Who != "pod/main" || e.Run != i/2+1 || e.At < last {
			t.Errorf("line %d: %s", i, l)
		}
		last = e.At
	}
	past := time.Now().Add(-time.Second)
	if err := awaitEvents(d.dir, []string{"pod/main:start:3", "pod/main:exit:1"}, past); err != nil {
		t.Error(err)
	}
	for _, absent := range []string{"pod/main:start:4", "pod/main:star:1", "pod/other:start:1", "malformed"} {
		if err := awaitEvents(d.dir, []string{absent}, past); err == nil {
			t.Errorf("%s is said to have happened", absent)
		}
	}
}

// A probe fails exactly while the container is sick.
func TestSick(t *testing.T) {
	dir := t.TempDir()
	args := []string{"-as", "pod/main", "-to", dir}
	if err := sick(args); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "pod.main.sick"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := sick(args); err == nil {
		t.Error("a sick container is well")
	}
}

func TestEvent(t *testing.T) {
	dir := t.TempDir()
	if err := event([]string{"-as", "pod/main", "-to", dir, "-for", "1ms", "preStop"}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "pod.main.jsonl"))
	if err != nil || !strings.Contains(string(b), `"what":"preStop"`) || !strings.Contains(string(b), `"what":"preStop ended"`) {
		t.Errorf("%s, %v", b, err)
	}
	if err := event([]string{"-as", "pod/main", "-to", dir, "-fail", "postStart"}); err == nil {
		t.Error("a hook that is to fail does not")
	}
	if err := event([]string{"-as", "pod/main", "-to", dir}); err == nil {
		t.Error("an event without a name is taken")
	}
}

func TestLook(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("text"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "..data"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := lookAround([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	p := l.Paths[dir]
	if l.UID != os.Getuid() || l.Status["CapBnd"] == "" || l.Namespaces["net"] == "" || p.Write != "possible" || len(p.Files) != 1 || p.Files["file"] != "-rw-r----- text" {
		t.Errorf("%+v", l)
	}
	if _, err := lookAround([]string{filepath.Join(dir, "absent")}); err == nil {
		t.Error("a path that is absent is looked at")
	}
	for err, want := range map[error]string{
		nil: "possible", &os.PathError{Op: "open", Path: "/some/where", Err: syscall.EROFS}: "read-only file system", errors.New("odd"): "odd",
	} {
		if got := outcome(err); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

// Of systemctl's properties those that change while nothing happens are left out.
func TestSteady(t *testing.T) {
	got := string(systemd{}.steady([]byte("Id=a.service\nMemoryCurrent=5\nExecMainStatus=3\nCPUUsageNSec=8\nSubState=exited\n")))
	if want := "Id=a.service\nExecMainStatus=3\nSubState=exited\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	// So are units that fail again and again, but not those that had to be restarted and run.
	got = string(systemd{}.steady([]byte("Id=a\nNRestarts=2\nActiveState=activating\n\nId=b\nNRestarts=2\nActiveState=active\n\nId=c\nNRestarts=1\nActiveState=activating\n")))
	if want := "Id=b\nNRestarts=2\nActiveState=active\nId=c\nNRestarts=1\nActiveState=activating\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Of PID 1's services those that fail again and again are left out.
func TestSteadyOfNode(t *testing.T) {
	got := string(node{}.steady([]byte(`[{"name":"a","state":"ready","restarts":3,"pid":7},{"name":"b","state":"back-off","restarts":2},{"name":"c","state":"back-off","restarts":1},{"name":"d","state":"ended","restarts":2}]`)))
	if want := `[{"name":"a","state":"ready","pid":7,"restarts":3},{"name":"c","state":"back-off","restarts":1},{"name":"d","state":"ended","restarts":2}]`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := string(node{}.steady([]byte("no list"))); got != "no list" {
		t.Error(got)
	}
}

// What happens when some pods are ended is told of those alone.
func TestEventsAfterTheEnd(t *testing.T) {
	for _, tt := range []struct {
		line string
		want bool
	}{
		{`{"who":"ended/main","what":"exit","at":20}`, true},
		{`{"who":"other/main","what":"exit","at":20}`, false},
		{`{"who":"other/main","what":"start","at":5}`, true},
		{`cut sho`, true},
	} {
		if got := of([]byte(tt.line), []string{"x", "ended"}) || !after([]byte(tt.line), 10); got != tt.want {
			t.Errorf("%s: %t", tt.line, got)
		}
	}
}

// A hook that is still there is seen.
func TestLeftOfNode(t *testing.T) {
	n := node{t.TempDir()}
	for name, procs := range map[string]string{"a/preStop": "", "b/liveness": "", "b/preStop": "77\n"} {
		dir := filepath.Join(n.root, "sys/fs/cgroup/garboard", name)
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(procs), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if got := n.left("any"); len(got) != 1 || !strings.HasSuffix(got[0], "/b/preStop/cgroup.procs") {
		t.Errorf("%q", got)
	}
}
