package supervise

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"garboard.local/init/table"
)

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
	up := filepath.Join(t.TempDir(), "up")
	k := sh("k", table.RoleKubelet, "trap 'echo bye; exit 0' TERM; : > "+up+"; while :; do sleep 0.1; done")
	k.GraceSeconds = 30
	k.Ready = execProbe("test -e "+up, 0)
	v, l := supervisor(t, k)
	if v.Age(table.RoleKubelet) != 0 || v.Age(table.RoleRuntime) != 0 {
		t.Error("what does not run has an age")
	}
	began := time.Now()
	v.Start("k")
	l.waitFor("service k: ready", 1)
	if d := v.Age(table.RoleKubelet); d <= 0 || d > time.Since(began) {
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
