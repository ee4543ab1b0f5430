package supervise

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"garboard.local/init/table"
)

// lines collects what is printed.
type lines struct {
	mu sync.Mutex
	l  []string
	t  *testing.T
}

func (l *lines) printf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.l = append(l.l, fmt.Sprintf(format, args...))
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.l, "\n")
}

func (l *lines) waitFor(want string, n int) {
	l.t.Helper()
	for end := time.Now().Add(40 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if strings.Count(l.text(), want) >= n {
			return
		}
	}
	l.t.Fatalf("%q did not come %d times:\n%s", want, n, l.text())
}

func supervisor(t *testing.T, services ...table.Service) (*Supervisor, *lines) {
	l := &lines{t: t}
	v := New(Options{Reaper: reaper(t), Printf: l.printf, LogDir: t.TempDir(),
		Timing: Timing{50 * time.Millisecond, 200 * time.Millisecond, time.Hour}}, services)
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	})
	return v, l
}

func sh(name, role, script string) table.Service {
	return table.Service{Name: name, Role: role, Command: []string{"/bin/sh", "-c", script},
		Restart: table.RestartAlways, GraceSeconds: 2}
}

func TestBackOffGrowsAndTailIsShown(t *testing.T) {
	if !inChild(t) {
		return
	}
	v, l := supervisor(t, sh("a", "", "echo last words; exit 3"))
	v.Start("a")
	l.waitFor("exited: exit status 3, restart in 200ms", 2)
	s := l.text()
	for _, want := range []string{"restart in 50ms", "restart in 100ms", "service a: said: last words", "service a: started, pid "} {
		if !strings.Contains(s, want) {
			t.Errorf("no %q in\n%s", want, s)
		}
	}
}

// One that dies all the time is counted, and its last words are not repeated each time.
func TestDeathsAreCountedAndSaidSparingly(t *testing.T) {
	if !inChild(t) {
		return
	}
	v, l := supervisor(t, sh("a", "", "echo last words; exit 3"))
	v.timing = Timing{time.Millisecond, 2 * time.Millisecond, time.Hour}
	v.Start("a")
	l.waitFor(", 21 times since boot", 1)
	v.NoMoreRestarts()
	s := l.text()
	// The first three, the tenth, the twentieth.
	// Lines that come late through the pipe are shown with the next death's, so
	// what counts is how often something is shown, not how many lines.
	if n := len(regexp.MustCompile(`(?:service a: said: last words\n)+`).FindAllString(s, -1)); n < 1 || n > 5 {
		t.Errorf("last words shown %d times, want at most 5:\n%s", n, s)
	}
	if n := strings.Count(s, "are shown every 10th time from now on; see "); n != 1 {
		t.Errorf("said %d times that last words are left out", n)
	}
	if st := v.States()[0]; !strings.Contains(st, ", died 2") {
		t.Errorf("state %q", st)
	}
}

func TestMissingProgramBacksOff(t *testing.T) {
	if !inChild(t) {
		return
	}
	s := sh("a", "", "")
	s.Command = []string{"/no/such"}
	v, l := supervisor(t, s)
	v.Start("a")
	l.waitFor("no such file or directory, restart in", 2)
}

func TestRestartPolicies(t *testing.T) {
	if !inChild(t) {
		return
	}
	never, onFailure, failing := sh("never", "", "exit 1"), sh("done", "", "exit 0"), sh("failing", "", "exit 1")
	never.Restart, onFailure.Restart, failing.Restart = table.RestartNever, table.RestartOnFailure, table.RestartOnFailure
	v, l := supervisor(t, never, onFailure, failing)
	for _, n := range []string{"never", "done", "failing"} {
		v.Start(n)
	}
	l.waitFor("service failing: exited: exit status 1, restart", 2)
	for _, n := range []string{"never", "done"} {
		if strings.Count(l.text(), "service "+n+": started") != 1 {
			t.Errorf("%s was started again:\n%s", n, l.text())
		}
	}
}

func TestReadyAfterAndRestart(t *testing.T) {
	if !inChild(t) {
		return
	}
	sock := filepath.Join(t.TempDir(), "s")
	a := sh("rt", table.RoleRuntime, "sleep 1000")
	a.Command = []string{"/bin/sleep", "1000"}
	a.Ready = &table.Probe{Unix: sock, PeriodMillis: 20, TimeoutMillis: 500}
	b := sh("k", table.RoleKubelet, "")
	b.Command, b.After, b.WaitSeconds = []string{"/bin/sleep", "1000"}, []string{"rt"}, 30
	b.Ready = &table.Probe{Exec: []string{"/bin/true"}, PeriodMillis: 20, TimeoutMillis: 500}
	v, l := supervisor(t, a, b)
	v.Start("rt")
	v.Start("k")
	l.waitFor("service rt: started", 1)
	time.Sleep(100 * time.Millisecond)
	if v.Pid(table.RoleKubelet) != 0 {
		t.Error("k started before rt was ready")
	}
	ln, err := net.Listen("unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	l.waitFor("service k: ready", 1)
	old := v.Pid(table.RoleKubelet)
	if err := v.Restart(table.RoleKubelet, "a test"); err != nil {
		t.Fatal(err)
	}
	if err := v.Restart(table.RoleKubelet, "a test"); err != nil {
		t.Fatal(err)
	}
	l.waitFor("service k: ready", 2)
	if now := v.Pid(table.RoleKubelet); now == old || now == 0 {
		t.Errorf("pid %d, was %d", now, old)
	}
	if n := strings.Count(l.text(), "ended as asked: signal: terminated"); n != 1 {
		t.Errorf("%d runs ended, want 1:\n%s", n, l.text())
	}
}

func TestSIGKILLAfterGrace(t *testing.T) {
	if !inChild(t) {
		return
	}
	up := filepath.Join(t.TempDir(), "up")
	s := sh("a", "", "trap '' TERM; : > "+up+"; while :; do sleep 0.1; done")
	s.GraceSeconds = 1
	s.Ready = execProbe("test -e "+up, 0)
	v, l := supervisor(t, s)
	v.Start("a")
	l.waitFor("service a: ready", 1)
	v.NoMoreRestarts()
	began := time.Now()
	killed := v.Stop(t.Context(), "")
	if !killed {
		t.Error("killed, but not told so")
	}
	if d := time.Since(began); d < time.Second {
		t.Errorf("took %s", d)
	}
	l.waitFor("service a: ended: signal: killed", 1)
}

func TestKubeletInBackOffIsStartedOnceMoreAtShutdown(t *testing.T) {
	if !inChild(t) {
		return
	}
	mark := filepath.Join(t.TempDir(), "m")
	k := sh("k", table.RoleKubelet, "test -e "+mark+" || { touch "+mark+"; exit 1; }; exec sleep 1000")
	o := sh("o", "", "exit 1")
	v, l := supervisor(t, k, o)
	v.timing = Timing{time.Hour, time.Hour, time.Hour}
	v.Start("k")
	v.Start("o")
	l.waitFor("restart in 1h", 2)
	v.NoMoreRestarts()
	l.waitFor("service k: started", 2)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if !v.Alive(table.RoleKubelet) || v.Stop(ctx, table.RoleKubelet) {
		t.Error("not alive, or had to be killed")
	}
	if !v.RoleEnded(ctx, table.RoleKubelet) {
		t.Error("the kubelet's life goes on")
	}
	if n := strings.Count(l.text(), "service o: started"); n != 1 {
		t.Errorf("o was started %d times", n)
	}
	if n := strings.Count(l.text(), "service k: started"); n != 2 {
		t.Errorf("k was started %d times", n)
	}
}
