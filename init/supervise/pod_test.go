package supervise

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"garboard.local/init/table"
)

// inPod makes services those of one pod; sidecar and main are two kinds of them.
func inPod(list ...table.Service) []table.Service {
	for i := range list {
		list[i].Pod = "ns/p"
	}
	return list
}

func sidecar(name, script string, requires ...string) table.Service {
	s := sh(name, "", script)
	s.Sidecar, s.GraceSeconds, s.Requires = true, 30, requires
	return s
}

func container(name, policy, script string, requires ...string) table.Service {
	s := sh(name, "", script)
	s.Restart, s.GraceSeconds, s.Requires = policy, 30, requires
	return s
}

// ends notes its end in a file, once it is told to end.
func ends(dir, name string) string {
	return "trap 'echo " + name + " >> " + dir + "/ends; exit 0' TERM; : > " + dir + "/up-" + name + "; while :; do sleep 0.01; done"
}

func upProbe(dir, name string) *table.Probe { return execProbe("test -e "+dir+"/up-"+name, 0) }

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(b)), " ")
}

func touch(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
}

func state(t *testing.T, v *Supervisor, name string, want State) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	if s := v.byName(name); !s.wait(ctx, func(st State) bool { return st == want }) {
		st, _ := s.get()
		t.Fatalf("%s is %s, want %s", name, st, want)
	}
}

// A sidecar starts in its turn, the next one waits until it has started (which its
// startup probe says), and it goes on beside them.
func TestSidecarGatesWhatComesAfter(t *testing.T) {
	if !inChild(t) {
		return
	}
	dir := t.TempDir()
	side := sidecar("side", "exec sleep 1000", "first")
	side.Startup = execProbe("echo x >> "+dir+"/asked; test -e "+dir+"/go", 1_000_000)
	side.Ready = execProbe("exit 1", 0) // readiness gates nothing within the pod
	v, l := supervisor(t, inPod(
		task("first", table.RestartNever, "exit 0"),
		side,
		task("second", table.RestartNever, "exit 0", "first", "side"),
		container("main", table.RestartAlways, "exec sleep 1000", "first", "side", "second"))...)
	v.StartPod("main")
	v.StartPod("main") // once is enough
	l.waitFor("service side: started", 1)
	for end := time.Now().Add(40 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if b, _ := os.ReadFile(dir + "/asked"); len(b) >= 6 {
			break
		}
	}
	if s := l.text(); strings.Contains(s, "service second: started") || strings.Contains(s, "service main: started") {
		t.Errorf("the startup probe of the sidecar was not waited for:\n%s", s)
	}
	if st := v.Status()[1]; st.Up || st.State != table.StateStarting {
		t.Errorf("%+v", st)
	}
	touch(t, dir+"/go")
	l.waitFor("service main: started", 1)
	if st := v.Status()[1]; !st.Up || st.State != table.StateStarting {
		t.Errorf("%+v", st)
	}
	if s := l.text(); strings.Count(s, "service first: started") != 1 || strings.Index(s, "service second: done") > strings.Index(s, "service main: started") || strings.Index(s, "service first: done") > strings.Index(s, "service side: started") {
		t.Errorf("order:\n%s", s)
	}
}

// A sidecar that dies is started again, whatever it exits with, and what has
// started goes on.
func TestSidecarIsAlwaysRestarted(t *testing.T) {
	if !inChild(t) {
		return
	}
	dir := t.TempDir()
	v, l := supervisor(t, inPod(
		sidecar("side", "test -e "+dir+"/again && exec sleep 1000; touch "+dir+"/again; while ! test -e "+dir+"/die; do sleep 0.01; done; exit 0"),
		container("main", table.RestartNever, "touch "+dir+"/die; exec sleep 1000", "side"))...)
	v.StartPod("side")
	l.waitFor("service side: exited: exit status 0, restart in 50ms", 1)
	l.waitFor("service side: started", 2)
	if n := strings.Count(l.text(), "service main: started"); n != 1 {
		t.Errorf("main was started %d times", n)
	}
}

// Containers end first and at once, then the sidecars, the last one first.
func TestSidecarsEndLastInReverse(t *testing.T) {
	if !inChild(t) {
		return
	}
	dir := t.TempDir()
	list := inPod(
		sidecar("s1", ends(dir, "s1")),
		sidecar("s2", ends(dir, "s2"), "s1"),
		container("a", table.RestartAlways, "trap 'while ! test -e "+dir+"/told-b; do sleep 0.01; done; echo a >> "+dir+"/ends; exit 0' TERM; : > "+dir+"/up-a; while :; do sleep 0.01; done", "s1", "s2"),
		container("b", table.RestartAlways, "trap ': > "+dir+"/told-b; while ! grep -q a "+dir+"/ends; do sleep 0.01; done; echo b >> "+dir+"/ends; exit 0' TERM; : > "+dir+"/up-b; while :; do sleep 0.01; done", "s1", "s2"))
	for i := range list {
		list[i].Ready = upProbe(dir, list[i].Name)
	}
	touch(t, dir+"/ends")
	v, l := supervisor(t, append(list, sh("other", "", "exec sleep 1000"))...)
	v.StartPod("a")
	v.Start("other")
	for _, s := range list {
		l.waitFor("service "+s.Name+": ready", 1)
	}
	v.NoMoreRestarts()
	if v.Stop(t.Context(), "") {
		t.Errorf("something had to be killed:\n%s", l.text())
	}
	if got := read(t, dir+"/ends"); got != "a b s2 s1" {
		t.Errorf("ended %q:\n%s", got, l.text())
	}
	l.waitFor("service other: ended", 1)
}

// The order is given up when the grace is over: a container that does not end is
// killed, and a sidecar has a moment all the same.
func TestSidecarsWaitForTheGraceOnly(t *testing.T) {
	if !inChild(t) {
		return
	}
	dir := t.TempDir()
	list := inPod(
		sidecar("side", ends(dir, "side")),
		container("deaf", table.RestartAlways, "trap '' TERM; : > "+dir+"/up-deaf; while :; do sleep 0.01; done", "side"))
	for i := range list {
		list[i].Ready, list[i].GraceSeconds = upProbe(dir, list[i].Name), 3
	}
	v, l := supervisor(t, list...)
	v.StartPod("deaf")
	l.waitFor("service side: ready", 1)
	l.waitFor("service deaf: ready", 1)
	v.NoMoreRestarts()
	if !v.Stop(t.Context(), "") {
		t.Error("nothing had to be killed")
	}
	l.waitFor("service deaf: still there, SIGKILL", 1)
	l.waitFor("service side: stopped, SIGTERM, at most 2s", 1)
	l.waitFor("service side: ended", 1)
}

// When all containers have ended for good, the sidecars do too, in their order.
func TestSidecarsEndWithTheirPod(t *testing.T) {
	if !inChild(t) {
		return
	}
	dir := t.TempDir()
	v, l := supervisor(t, inPod(
		sidecar("s1", ends(dir, "s1")),
		sidecar("s2", ends(dir, "s2"), "s1"),
		sidecar("sick", "exit 1"),
		container("a", table.RestartNever, "while ! test -e "+dir+"/up-s1 || ! test -e "+dir+"/up-s2; do sleep 0.01; done; exit 3", "s1", "s2"),
		container("b", table.RestartOnFailure, "while ! test -e "+dir+"/up-s1 || ! test -e "+dir+"/up-s2; do sleep 0.01; done; exit 0", "s1", "s2"))...)
	v.StartPod("a")
	for _, name := range []string{"a", "b", "s1", "s2", "sick"} {
		state(t, v, name, Ended)
	}
	if got := read(t, dir+"/ends"); got != "s2 s1" {
		t.Errorf("ended %q:\n%s", got, l.text())
	}
	if n := strings.Count(l.text(), "pod ns/p: has ended, and so do its sidecars"); n != 1 {
		t.Errorf("said %d times:\n%s", n, l.text())
	}
}

// So they do when an init container has failed for good, and what is behind it is
// never started.
func TestSidecarsEndWithAPodThatFailed(t *testing.T) {
	if !inChild(t) {
		return
	}
	dir := t.TempDir()
	v, l := supervisor(t, inPod(
		sidecar("s1", ends(dir, "s1")),
		task("fails", table.RestartNever, "while ! test -e "+dir+"/up-s1; do sleep 0.01; done; exit 1", "s1"),
		sidecar("s2", ends(dir, "s2"), "s1", "fails"),
		container("main", table.RestartAlways, "exit 0", "s1", "fails", "s2"))...)
	v.StartPod("s1")
	for _, name := range []string{"s1", "fails", "s2", "main"} {
		state(t, v, name, Ended)
	}
	if _, err := os.Stat(filepath.Join(dir, "up-s2")); err == nil || strings.Contains(l.text(), "service main: started") {
		t.Errorf("went on behind a failed init container:\n%s", l.text())
	}
}

// A pod ends with the service that has its role, not with those of no role.
func TestPodEndsByItsRole(t *testing.T) {
	v := New(Options{Printf: t.Logf, LogDir: t.TempDir()}, append(
		inPod(table.Service{Name: "task"}, table.Service{Name: "rt", Role: table.RoleRuntime}, table.Service{Name: "beside"}),
		table.Service{Name: "k", Role: table.RoleKubelet}, table.Service{Name: "x"}, table.Service{Name: "y"}))
	for role, want := range map[string]string{table.RoleRuntime: "task rt beside", table.RoleKubelet: "k", "": "x y"} {
		var got []string
		for _, pod := range v.pods(role) {
			for _, s := range pod {
				got = append(got, s.Name)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("role %q: %q, want %q", role, got, want)
		}
	}
	if err := v.Close(); err != nil {
		t.Error(err)
	}
}
