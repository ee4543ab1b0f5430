package supervise

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"garboard.local/init/table"
)

func execHook(script string) *table.Hook {
	return &table.Hook{Exec: []string{"/bin/sh", "-c", script}}
}

// hooked is a service that notes in dir/life what happens, and is ready when it runs.
func hooked(dir string) table.Service {
	s := sh("a", "", "trap 'echo TERM >> "+dir+"/life; exit 0' TERM; : > "+dir+"/up-a; while :; do sleep 0.01; done")
	s.GraceSeconds, s.Ready, s.Env = 30, upProbe(dir, "a"), []string{"WORD=from the service"}
	return s
}

// The preStop hook runs before the signal, as the service does; that it fails is
// said, and holds nothing up.
func TestPreStopComesBeforeTheSignal(t *testing.T) {
	if !inChild(t) {
		return
	}
	for _, tt := range []struct{ exit, blame string }{{"0", ""}, {"7", "preStop hook failed: /bin/sh: exit status 7"}} {
		t.Run("exit "+tt.exit, func(t *testing.T) {
			dir := t.TempDir()
			s := hooked(dir)
			s.Limits = []table.RLimit{{Name: "nofile", Soft: 77, Hard: 77}}
			s.PreStop = execHook(`echo "hook: $WORD $(ulimit -n)" >> ` + dir + "/life; sleep 0.05; echo hook-over >> " + dir + "/life; exit " + tt.exit)
			v, l := supervisor(t, s)
			v.Start("a")
			l.waitFor("service a: ready", 1)
			v.NoMoreRestarts()
			if v.Stop(t.Context(), "") {
				t.Errorf("it had to be killed:\n%s", l.text())
			}
			state(t, v, "a", Ended)
			if got := read(t, dir+"/life"); got != "hook: from the service 77 hook-over TERM" {
				t.Errorf("%q:\n%s", got, l.text())
			}
			if st := v.Status()[0]; st.Last == nil || st.Last.Code != 0 || st.Last.Message != tt.blame {
				t.Errorf("status %+v", st.Last)
			}
			if tt.blame != "" {
				l.waitFor("service a: "+tt.blame, 1)
			}
		})
	}
}

// A preStop hook that hangs is killed with its children when the grace is over; the
// service is signalled all the same.
func TestPreStopThatHangs(t *testing.T) {
	if !inChild(t) {
		return
	}
	dir := t.TempDir()
	s := hooked(dir)
	s.GraceSeconds = 1
	s.PreStop = execHook("trap '' TERM; sleep 1000 & echo $! > " + dir + "/child; echo $$ > " + dir + "/hook; wait; sleep 1000")
	v, l := supervisor(t, s)
	v.Start("a")
	l.waitFor("service a: ready", 1)
	v.NoMoreRestarts()
	if v.Stop(t.Context(), "") {
		t.Errorf("the service had to be killed:\n%s", l.text())
	}
	l.waitFor("service a: stopped, preStop hook, at most 1s", 1)
	l.waitFor("service a: preStop hook failed: /bin/sh: has not ended in time, killed", 1)
	l.waitFor("service a: stopped, SIGTERM, at most 2s", 1)
	state(t, v, "a", Ended)
	if got := read(t, dir+"/life"); got != "TERM" {
		t.Errorf("%q", got)
	}
	for _, f := range []string{"child", "hook"} {
		pid, err := strconv.Atoi(read(t, dir+"/"+f))
		if err != nil {
			t.Fatal(err)
		}
		gone(t, pid)
	}
}

// gone waits until there is no such process.
func gone(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if unix.Kill(pid, 0) == unix.ESRCH {
			return
		}
	}
	t.Fatalf("process %d is still there", pid)
}

// A shutdown that is in a hurry cuts a hook short; so does the service's own end.
func TestPreStopIsCutShort(t *testing.T) {
	if !inChild(t) {
		return
	}
	t.Run("by a hurry", func(t *testing.T) {
		dir := t.TempDir()
		s := hooked(dir)
		s.PreStop = &table.Hook{SleepSeconds: 1000}
		s.GraceSeconds = 2000
		v, l := supervisor(t, s)
		v.Start("a")
		l.waitFor("service a: ready", 1)
		v.NoMoreRestarts()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan bool)
		go func() { done <- v.Stop(ctx, "") }()
		l.waitFor("service a: stopped, preStop hook", 1)
		cancel()
		<-done
		l.waitFor("service a: stopped, SIGTERM, at most 1s", 1)
		state(t, v, "a", Ended)
	})
	t.Run("by the end of the service", func(t *testing.T) {
		dir := t.TempDir()
		s := hooked(dir)
		s.PreStop = execHook("echo $$ > " + dir + "/hook; exec sleep 1000")
		s.GraceSeconds = 2000
		v, l := supervisor(t, s)
		v.Start("a")
		l.waitFor("service a: ready", 1)
		v.NoMoreRestarts()
		done := make(chan bool)
		go func() { done <- v.Stop(t.Context(), "") }()
		l.waitFor("service a: stopped, preStop hook", 1)
		if err := unix.Kill(v.Status()[0].PID, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if <-done {
			t.Error("it had to be killed, by its own word")
		}
		state(t, v, "a", Ended)
		if m := v.Status()[0].Last.Message; m != "" || strings.Contains(l.text(), "SIGTERM") {
			t.Errorf("%q, signalled:\n%s", m, l.text())
		}
	})
}

// Who asks for the end of a service that is being ended waits for that end; the
// hook runs once.
func TestTwoEndsAreOne(t *testing.T) {
	if !inChild(t) {
		return
	}
	dir := t.TempDir()
	s := hooked(dir)
	s.Role = table.RoleKubelet
	s.PreStop = execHook("echo hook >> " + dir + "/life; while ! test -e " + dir + "/go; do sleep 0.01; done")
	v, l := supervisor(t, s)
	v.Start("a")
	l.waitFor("service a: ready", 1)
	if err := v.Restart(table.RoleKubelet, "a test"); err != nil {
		t.Fatal(err)
	}
	l.waitFor("service a: restart asked for by a test, preStop hook", 1)
	v.NoMoreRestarts()
	done := make(chan bool)
	go func() { done <- v.Stop(t.Context(), table.RoleKubelet) }()
	for end := time.Now().Add(40 * time.Second); ; time.Sleep(time.Millisecond) {
		if b, _ := os.ReadFile(dir + "/life"); len(b) > 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the hook does not run")
		}
	}
	touch(t, dir+"/go")
	if <-done {
		t.Error("it had to be killed")
	}
	state(t, v, "a", Ended)
	if got := read(t, dir+"/life"); got != "hook TERM" {
		t.Errorf("%q:\n%s", got, l.text())
	}
}

// Another stop signal is what is sent.
func TestStopSignal(t *testing.T) {
	if !inChild(t) {
		return
	}
	dir := t.TempDir()
	s := hooked(dir)
	s.Command[2] = strings.Replace(s.Command[2], "' TERM", "' USR1", 1)
	s.StopSignal = int(unix.SIGUSR1)
	v, l := supervisor(t, s)
	v.Start("a")
	l.waitFor("service a: ready", 1)
	v.NoMoreRestarts()
	if v.Stop(t.Context(), "") {
		t.Error("it had to be killed")
	}
	l.waitFor("service a: stopped, SIGUSR1, at most 30s", 1)
}

// Nothing waits any longer for a service than for its postStart hook, and nothing
// is probed before that has run.
func TestPostStartComesBeforeStarted(t *testing.T) {
	if !inChild(t) {
		return
	}
	dir := t.TempDir()
	side := sidecar("a", "exec sleep 1000")
	side.PostStart = execHook("touch " + dir + "/runs; while ! test -e " + dir + "/go; do sleep 0.01; done; touch " + dir + "/over")
	side.Startup = execProbe("test -e "+dir+"/over", 1)
	side.Live = execProbe("test -e "+dir+"/over", 1)
	v, l := supervisor(t, inPod(side, container("b", table.RestartAlways, "exec sleep 1000", "a"))...)
	v.StartPod("a")
	for _, err := os.Stat(dir + "/runs"); err != nil; _, err = os.Stat(dir + "/runs") {
		time.Sleep(time.Millisecond)
	}
	if st := v.Status()[0]; st.Up || st.State != table.StateStarting || strings.Contains(l.text(), "service b: started") {
		t.Errorf("%+v\n%s", st, l.text())
	}
	touch(t, dir+"/go")
	l.waitFor("service b: started", 1)
	l.waitFor("service a: ready", 1)
	if strings.Contains(l.text(), "probe failed") {
		t.Errorf("probed before its postStart hook had run:\n%s", l.text())
	}
}

// A postStart hook that fails, or hangs, ends the service by its grace, and the
// policy decides what comes then.
func TestPostStartThatFails(t *testing.T) {
	if !inChild(t) {
		return
	}
	for _, tt := range []struct{ name, script, blame string }{
		{"fails", "exit 5", "postStart hook failed: /bin/sh: exit status 5"},
		{"hangs", "exec sleep 1000", "postStart hook failed: /bin/sh: has not ended in time, killed"},
		{"is not there", "", "postStart hook failed: start /nonexistent: no such file or directory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			s := hooked(dir)
			s.PostStart = execHook("test -e " + dir + "/again && exit 0; while ! test -e " + dir + "/up-a; do sleep 0.01; done; touch " + dir + "/again; " + tt.script)
			if tt.script == "" {
				s.PostStart.Exec = []string{"/nonexistent"}
				s.Command = []string{"/bin/sleep", "1000"}
			}
			s.PreStop = execHook("echo preStop >> " + dir + "/life")
			l := &lines{t: t}
			limit := time.Duration(0) // an hour
			if tt.name == "hangs" {
				limit = 100 * time.Millisecond
			}
			v := New(Options{Reaper: reaper(t), Printf: l.printf, LogDir: t.TempDir(), PostStart: limit,
				Timing: Timing{time.Millisecond, time.Millisecond, time.Hour}}, []table.Service{s})
			defer v.Close()
			v.Start("a")
			l.waitFor("service a: "+tt.blame, 1)
			l.waitFor("service a: postStart hook failed, preStop hook, at most 30s", 1)
			l.waitFor("service a: postStart hook failed, SIGTERM, at most ", 1)
			l.waitFor("service a: exited: ", 1)
			l.waitFor("service a: started", 2)
			if tt.script == "exit 5" {
				l.waitFor("service a: ready", 1)
				if got := read(t, dir+"/life"); got != "preStop TERM" {
					t.Errorf("%q", got)
				}
				if st := v.Status()[0]; st.Last == nil || st.Last.Message != tt.blame || st.Restarts != 1 {
					t.Errorf("%+v", st.Last)
				}
			}
		})
	}
}

// A service that is ended while its postStart hook runs is not held up by it.
func TestPostStartIsCutShort(t *testing.T) {
	if !inChild(t) {
		return
	}
	dir := t.TempDir()
	s := hooked(dir)
	s.PostStart = execHook("echo $$ > " + dir + "/hook; exec sleep 1000")
	s.GraceSeconds = 2000
	v, l := supervisor(t, s)
	v.Start("a")
	pid := 0
	for end := time.Now().Add(40 * time.Second); pid == 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		if _, err := os.Stat(dir + "/up-a"); err != nil {
			continue
		}
		b, _ := os.ReadFile(dir + "/hook")
		_, _ = fmt.Sscan(string(b), &pid)
	}
	v.NoMoreRestarts()
	if v.Stop(t.Context(), "") {
		t.Error("it had to be killed")
	}
	state(t, v, "a", Ended)
	gone(t, pid)
	if m := v.Status()[0].Last.Message; m != "" {
		t.Errorf("%q:\n%s", m, l.text())
	}
}

// group is a cgroup for hooks that is none, and tells whether it was killed.
type group struct{ killed chan string }

func (group) Fd() int      { return -1 }
func (group) Close() error { return nil }
func (g group) Kill() error {
	g.killed <- "killed"
	return fmt.Errorf("this is no cgroup")
}

// What runs for a service is in a group of its own, and ended by that.
func TestHooksAreInGroups(t *testing.T) {
	if !inChild(t) {
		return
	}
	dir := t.TempDir()
	s := hooked(dir)
	s.GraceSeconds = 1
	s.PreStop = execHook("exec sleep 1000")
	l := &lines{t: t}
	made, killed := make(chan string, 1000), make(chan string, 10)
	v := New(Options{Reaper: reaper(t), Printf: l.printf, LogDir: t.TempDir(), Part: func(name, part string) (Part, error) {
		made <- name + "/" + part
		return group{killed}, nil
	}}, []table.Service{s})
	defer v.Close()
	v.Start("a")
	l.waitFor("service a: ready", 1)
	v.NoMoreRestarts()
	v.Stop(t.Context(), "")
	if g := <-made; g != "a/readiness" {
		t.Errorf("%q", g)
	}
	last := ""
	for len(made) > 0 {
		last = <-made
	}
	if last != "a/preStop" || <-killed != "killed" {
		t.Errorf("%q", last)
	}
}
