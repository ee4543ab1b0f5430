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

func task(name, policy, script string, requires ...string) table.Service {
	s := sh(name, "", script)
	s.Once, s.Restart, s.Requires = true, policy, requires
	return s
}

func requires(s table.Service, names ...string) table.Service {
	s.Requires = names
	return s
}

// Tasks run in order, each to success, before what requires them; one that
// fails at first is tried again.
func TestTasksRunInOrderBeforeTheRest(t *testing.T) {
	if !inChild(t) {
		return
	}
	dir := t.TempDir()
	note := func(word string) string { return "echo " + word + " >> " + dir + "/order; " }
	v, l := supervisor(t,
		task("first", table.RestartOnFailure, note("first")+"test -e "+dir+"/again || { touch "+dir+"/again; exit 1; }"),
		task("second", table.RestartNever, note("second"), "first"),
		requires(sh("main", "", note("main")+"exec sleep 1000"), "first", "second"))
	for _, name := range []string{"main", "second", "first"} { // whatever comes first
		v.Start(name)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for _, name := range []string{"first", "second", "main"} {
		if !v.WaitReady(ctx, name) {
			t.Fatalf("%s did not come:\n%s", name, l.text())
		}
	}
	// main is ready as soon as it is started: wait for what it says.
	var b []byte
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end) && !strings.Contains(string(b), "main"); time.Sleep(time.Millisecond) {
		b, _ = os.ReadFile(filepath.Join(dir, "order"))
	}
	if got := strings.Fields(string(b)); strings.Join(got, " ") != "first first second main" {
		t.Errorf("order %q:\n%s", got, l.text())
	}
	if s := strings.Join(v.States(), "; "); !strings.Contains(s, "first: done") || !strings.Contains(s, "main: ready") {
		t.Errorf("states %s", s)
	}
	if n := strings.Count(l.text(), "service second: started"); n != 1 {
		t.Errorf("a task that has succeeded ran %d times", n)
	}
}

// A task that fails for good keeps everything that requires it from starting.
func TestFailedTaskBlocks(t *testing.T) {
	if !inChild(t) {
		return
	}
	v, l := supervisor(t,
		task("bad", table.RestartNever, "exit 9"),
		task("next", table.RestartNever, "true", "bad"),
		requires(sh("main", "", "true"), "bad", "next"))
	for _, name := range []string{"bad", "next", "main"} {
		v.Start(name)
	}
	l.waitFor("service next: not started: it requires bad, which has failed", 1)
	l.waitFor("service main: not started: it requires bad, which has failed", 1)
	if s := l.text(); strings.Contains(s, "service main: started") || strings.Contains(s, "service next: started") || !strings.Contains(s, "service bad: exited: exit status 9") {
		t.Errorf("lines:\n%s", s)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if v.WaitReady(ctx, "main") {
		t.Error("main counts as ready")
	}
}

// A shutdown ends the wait for a task.
func TestShutdownEndsTheWaitForATask(t *testing.T) {
	if !inChild(t) {
		return
	}
	v, l := supervisor(t, task("slow", table.RestartNever, "exec sleep 1000"), requires(sh("main", "", "true"), "slow"))
	v.Start("slow")
	v.Start("main")
	l.waitFor("service slow: started", 1)
	v.NoMoreRestarts()
	v.Stop(t.Context(), "")
	l.waitFor("service slow: ended", 1)
	if strings.Contains(l.text(), "service main: started") {
		t.Errorf("lines:\n%s", l.text())
	}
}

// What a process is given through package launch reaches it, with its output,
// its pid and its exit status as those of any other.
func TestLaunchedService(t *testing.T) {
	if !inChild(t) {
		return
	}
	s := sh("a", "", "grep NoNewPrivs /proc/self/status; echo $$; ulimit -c; exit 3")
	s.Restart, s.NoNewPrivileges, s.Limits = table.RestartNever, true, []table.RLimit{{Name: "core"}}
	v, l := supervisor(t, s)
	v.Start("a")
	l.waitFor("service a: exited: exit status 3", 1)
	_, pid, _ := strings.Cut(l.text(), "started, pid ")
	pid, _, _ = strings.Cut(pid, "\n")
	var b []byte
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end) && strings.Count(string(b), "\n") < 3; time.Sleep(time.Millisecond) {
		b, _ = os.ReadFile(v.services[0].log.path)
	}
	if got := strings.Join(strings.Fields(string(b)), " "); got != "NoNewPrivs: 1 "+pid+" 0" {
		t.Errorf("the service says %q, pid %s", got, pid)
	}
}
