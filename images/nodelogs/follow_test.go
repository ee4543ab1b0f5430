package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"garboard.local/init/logs"
)

type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// rig is a log, as PID 1 writes it, and a follower that can be started again.
type rig struct {
	t   *testing.T
	dir string
	w   *logs.File
	n   int // lines written
	out output
	end func()
}

func newRig(t *testing.T, limit int64) *rig {
	dir := t.TempDir()
	return &rig{t: t, dir: dir, w: &logs.File{Path: filepath.Join(dir, "logs", "x.log"), Cap: limit}}
}

func (r *rig) lines(n int) {
	r.t.Helper()
	for range n {
		r.n++
		if _, err := fmt.Fprintf(r.w, "line %06d\n", r.n); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *rig) start() {
	r.t.Helper()
	f := &follower{path: r.w.Path, state: filepath.Join(r.dir, "state"), out: &r.out, say: r.t.Logf}
	if err := os.MkdirAll(filepath.Dir(r.w.Path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := f.start(); err != nil {
		r.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- f.run() }()
	r.end = func() {
		f.stop()
		if err := <-done; err != nil {
			r.t.Error(err)
		}
	}
}

// got waits until the last line is out and demands each from the first on, once.
func (r *rig) got(first int) {
	r.t.Helper()
	var want strings.Builder
	for i := first; i <= r.n; i++ {
		fmt.Fprintf(&want, "line %06d\n", i)
	}
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if r.out.String() == want.String() {
			return
		}
	}
	got := r.out.String()
	r.t.Fatalf("%d bytes, want %d: ... %q", len(got), want.Len(), got[max(0, len(got)-100):])
}

func TestFollows(t *testing.T) {
	r := newRig(t, 0)
	r.start() // before there is a log
	r.lines(1)
	r.got(1)
	r.lines(1000)
	r.got(1)
	r.end()
}

func TestRotationLosesAndRepeatsNothing(t *testing.T) {
	r := newRig(t, 100_000)
	r.start()
	for range 40 { // 4 rotations
		r.lines(1000)
		r.got(1)
	}
	r.end()
}

func TestRestartGoesOn(t *testing.T) {
	for _, tt := range []struct {
		name    string
		between int // lines written while the container does not run
		first   int // of the lines that then can still be had
	}{
		{"nothing new", 0, 1},
		{"some lines", 10, 1},
		{"one rotation", 800, 1},
		{"two rotations", 1500, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, 12*700)
			r.lines(500)
			r.start()
			r.got(1)
			r.end()
			r.lines(tt.between)
			r.start()
			r.lines(5)
			if tt.first > 0 {
				r.got(1)
				r.end()
				return
			}
			time.Sleep(50 * time.Millisecond)
			r.end()
			got := r.out.String()
			seen := map[string]int{}
			for line := range strings.Lines(got) {
				seen[line]++
				if seen[line] > 1 {
					t.Fatalf("%q came twice", line)
				}
			}
			if last := fmt.Sprintf("line %06d\n", r.n); !strings.HasSuffix(got, last) || !strings.Contains(got, "line 000701\n") {
				t.Errorf("not from the older file on, or not to the end: %q", got[len(got)-30:])
			}
		})
	}
}

func TestRestartAmidALine(t *testing.T) {
	r := newRig(t, 0)
	r.start()
	r.lines(3)
	fmt.Fprint(r.w, "line 00")
	r.got(1)
	r.end() // the unfinished line is written out, and not again
	fmt.Fprint(r.w, "0004\n")
	r.n++
	r.start()
	r.lines(1)
	r.got(1)
	r.end()
}

func TestFirstRunBeginsWithATail(t *testing.T) {
	r := newRig(t, 0)
	r.lines(100_000)
	r.start()
	first := 100_000 - firstTail/12 + 1
	r.got(first)
	r.lines(1)
	r.got(first)
	r.end()
}

func TestTruncatedLog(t *testing.T) {
	r := newRig(t, 0)
	r.start()
	r.lines(10)
	r.got(1)
	if err := os.Truncate(r.w.Path, 0); err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond)
	r.lines(3)
	r.got(1)
	r.end()
}

// A file that got the inode number of the old one is another file.
func TestInodeReused(t *testing.T) {
	r := newRig(t, 0)
	r.lines(20)
	r.start()
	r.got(1)
	r.end()
	p, ok := readPosition(filepath.Join(r.dir, "state"))
	if !ok || p.Offset != 240 || p.HeadLen != headLen {
		t.Fatalf("position %v", p)
	}
	f, err := os.OpenFile(r.w.Path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if !p.matches(f) {
		t.Error("does not match its own file")
	}
	if _, err := f.WriteAt([]byte("LINE"), 0); err != nil {
		t.Fatal(err)
	}
	if p.matches(f) {
		t.Error("matches a file with another beginning")
	}
}

func TestPositionThatCannotBeKept(t *testing.T) {
	r := newRig(t, 0)
	if err := os.Mkdir(filepath.Join(r.dir, "state"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.lines(3)
	r.start()
	r.lines(3)
	r.got(1)
	r.end()
}

func FuzzParsePosition(f *testing.F) {
	f.Add(position{Inode: 5, Offset: 7, HeadLen: 3, Head: 1 << 63}.String())
	f.Add("0 -1 64 0\n")
	f.Add("1 2 65 3\n")
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		p, ok := parsePosition(s)
		if !ok {
			return
		}
		if p.Offset < 0 || p.HeadLen < 0 || p.HeadLen > headLen {
			t.Fatalf("%q gave %+v", s, p)
		}
		if q, ok := parsePosition(p.String()); !ok || q != p {
			t.Fatalf("%q became %+v", p.String(), q)
		}
	})
}

// The program itself: it sleeps while nothing is written, and ends on SIGTERM
// with what was there.
func TestBinaryIsIdle(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "nodelogs")
	for _, arch := range []string{"arm64", ""} { // the host's own last: it is run
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", bin, ".")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOARCH="+arch)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go build for %q: %v\n%s", arch, err, out)
		}
	}
	if st, err := os.Stat(bin); err != nil || st.Size() > 3<<20 {
		t.Errorf("%v, %d bytes", err, st.Size())
	}
	if err := exec.Command(bin).Run(); err == nil {
		t.Error("without a name: no complaint")
	}
	out, err := exec.Command(bin, "x").CombinedOutput() // /logs is not there
	if err == nil || !strings.Contains(string(out), "watch /logs: no such file or directory") {
		t.Errorf("%v: %s", err, out)
	}
	// With its paths it runs in a container only; here the same code in this process.
	r := newRig(t, 0)
	r.start()
	r.lines(1)
	r.got(1)
	// What polls wakes in every window; a busy machine, the collector and the race
	// detector wake this process in some.
	least := int64(math.MaxInt64)
	for range 40 {
		var before, after syscall.Rusage
		syscall.Getrusage(syscall.RUSAGE_SELF, &before)
		time.Sleep(100 * time.Millisecond)
		syscall.Getrusage(syscall.RUSAGE_SELF, &after)
		if least = min(least, after.Nvcsw-before.Nvcsw); least <= 6 {
			break
		}
	}
	if least > 6 {
		t.Errorf("never fewer than %d context switches in 100 ms of idleness: it polls", least)
	}
	r.end()
}
