package podlog

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestStream(t *testing.T) {
	long := strings.Repeat("x", 3*MaxText)
	for _, tt := range []struct {
		name, in string
		want     []string
	}{
		{"full lines", "2026-01-02T03:04:05.1Z stdout F hello\n2026 stderr F a b\n", []string{"hello", "a b"}},
		{"partial joins", "t stdout P ab\nt stdout P cd\nt stdout F e\n", []string{"abcde"}},
		{"more tags", "t stdout F:x text\n", []string{"text"}},
		{"empty text", "t stdout F \nt stdout F\n", []string{"", ""}},
		{"not the format", "hello world\n", []string{"hello world"}},
		{"unknown tag", "t stdout X a\n", []string{"t stdout X a"}},
		{"too long", "t stdout F " + long + "\nt stdout F next\n", []string{long[:MaxText], "next"}},
		{"too many partials", "t stdout P " + long + "\nt stdout P " + long + "\nt stdout F z\n", []string{long[:MaxText]}},
		{"unfinished", "t stdout F a\nt stdout P b\nt stdout F c", []string{"a", "bc"}},
	} {
		for _, chunk := range []int{1, 7, 1 << 20} {
			var s stream
			var got []string
			emit := func(l string) { got = append(got, l) }
			for in := []byte(tt.in); len(in) > 0; {
				n := min(chunk, len(in))
				s.put(in[:n], emit)
				in = in[n:]
			}
			s.flush(emit)
			if !slices.Equal(got, tt.want) {
				t.Errorf("%s, %d bytes at a time: %.80q, want %.80q", tt.name, chunk, got, tt.want)
			}
		}
	}
}

func TestSource(t *testing.T) {
	if got := source("kube-system_hello-node_0123-45", "main"); got != "kube-system/hello-node/main" {
		t.Error(got)
	}
	if got := source("odd", "c"); got != "odd/c" {
		t.Error(got)
	}
}

func FuzzStream(f *testing.F) {
	f.Add([]byte("t stdout F a\nt stderr P b\n"), 3)
	f.Add([]byte("t stdout P\n\n \n  \n"), 1)
	f.Fuzz(func(t *testing.T, in []byte, chunk int) {
		if chunk < 1 {
			return
		}
		var a, b []string
		var s1, s2 stream
		s1.put(in, func(l string) { a = append(a, l) })
		s1.flush(func(l string) { a = append(a, l) })
		for rest := in; len(rest) > 0; {
			n := min(chunk, len(rest))
			s2.put(rest[:n], func(l string) { b = append(b, l) })
			rest = rest[n:]
		}
		s2.flush(func(l string) { b = append(b, l) })
		if !slices.Equal(a, b) {
			t.Fatalf("%q in pieces of %d: %q, at once: %q", in, chunk, b, a)
		}
		for _, l := range a {
			if len(l) > MaxText || strings.Contains(l, "\n") {
				t.Fatalf("line %q", l)
			}
		}
	})
}

type collected struct {
	mu sync.Mutex
	l  []string
}

func (c *collected) emit(src, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.l = append(c.l, src+": "+text)
}

func (c *collected) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.l)
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func TestFollow(t *testing.T) {
	dir := t.TempDir()
	var got collected
	c := filepath.Join(dir, "default_hello_1-2-3", "main")
	appendTo(t, filepath.Join(c, "0.log"), "t stdout F from an earlier boot\n")
	w := &Follower{Dir: dir, Emit: got.emit, Printf: t.Logf}
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { w.Run(ctx); close(done) }()
	defer func() { cancel(); <-done }()
	wait := func(want string) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
			if slices.Contains(got.all(), want) {
				return
			}
		}
		t.Fatalf("%q did not come: %q", want, got.all())
	}
	appendTo(t, filepath.Join(c, "0.log"), "t stdout F one\n")
	wait("default/hello/main: one")
	appendTo(t, filepath.Join(c, "0.log"), "t stdout F two\n")
	wait("default/hello/main: two")
	// rotation, with a last line in the old file
	appendTo(t, filepath.Join(c, "0.log"), "t stdout F last\n")
	if err := os.Rename(filepath.Join(c, "0.log"), filepath.Join(c, "0.log.20260102")); err != nil {
		t.Fatal(err)
	}
	appendTo(t, filepath.Join(c, "0.log"), "t stdout F new file\n")
	wait("default/hello/main: new file")
	// a restart of the container
	appendTo(t, filepath.Join(c, "1.log"), "t stdout F restarted\n")
	wait("default/hello/main: restarted")
	// a second pod, and what it says last, without an end
	appendTo(t, filepath.Join(dir, "a_b_c", "x", "0.log"), "t stdout P bye")
	dctx, dcancel := context.WithTimeout(ctx, 10*time.Second)
	defer dcancel()
	w.Drain(dctx)
	want := []string{"default/hello/main: one", "default/hello/main: two", "default/hello/main: last",
		"default/hello/main: new file", "default/hello/main: restarted", "a/b/x: bye"}
	if l := got.all(); !slices.Equal(l, want) {
		t.Errorf("got %q", l)
	}
}

func TestFollowBurst(t *testing.T) {
	dir := t.TempDir()
	var got collected
	w := &Follower{Dir: dir, Emit: got.emit, Printf: t.Logf}
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { w.Run(ctx); close(done) }()
	for i := range 50 {
		for j := range 20 {
			appendTo(t, filepath.Join(dir, fmt.Sprintf("n_p%d_u", i), "c", "0.log"), fmt.Sprintf("t stdout F %d\n", j))
		}
	}
	dctx, dcancel := context.WithTimeout(ctx, 20*time.Second)
	defer dcancel()
	w.Drain(dctx)
	cancel()
	<-done
	if n := len(got.all()); n != 1000 {
		t.Errorf("%d lines, want 1000", n)
	}
}

func TestSkip(t *testing.T) {
	dir := t.TempDir()
	var got collected
	w := &Follower{Dir: dir, Emit: got.emit, Printf: t.Logf,
		Skip: func(namespace, pod, container string) bool {
			return namespace == "kube-system" && pod == "node-x" && container == "init"
		}}
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	appendTo(t, filepath.Join(dir, "kube-system_node-x_1", "init", "0.log"), "t stdout F hidden\n")
	appendTo(t, filepath.Join(dir, "kube-system_node-x_1", "other", "0.log"), "t stdout F shown\n")
	appendTo(t, filepath.Join(dir, "default_node-x_1", "init", "0.log"), "t stdout F shown\n")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { w.Run(ctx); close(done) }()
	w.Drain(ctx)
	appendTo(t, filepath.Join(dir, "kube-system_node-x_1", "init", "0.log"), "t stdout F hidden\n")
	w.Drain(ctx)
	cancel()
	<-done
	l := got.all()
	slices.Sort(l)
	if want := []string{"default/node-x/init: shown", "kube-system/node-x/other: shown"}; !slices.Equal(l, want) {
		t.Errorf("got %q", l)
	}
}
