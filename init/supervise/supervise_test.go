package supervise

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"garboard.local/init/table"
)

// The reaper takes every child's status, so these tests run it in a process of
// its own: this same binary, re-executed as a child subreaper. A test named in
// child runs there.
const childEnv = "GARBOARD_SUPERVISE_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv("GARBOARD_SUPERVISE_ROLE") {
	case "orphans": // start n children that outlive us by a moment, then die
		for range 200 {
			c := exec.Command("/bin/sleep", "0.2")
			c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			if err := c.Start(); err != nil {
				os.Exit(99)
			}
		}
		os.Exit(7)
	}
	os.Exit(m.Run())
}

// inChild runs the calling test in a child; it says true there.
func inChild(t *testing.T) bool {
	t.Helper()
	if os.Getenv(childEnv) == t.Name() {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			t.Fatal(err)
		}
		return true
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.count=1")
	c.Env = append(os.Environ(), childEnv+"="+t.Name())
	out, err := c.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Fatalf("%v\n%s", err, out)
	}
	return false
}

func reaper(t *testing.T) *Reaper {
	r := NewReaper()
	stop, done := make(chan struct{}), make(chan struct{})
	go func() { r.Run(stop); close(done) }()
	t.Cleanup(func() { close(stop); <-done })
	return r
}

func start(t *testing.T, r *Reaper, env string, argv ...string) *Process {
	t.Helper()
	p, err := r.Start(Spec{Argv: argv, Output: -1, Cgroup: -1, Env: append(os.Environ(), env)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestStatusesAreRightWhenHundredsOfOrphansDie(t *testing.T) {
	if !inChild(t) {
		return
	}
	r := reaper(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parents := []*Process{
		start(t, r, "GARBOARD_SUPERVISE_ROLE=orphans", self),
		start(t, r, "GARBOARD_SUPERVISE_ROLE=orphans", self),
	}
	for range 5 {
		var procs []*Process
		for i := range 40 {
			procs = append(procs, start(t, r, "", "/bin/sh", "-c", fmt.Sprintf("exit %d", i)))
		}
		for i, p := range procs {
			<-p.Done()
			if ws := p.Status(); !ws.Exited() || ws.ExitStatus() != i {
				t.Errorf("process %d: %s", i, Describe(ws))
			}
		}
	}
	for _, p := range parents {
		<-p.Done()
		if p.Status().ExitStatus() != 7 {
			t.Errorf("parent: %s", Describe(p.Status()))
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if !r.WaitChildless(ctx) {
		t.Fatal("children left")
	}
	if r.Orphans() != 400 {
		t.Errorf("%d orphans reaped, want 400", r.Orphans())
	}
	r.Turn()
	if _, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); err != unix.ECHILD {
		t.Errorf("wait: %v, want no child left", err)
	}
}

func TestFailedStartIsNoZombieAndNoProcess(t *testing.T) {
	if !inChild(t) {
		return
	}
	r := reaper(t)
	for range 20 {
		if _, err := r.Start(Spec{Argv: []string{"/no/such/program"}, Output: -1, Cgroup: -1}); err == nil {
			t.Fatal("started nothing")
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if !r.WaitChildless(ctx) || r.Orphans() != 0 {
		t.Errorf("a failed start left something behind: %d", r.Orphans())
	}
}

func TestChildHasNothingOfOurs(t *testing.T) {
	if !inChild(t) {
		return
	}
	for fd := 3; fd < 1024; fd++ { // what this test process got from whoever runs it; the kernel gives PID 1 three
		unix.CloseOnExec(fd)
	}
	r := reaper(t)
	f, err := os.Open("/dev/null") // close-on-exec, as Go opens everything
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dir := t.TempDir()
	log, err := OpenLog(dir, "x", nil, t.Logf, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	p, err := r.Start(Spec{Argv: []string{"/bin/sh", "-c", "ls -m /proc/self/fd | tr -d ' '; ps -o sid= -p $$; echo $$; exec grep Sig[BI] /proc/self/status"},
		Output: log.write, Cgroup: -1, Env: []string{defaultPath}})
	if err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	// Its end may be seen before its last words have come through the pipe.
	var b []byte
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end) && !strings.Contains(string(b), "SigIgn:"); time.Sleep(time.Millisecond) {
		b, _ = os.ReadFile(filepath.Join(dir, "x.log"))
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	f2 := strings.Fields(string(b))
	if len(f2) < 7 || f2[0] != "0,1,2,3" || f2[1] != f2[2] { // 3 is the directory that ls reads
		t.Errorf("want descriptors 0 to 2 and a session of its own:\n%s", b)
	}
	if !strings.Contains(string(b), "SigBlk:\t0000000000000000") {
		t.Errorf("signals blocked:\n%s", b)
	}
}

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
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
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
	s := sh("a", "", "trap '' TERM; echo up; while :; do sleep 0.1; done")
	s.GraceSeconds = 1
	v, l := supervisor(t, s)
	v.Start("a")
	l.waitFor("ready", 1)
	time.Sleep(200 * time.Millisecond) // the trap is set by then
	v.NoMoreRestarts()
	began := time.Now()
	killed := v.Stop(t.Context(), "")
	if !killed {
		t.Error("killed, but not told so")
	}
	if d := time.Since(began); d < 900*time.Millisecond || d > 5*time.Second {
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

func TestLog(t *testing.T) {
	dir := t.TempDir()
	var got []string
	l, err := OpenLog(dir, "x", func(s string) { got = append(got, s) }, t.Logf, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	put := func(b []byte) {
		all = append(all, b...)
		l.put(b)
	}
	for i := range 30 {
		put(fmt.Appendf(nil, "line %02d\n", i))
	}
	put(bytes.Repeat([]byte("z"), 3*lineCap))
	tail := l.Tail()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if len(tail) != tailLen && len(tail) != tailLen+1 {
		t.Errorf("tail of %d lines", len(tail))
	}
	if got[0] != "line 00" || len(got) < 32 {
		t.Errorf("mirror got %d lines", len(got))
	}
	if b, err := os.ReadFile(filepath.Join(dir, "x.log")); err != nil || !bytes.Equal(b, all) {
		t.Errorf("%v, the file holds %d bytes of %d", err, len(b), len(all))
	}
}

// A service whose log's disk is full writes on, dies, and is started again: its
// last lines are shown all the same.
func TestServiceOutlivesItsLog(t *testing.T) {
	if !inChild(t) {
		return
	}
	v, l := supervisor(t, sh("full", "", "head -c 4000000 /dev/zero | tr '\\0' x; echo; echo last words; exit 3"))
	dir := t.TempDir()
	if err := os.Symlink("/dev/full", filepath.Join(dir, "full.log")); err != nil {
		t.Fatal(err)
	}
	log, err := OpenLog(dir, "full", nil, l.printf, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	v.services[0].log, log = log, v.services[0].log
	defer log.Close() // the other one is the supervisor's to close
	v.Start("full")
	l.waitFor("service full: exited: exit status 3", 2)
	l.waitFor("service full: said: last words", 1)
	l.waitFor("log of full: write "+dir+"/full.log: no space left on device; the last 128 KiB are kept in memory", 1)
	if n := strings.Count(l.text(), "log of full"); n != 1 {
		t.Errorf("said %d times that the disk is full", n)
	}
}

// A service that somebody has stopped is let go on by a shutdown, ends by its
// own means, and is not taken for one that had to be killed.
func TestStoppedServiceEndsByItself(t *testing.T) {
	if !inChild(t) {
		return
	}
	v, l := supervisor(t, sh("k", table.RoleKubelet, "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.1; done"))
	if v.Age(table.RoleKubelet) != 0 || v.Age(table.RoleRuntime) != 0 {
		t.Error("what does not run has an age")
	}
	v.Start("k")
	l.waitFor("ready", 1)
	time.Sleep(200 * time.Millisecond) // the trap is set by then
	if d := v.Age(table.RoleKubelet); d < 200*time.Millisecond || d > time.Minute {
		t.Errorf("age %s", d)
	}
	pid := v.Pid(table.RoleKubelet)
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	waitStopped(t, pid)
	v.NoMoreRestarts()
	l.waitFor(fmt.Sprintf("service k: pid %d was stopped, SIGCONT", pid), 1)
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil { // and once more
		t.Fatal(err)
	}
	waitStopped(t, pid)
	if v.Stop(t.Context(), table.RoleKubelet) {
		t.Errorf("had to be killed:\n%s", l.text())
	}
	l.waitFor("service k: ended: exit status 0", 1)
}

func waitStopped(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		if stopped(string(b)) {
			return
		}
	}
	t.Fatal("it does not stop")
}

func TestStopped(t *testing.T) {
	for stat, want := range map[string]bool{"7 (a) T) S 1 1": false, "7 (a) T 1": true, "7 (x) t 1": true, "7 (T": false, "": false, "7 (x)": false} {
		if got := stopped(stat); got != want {
			t.Errorf("%q: %t", stat, got)
		}
	}
}

func FuzzStopped(f *testing.F) {
	f.Add("7 (a) T) S 1 1")
	f.Add("7 (x) t 1")
	f.Fuzz(func(t *testing.T, stat string) {
		if stopped(stat) && !strings.ContainsAny(stat, "Tt") {
			t.Fatalf("%q", stat)
		}
	})
}
