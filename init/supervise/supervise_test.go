package supervise

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"garboard.local/init/launch"
)

// The reaper takes every child's status, so these tests run it in a process of
// its own: this same binary, re-executed as a child subreaper. A test named in
// child runs there.
const childEnv = "GARBOARD_SUPERVISE_CHILD"

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == launch.Name { // a service is launched through /proc/self/exe
		os.Exit(launch.Main(os.Args[1:], os.Environ(), "/", os.Stderr))
	}
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
