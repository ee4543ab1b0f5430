package boot

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSurvivors(t *testing.T) {
	proc := t.TempDir()
	put := func(pid int, stat string) {
		t.Helper()
		dir := filepath.Join(proc, fmt.Sprint(pid))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "stat"), []byte(stat), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := survivors(proc); got != "" {
		t.Error(got)
	}
	put(os.Getpid(), "1 (init) S 0 1 1 0 -1 4194560 0")
	put(2, "2 (kthreadd) S 0 0 0 0 -1 2129984 0")
	put(70, "70 (a) b) D 1 70 70 0 -1 4194304 0")
	put(71, "nonsense")
	put(72, "72 (short) S 1")
	if got := survivors(proc); got != "70 (a) b, D)" {
		t.Error(got)
	}
	for pid := 100; pid < 120; pid++ {
		put(pid, fmt.Sprintf("%d (dd) D 1 1 1 0 -1 4194304 0", pid))
	}
	if got := survivors(proc); strings.Count(got, "(dd, D)") != 8 || !strings.HasSuffix(got, ", 13 more") {
		t.Error(got)
	}
}

func FuzzUserProcess(f *testing.F) {
	f.Add("70 (a) b) D 1 70 70 0 -1 4194304 0")
	f.Add("2 (kthreadd) S 0 0 0 0 -1 2129984 0")
	f.Add(")(")
	f.Fuzz(func(t *testing.T, stat string) {
		comm, state, ok := userProcess(stat)
		if ok && (state == "" || !strings.Contains(stat, "("+comm+")")) {
			t.Fatalf("%q gave %q, %q", stat, comm, state)
		}
	})
}
