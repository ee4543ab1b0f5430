package store

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// aged makes a result and a time of last use.
func aged(t *testing.T, s *Store, key string, bytes int, age time.Duration) string {
	t.Helper()
	dir, _, err := s.Action(context.Background(), key, func(_ context.Context, dir string) error {
		return os.WriteFile(filepath.Join(dir, "out"), make([]byte, bytes), 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now().Add(-age)
	if err := os.Chtimes(dir, at, at); err != nil {
		t.Fatal(err)
	}
	return dir
}

// reopened is the store as a later process finds it.
func reopened(t *testing.T, s *Store) *Store {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := Open(s.Dir())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func there(path string) bool { _, err := os.Stat(path); return err == nil }

func TestCollectTakesTheOldestFirst(t *testing.T) {
	s := open(t)
	old := aged(t, s, "old", 64<<10, 3*time.Hour)
	mid := aged(t, s, "mid", 64<<10, 2*time.Hour)
	young := aged(t, s, "new", 64<<10, time.Hour)
	s = reopened(t, s)
	u, err := s.Usage()
	if err != nil || u.Actions != 3 || u.Leases != 1 || u.Bytes < 3*64<<10 {
		t.Fatalf("usage %+v, %v", u, err)
	}
	c, err := s.Collect(context.Background(), u.Bytes*2/3, 0)
	if err != nil || c.Removed != 1 || there(old) || !there(mid) || !there(young) || c.Left+c.Freed != u.Bytes {
		t.Errorf("to two thirds: %+v, %v; old %t, mid %t, young %t", c, err, there(old), there(mid), there(young))
	}
	// Using what is oldest now makes it the youngest.
	if _, hit, err := s.Action(context.Background(), "mid", nil); !hit || err != nil {
		t.Fatalf("found %t, %v", hit, err)
	}
	if c, err = s.Collect(context.Background(), 0, 0); err != nil || !there(mid) || there(young) || c.InUse == 0 {
		t.Errorf("to nothing: %+v, %v: mid, which this process used, is there: %t; young: %t", c, err, there(mid), there(young))
	}
	s = reopened(t, s)
	if err := os.Chtimes(mid, time.Now().Add(-time.Minute), time.Now().Add(-time.Minute)); err != nil {
		t.Fatal(err)
	}
	if c, err = s.Collect(context.Background(), 0, time.Hour); err != nil || c.Removed != 0 {
		t.Errorf("younger than the age that is kept: %+v, %v", c, err)
	}
	if c, err = s.Collect(context.Background(), 0, 0); err != nil || there(mid) || c.Left != 0 {
		t.Errorf("nobody uses it any more: %+v, %v", c, err)
	}
	if left, _ := filepath.Glob(filepath.Join(s.Dir(), "sizes", "*")); len(left) > 0 {
		t.Errorf("sizes of what is gone: %v", left)
	}
}

func TestCollectSparesWhatAnotherProcessUses(t *testing.T) {
	a := open(t)
	dir := aged(t, a, "k", 10, time.Hour)
	blob, _, err := a.Put(strings.NewReader("abc"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(a.Blob(blob), time.Now().Add(-time.Hour), time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	a = reopened(t, a)
	b, err := Open(a.Dir())
	if err != nil {
		t.Fatal(err)
	}
	if _, hit, err := a.Action(context.Background(), "k", nil); !hit || err != nil || !a.Has(blob) {
		t.Fatal(hit, err)
	}
	if c, err := b.Collect(context.Background(), 0, 0); err != nil || !there(dir) || !b.Has(blob) {
		t.Errorf("%+v, %v: what another process uses is gone", c, err)
	}
	// The clock set back does not age what is used.
	a.lease.since = time.Now().Add(time.Hour)
	if err := a.touch(dir); err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Stat(dir); err != nil || fi.ModTime().Before(time.Now()) {
		t.Errorf("marked at %v, before its lease began", fi.ModTime())
	}
}

// TestLeaseOutlivesItsStore: a program may use what the store gave it long after
// it last looked at the Store.
func TestLeaseOutlivesItsStore(t *testing.T) {
	dir := t.TempDir()
	scratch, err := func() (string, error) {
		s, err := Open(dir)
		if err != nil {
			return "", err
		}
		return s.Scratch("x")
	}()
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		runtime.GC()
		time.Sleep(10 * time.Millisecond) // finalizers run beside
	}
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Collect(context.Background(), 0, 0); err != nil || !there(scratch) {
		t.Errorf("%v; the directory of a living process is there: %t", err, there(scratch))
	}
}

func TestCollectSweepsWhatTheDeadLeft(t *testing.T) {
	s := open(t)
	for name, old := range map[string]bool{
		"1700000000000000000.deadbeef00-action-1": false, "1700000000000000000.deadbeef00-blob-2": false, "action-of-an-old-version": true,
		"fetch-0123": true,
	} {
		p := filepath.Join(s.Dir(), "tmp", name)
		if err := os.WriteFile(p, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if old {
			if err := os.Chtimes(p, time.Now().Add(-2*partialAge), time.Now().Add(-2*partialAge)); err != nil {
				t.Fatal(err)
			}
		}
	}
	keep := []string{"fetch-4567", s.lease.name + "-action-3"}
	for _, n := range keep {
		if err := os.WriteFile(filepath.Join(s.Dir(), "tmp", n), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	unlock, err := s.Lock(context.Background(), "taken")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.Dir(), "locks", "free"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Collect(context.Background(), 0, 0); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range leftovers(t, s) {
		names = append(names, filepath.Base(p))
	}
	slices.Sort(keep)
	if !slices.Equal(names, keep) {
		t.Errorf("tmp holds %q, want %q", names, keep)
	}
	if there(filepath.Join(s.Dir(), "locks", "free")) || !there(filepath.Join(s.Dir(), "locks", "taken")) {
		t.Error("the lock file that nobody holds stays, or the one that is held is gone")
	}
	unlock()
}

// TestLockIsOneThroughItsRemoval has many take and give a lock while its file
// is removed under them.
func TestLockIsOneThroughItsRemoval(t *testing.T) {
	s := open(t)
	ctx, stop := context.WithCancel(context.Background())
	var holders, count int
	var mu sync.Mutex
	var wg, sweeper sync.WaitGroup
	sweeper.Go(func() {
		for ctx.Err() == nil {
			if err := s.sweep(map[string]time.Time{s.lease.name: s.lease.since}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 4 {
		wg.Go(func() {
			for range 20 {
				unlock, err := s.Lock(context.Background(), "x")
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if holders++; holders != 1 {
					t.Errorf("%d hold the lock", holders)
				}
				count++
				mu.Unlock()
				time.Sleep(time.Millisecond)
				mu.Lock()
				holders--
				mu.Unlock()
				unlock()
			}
		})
	}
	wg.Wait()
	stop()
	sweeper.Wait()
	if count != 80 {
		t.Errorf("taken %d times", count)
	}
}
