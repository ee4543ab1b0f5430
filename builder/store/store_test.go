package store

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func open(t *testing.T) *Store {
	t.Helper()
	s, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// leftovers are temporary files that something forgot.
func leftovers(t *testing.T, s *Store) []string {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(s.Dir(), "tmp", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return left
}

func TestPutIsNamedByItsBytes(t *testing.T) {
	s := open(t)
	sum, size, err := s.Put(strings.NewReader("abc"))
	if err != nil || size != 3 || sum != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		t.Fatalf("%s, %d bytes, %v", sum, size, err)
	}
	again, _, err := s.Put(strings.NewReader("abc"))
	if err != nil || again != sum || !s.Has(sum) {
		t.Errorf("the same bytes again: %s, %v", again, err)
	}
	if b, err := os.ReadFile(s.Blob(sum)); err != nil || string(b) != "abc" {
		t.Errorf("blob holds %q, %v", b, err)
	}
	if left := leftovers(t, s); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestAdoptRefusesOtherBytes(t *testing.T) {
	s := open(t)
	p := s.Temp("download")
	if err := os.WriteFile(p, []byte("tampered"), 0o644); err != nil {
		t.Fatal(err)
	}
	const want = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	if err := s.Adopt(p, want); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a file of another hash: %v", err)
	}
	if s.Has(want) {
		t.Error("the store holds it under the wrong name")
	}
	if err := os.WriteFile(p, []byte("abc"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := s.Adopt(p, want); err != nil || !s.Has(want) {
		t.Errorf("the right file: %v", err)
	}
}

func TestActionRunsOnceForMany(t *testing.T) {
	s := open(t)
	var runs, cached atomic.Int32
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			dir, hit, err := s.Action(context.Background(), "k", func(_ context.Context, dir string) error {
				runs.Add(1)
				time.Sleep(20 * time.Millisecond)
				return os.WriteFile(filepath.Join(dir, "out"), []byte("x"), 0o644)
			})
			if err != nil {
				t.Error(err)
			}
			if b, err := os.ReadFile(filepath.Join(dir, "out")); err != nil || string(b) != "x" {
				t.Errorf("result %q, %v", b, err)
			}
			if hit {
				cached.Add(1)
			}
		})
	}
	wg.Wait()
	if runs.Load() != 1 || cached.Load() != 19 {
		t.Errorf("%d runs, %d found it done; want 1 and 19", runs.Load(), cached.Load())
	}
}

func TestActionThatFailsLeavesNothing(t *testing.T) {
	s := open(t)
	boom := errors.New("boom")
	_, _, err := s.Action(context.Background(), "k", func(_ context.Context, dir string) error {
		os.WriteFile(filepath.Join(dir, "half"), nil, 0o644)
		return boom
	})
	if !errors.Is(err, boom) {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	_, _, err = s.Action(ctx, "k", func(context.Context, string) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a step that was interrupted: %v", err)
	}
	if left := leftovers(t, s); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, hit, err := s.Action(context.Background(), "k", func(context.Context, string) error { return nil }); hit || err != nil {
		t.Errorf("afterwards: found done %t, %v", hit, err)
	}
}

// TestActionSurvivesKill kills a process in the middle of a step; the next one
// neither waits for it nor finds its half.
func TestActionSurvivesKill(t *testing.T) {
	if dir := os.Getenv("GARBOARD_STORE_CHILD"); dir != "" {
		s, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		s.Action(context.Background(), "k", func(_ context.Context, dir string) error {
			os.WriteFile(filepath.Join(dir, "half"), nil, 0o644)
			os.Stdout.WriteString("in the middle\n")
			time.Sleep(time.Minute)
			return nil
		})
		return
	}
	s := open(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestActionSurvivesKill$")
	cmd.Env = append(os.Environ(), "GARBOARD_STORE_CHILD="+s.Dir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 64)
	if n, err := out.Read(buf); err != nil || !bytes.Contains(buf[:n], []byte("in the middle")) {
		t.Fatalf("child says %q, %v", buf[:n], err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	dir, hit, err := s.Action(ctx, "k", func(_ context.Context, dir string) error {
		return os.WriteFile(filepath.Join(dir, "whole"), nil, 0o644)
	})
	if err != nil || hit {
		t.Fatalf("after the kill: found done %t, %v", hit, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "half")); err == nil {
		t.Error("the killed process's half is part of the result")
	}
}

func TestLockEndsWithItsContext(t *testing.T) {
	s := open(t)
	unlock, err := s.Lock(context.Background(), "x")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if _, err := s.Lock(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a taken lock: %v", err)
	}
	unlock()
	if unlock, err := s.Lock(context.Background(), "x"); err != nil {
		t.Error(err)
	} else {
		unlock()
	}
}

func TestKeyTellsPartsApart(t *testing.T) {
	if Key("a", "bc") == Key("ab", "c") || Key("a") == Key("a", "") {
		t.Error("two lists of parts have one key")
	}
}

func TestHashTree(t *testing.T) {
	dir := t.TempDir()
	hash := func() string {
		t.Helper()
		h, err := HashTree(dir)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	seen := map[string]string{hash(): "empty"}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"a file", func() error { return os.WriteFile(filepath.Join(dir, "a"), []byte("1"), 0o644) }},
		{"its content", func() error { return os.WriteFile(filepath.Join(dir, "a"), []byte("2"), 0o644) }},
		{"its execute bit", func() error { return os.Chmod(filepath.Join(dir, "a"), 0o755) }},
		{"a link", func() error { return os.Symlink("a", filepath.Join(dir, "l")) }},
		{"its name", func() error { return os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "b")) }},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if h := hash(); seen[h] != "" {
			t.Errorf("%s: hash as with %s", step.name, seen[h])
		} else {
			seen[h] = step.name
		}
	}
	if err := os.Chmod(filepath.Join(dir, "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	if h := hash(); seen[h] == "" {
		t.Error("a umask reached the hash")
	}
}
