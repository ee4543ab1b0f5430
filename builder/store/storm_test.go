package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

const childEnv = "GARBOARD_STORE_ROLE"

// TestCollectAmongBuildsThatAreKilled runs builds and collectors of one store as
// processes and kills them at random. No build ever misses a result that it was
// given, and finds each as it was made.
func TestCollectAmongBuildsThatAreKilled(t *testing.T) {
	switch os.Getenv(childEnv) {
	case "build":
		buildChild(false)
	case "careless":
		buildChild(true)
	case "collect":
		collectChild()
	}
	s := open(t)
	s.Close() // this process uses nothing
	removed, err := storm(s, "build", 120)
	if err != nil {
		t.Error(err)
	}
	t.Logf("%d results were removed meanwhile", removed)
	// All are dead: one collector cleans up and leaves nothing.
	if s, err = Open(s.Dir()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Collect(context.Background(), 0, 0); err != nil {
		t.Fatal(err)
	}
	if left := leftovers(t, s); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if n, err := leases(s.Dir()); err != nil || len(n) != 1 {
		t.Errorf("leases %v, %v; want only this process's", n, err)
	}

	// The storm can find a fault: a build whose lease is lost is noticed.
	s = open(t)
	s.Close()
	if _, err := storm(s, "careless", 40); err == nil {
		t.Error("builds without a lease miss nothing: this test could not fail")
	} else {
		t.Logf("without a lease: %v", err)
	}
}

// storm starts processes, some at a time, and kills those that are builds or
// collectors some moment after they began. It ends when one finds the store
// wrong, with what that one said, and counts what collectors removed.
func storm(s *Store, role string, starts int) (removed int, fault error) {
	var mu sync.Mutex
	queue := make(chan string)
	var wg sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	for range 4 {
		wg.Go(func() {
			for role := range queue {
				n, err := runChild(ctx, s, role)
				mu.Lock()
				removed += n
				if err != nil && ctx.Err() == nil {
					fault = err
					stop()
				}
				mu.Unlock()
			}
		})
	}
	for i := 0; i < starts && ctx.Err() == nil; i++ {
		next := role
		if i%3 == 2 {
			next = "collect"
		}
		queue <- next
	}
	close(queue)
	wg.Wait()
	return removed, fault
}

func runChild(ctx context.Context, s *Store, role string) (removed int, err error) {
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestCollectAmongBuildsThatAreKilled$")
	cmd.Env = append(os.Environ(), childEnv+"="+role, "GARBOARD_STORE_CHILD="+s.Dir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	lines := bufio.NewScanner(out)
	var last string
	for lines.Scan() {
		switch last = lines.Text(); last {
		case "begins":
			if role != "careless" {
				timer := time.AfterFunc(time.Duration(rand.IntN(120))*time.Millisecond, func() { cmd.Process.Kill() })
				defer timer.Stop()
			}
		case "removed":
			removed++
		}
	}
	cmd.Wait()
	if cmd.ProcessState.ExitCode() == 3 {
		return removed, errors.New(last)
	}
	return removed, nil
}

// buildChild asks for some results at random, again and again, and looks at all
// that it was given each time.
func buildChild(careless bool) {
	s := openChild()
	life := 100 * time.Millisecond
	if careless {
		life = time.Minute
	}
	mine := rand.Perm(40)[:4]
	got := map[string]string{}
	for end := time.Now().Add(life); time.Now().Before(end); {
		key := fmt.Sprint("k", mine[rand.IntN(len(mine))])
		dir, _, err := s.Action(context.Background(), key, func(_ context.Context, dir string) error {
			for i := range 3 {
				if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), []byte(strings.Repeat(key, 2000)), 0o644); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			die(err)
		}
		got[key] = dir
		for key, dir := range got {
			for i := range 3 {
				if b, err := os.ReadFile(filepath.Join(dir, fmt.Sprint(i))); err != nil || string(b) != strings.Repeat(key, 2000) {
					die(fmt.Errorf("result %s, file %d: missing or wrong: %d bytes, %w", key, i, len(b), err))
				}
			}
		}
		if careless { // as after the hours of a long build: only a lease would say that they are used
			if len(got) == len(mine) {
				s.Close()
			}
			for _, dir := range got {
				os.Chtimes(dir, time.Now().Add(-time.Hour), time.Now().Add(-time.Hour))
			}
		}
	}
	os.Exit(0)
}

func collectChild() {
	s := openChild()
	for end := time.Now().Add(100 * time.Millisecond); time.Now().Before(end); {
		c, err := s.Collect(context.Background(), 0, 0)
		if err != nil {
			die(err)
		}
		fmt.Print(strings.Repeat("removed\n", c.Removed))
	}
	os.Exit(0)
}

func openChild() *Store {
	s, err := Open(os.Getenv("GARBOARD_STORE_CHILD"))
	if err != nil {
		die(err)
	}
	s.slack = 0
	fmt.Println("begins")
	return s
}

func die(err error) {
	fmt.Println(err)
	os.Exit(3)
}
