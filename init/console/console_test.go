package console

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"
)

type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func run(t *testing.T, c *Console) {
	stop, done := make(chan struct{}), make(chan struct{})
	go func() { c.Run(stop); close(done) }()
	t.Cleanup(func() { close(stop); <-done })
}

func TestLinesReachTheKernelLog(t *testing.T) {
	var b buffer
	c := New(&b, time.Now)
	run(t, c)
	c.Printf("phase %s", "mounts")
	c.Guest("default/hello/main", "hi\x1b[2Jthere\n")
	c.Flush(time.Second)
	want := "<13>garboard: phase mounts\n<13>default/hello/main: hi?[2Jthere\n"
	if b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}

func TestQuietKernelStillShowsOurLines(t *testing.T) {
	var b buffer
	c := New(&b, time.Now)
	c.SetLevel("4\t4\t1\t7\n")
	run(t, c)
	c.Printf("x")
	c.Flush(time.Second)
	if b.String() != "<11>garboard: x\n" {
		t.Errorf("got %q", b.String())
	}
}

type stuck struct{ free chan struct{} }

func (s stuck) Write(p []byte) (int, error) { <-s.free; return len(p), nil }

func TestStuckConsoleBlocksNobody(t *testing.T) {
	s := stuck{make(chan struct{})}
	c := New(s, time.Now)
	run(t, c)
	done := make(chan struct{})
	go func() {
		for range ownQueue * 2 {
			c.Printf("x")
			c.Guest("p", "y")
		}
		c.Flush(10 * time.Millisecond)
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("Printf blocked on a stuck console")
	}
	close(s.free)
}

func TestGuestsAreRateLimitedAndToldSo(t *testing.T) {
	var b buffer
	at := time.Unix(0, 0)
	c := New(&b, func() time.Time { return at })
	for range guestBurst + 50 {
		c.Guest("p", "y")
	}
	run(t, c)
	c.Printf("still here")
	c.Flush(5 * time.Second)
	s := b.String()
	if !strings.Contains(s, "lines dropped") || !strings.Contains(s, "garboard: still here") {
		t.Errorf("no word of the loss, or PID 1's own line lost:\n%.300s", s)
	}
}

func TestSplit(t *testing.T) {
	for _, tt := range []struct {
		in   string
		n    int
		want []string
	}{
		{"", 10, []string{""}},
		{"abc", 3, []string{"abc"}},
		{"abcdef", 4, []string{`abc\`, "def"}},
		{"aaaaaaaé", 9, []string{"aaaaaaaé"}},
		{"aaaaaaéb", 8, []string{`aaaaaa\`, "éb"}},
	} {
		got := Split(tt.in, tt.n)
		if strings.Join(got, "|") != strings.Join(tt.want, "|") {
			t.Errorf("Split(%q, %d) = %q, want %q", tt.in, tt.n, got, tt.want)
		}
	}
}

func FuzzSplit(f *testing.F) {
	f.Add("hello", 8)
	f.Add(strings.Repeat("é", 40), 9)
	f.Fuzz(func(t *testing.T, s string, n int) {
		if n < 8 || n > 2000 {
			return
		}
		var back string
		pieces := Split(s, n)
		for i, p := range pieces {
			if len(p) > n {
				t.Fatalf("piece of %d bytes, limit %d", len(p), n)
			}
			if i < len(pieces)-1 {
				p = strings.TrimSuffix(p, `\`)
			}
			back += p
		}
		if back != s {
			t.Fatalf("pieces of %q give %q", s, back)
		}
	})
}

// What is kept is PID 1's own alone: a guest's line that came back through it
// would be shown, logged and shown again for ever.
func TestOnlyOwnLinesAreKept(t *testing.T) {
	free := make(chan struct{})
	c := New(&stuck{free}, time.Now) // nobody reads the console, and nothing is lost here
	run(t, c)
	defer close(free)
	var kept []string
	c.Keep(func(s string) { kept = append(kept, s) })
	for i := range 3000 {
		c.Printf("line %d\x1b\n", i)
		c.Guest("kube-system/node-x/init", "garboard: line")
	}
	if len(kept) != 3000 || kept[2999] != "line 2999?" {
		t.Errorf("%d lines kept, the last: %q", len(kept), kept[len(kept)-1])
	}
}
