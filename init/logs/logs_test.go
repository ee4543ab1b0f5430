package logs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// disk is a sink with faults.
type disk struct {
	mu   sync.Mutex
	b    bytes.Buffer
	room int   // bytes it takes yet; <0 = any number
	err  error // what it says then
	hung chan struct{}
}

func (d *disk) Write(p []byte) (int, error) {
	if d.hung != nil {
		<-d.hung
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.room < 0 {
		return d.b.Write(p)
	}
	n := min(d.room, len(p))
	d.room -= n
	d.b.Write(p[:n])
	if n < len(p) {
		return n, d.err
	}
	return n, nil
}

func (d *disk) Close() error { return nil }

func (d *disk) set(room int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.room = room
}

func (d *disk) String() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.b.String()
}

type said struct {
	mu sync.Mutex
	l  []string
}

func (s *said) printf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.l = append(s.l, fmt.Sprintf(format, args...))
}

func TestFullDiskLosesNothingRecent(t *testing.T) {
	for _, err := range []error{syscall.ENOSPC, syscall.EROFS, syscall.EIO} {
		synctest.Test(t, func(t *testing.T) {
			d, s := &disk{room: 5, err: err}, &said{}
			l := New(1000)
			l.Start(Options{Name: "x", Sink: d, Printf: s.printf})
			fmt.Fprint(l, "one two ")
			synctest.Wait()
			for i := range 10 {
				fmt.Fprintf(l, "%d ", i)
				time.Sleep(time.Minute) // many attempts, each of which fails
			}
			d.set(-1)
			time.Sleep(Retry)
			synctest.Wait()
			if got := d.String(); got != "one two 0 1 2 3 4 5 6 7 8 9 " {
				t.Errorf("%v: the file holds %q", err, got)
			}
			if len(s.l) != 2 || !strings.Contains(s.l[0], err.Error()) || !strings.HasSuffix(s.l[1], "is written again") {
				t.Errorf("said %q", s.l)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestLossIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{room: 0, err: syscall.ENOSPC}
		l := New(100)
		l.Start(Options{Name: "x", Sink: d, Printf: t.Logf})
		for i := range 100 {
			fmt.Fprintf(l, "line %04d\n", i)
		}
		d.set(-1)
		time.Sleep(Retry)
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		// How often it was tried meanwhile is left to chance: there may be several notices.
		got, kept, lost, notices := d.String(), 0, 0, 0
		for line := range strings.Lines(got) {
			var n int
			if k, _ := fmt.Sscanf(line, lossNotice, &n); k == 1 {
				lost += n
				notices++ // with an end for the line that was cut
			} else {
				kept += len(line)
			}
		}
		if kept+lost < 1000 || kept+lost > 1000+notices || kept < 100 || lost == 0 || !strings.HasSuffix(got, "line 0098\nline 0099\n") {
			t.Errorf("%d bytes kept and %d lost of 1000: %q", kept, lost, got)
		}
	})
}

// A disk that never answers holds up neither who writes nor the end of the node.
func TestHungDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{room: -1, hung: make(chan struct{})}
		l := New(1 << 10)
		l.Start(Options{Name: "x", Sink: d, Printf: t.Logf})
		began := time.Now()
		for range 1000 {
			l.Write(bytes.Repeat([]byte("x"), 3000))
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("writing took %s", took)
		}
		if len(l.buf) > 2<<10 || cap(l.buf) > 8<<10 {
			t.Errorf("the ring of 1 KiB holds %d bytes of %d", len(l.buf), cap(l.buf))
		}
		for range 2 {
			if err := l.Close(); !errors.Is(err, ErrHung) {
				t.Errorf("Close = %v", err)
			}
		}
		if took := time.Since(began); took != 2*CloseLimit {
			t.Errorf("closing twice took %s", took)
		}
		close(d.hung)
		<-l.done
	})
}

func TestWhatCameBeforeStart(t *testing.T) {
	d := &disk{room: -1}
	l := New(0)
	fmt.Fprint(l, "early\n")
	l.Start(Options{Name: "x", Sink: d, Printf: t.Logf})
	fmt.Fprint(l, "late\n")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(l, "too late\n")
	if d.String() != "early\nlate\n" || string(l.Recent(9)) != "too late\n" {
		t.Errorf("%q, recent %q", d.String(), l.Recent(9))
	}
	if err := New(0).Close(); err != nil {
		t.Error(err)
	}
}

func TestRing(t *testing.T) {
	for _, step := range []int{1, 3, 99, 100, 101, 250} {
		l := New(100)
		var all []byte
		for i := range 50 {
			p := bytes.Repeat([]byte{byte('a' + i%26)}, step)
			l.Write(p)
			all = append(all, p...)
			if got, want := l.Recent(1000), all[max(0, len(all)-100):]; !bytes.Equal(got, want) {
				t.Fatalf("%d at a time, after %d: %q, want %q", step, i, got, want)
			}
		}
	}
}

func TestFileRotates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "x.log")
	w := &File{Path: path, Cap: 100}
	for i := range 35 {
		if _, err := fmt.Fprintf(w, "line %02d\n", i); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(w, "again\n") // opened anew, appended
	w.Close()
	now, _ := os.ReadFile(path)
	before, _ := os.ReadFile(path + ".1")
	if string(now) != "line 24\nline 25\nline 26\nline 27\nline 28\nline 29\nline 30\nline 31\nline 32\nline 33\nline 34\nagain\n" ||
		!strings.HasPrefix(string(before), "line 12\n") || !strings.HasSuffix(string(before), "line 23\n") {
		t.Errorf("now\n%sbefore\n%s", now, before)
	}
	list, _ := filepath.Glob(filepath.Dir(path) + "/*")
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != Mode || len(list) != 2 {
		t.Errorf("%v, mode %o, files %q", err, st.Mode(), list)
	}
}

// The kernel's own full disk; then it is replaced by a healthy one.
func TestFullFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.log")
	if err := os.Symlink("/dev/full", path); err != nil {
		t.Fatal(err)
	}
	s := &said{}
	l := New(0)
	l.Start(Options{Name: "x", Sink: &File{Path: path}, Printf: s.printf, Retry: time.Millisecond})
	fmt.Fprint(l, "hello\n")
	wait := func(n int) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
			s.mu.Lock()
			have := len(s.l)
			s.mu.Unlock()
			if have == n {
				return
			}
		}
		t.Fatalf("said %q", s.l)
	}
	wait(1)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	wait(2)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if b, _ := os.ReadFile(path); string(b) != "hello\n" || !strings.Contains(s.l[0], "no space left on device") {
		t.Errorf("%q, said %q", b, s.l)
	}
}

func TestConcurrent(t *testing.T) {
	d := &disk{room: -1}
	l := New(1 << 20)
	l.Start(Options{Name: "x", Sink: d, Printf: t.Logf})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				io.WriteString(l, "line\n")
				l.Recent(10)
			}
		})
	}
	wg.Wait()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSpace(d.String()), "\n")
	if len(got) != 4000 || slices.ContainsFunc(got, func(s string) bool { return s != "line" }) {
		t.Errorf("%d lines", len(got))
	}
}
