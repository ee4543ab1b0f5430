package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

const (
	peakEnv  = "GARBOARD_TEST_PEAK"
	readyEnv = "GARBOARD_TEST_PEAK_READY" // file that the child makes once it has its memory
)

// A process that has a child, each with memory of its own: the largest is the
// child's, and together they have more.
func TestMeasure(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestMeasure$")
	ready := filepath.Join(t.TempDir(), "ready")
	cmd.Env = append(os.Environ(), peakEnv+"=parent", readyEnv+"="+ready)
	const mib = 1 << 20
	held, err := cmd.StdinPipe() // both live until it is closed
	if err != nil {
		t.Fatal(err)
	}
	looks := 0 // that began when both had their memory
	p, err := measure(t.Context(), cmd, func(int64) {
		if _, err := os.Stat(ready); err != nil {
			return
		}
		if looks++; looks > 1 {
			held.Close()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", p)
	// The race detector needs memory of its own, so there are no close upper bounds.
	if p.Largest < 96*mib || p.Largest > 2048*mib {
		t.Errorf("the largest process had %d MiB, want the child's 96 and what a Go program needs", p.Largest/mib)
	}
	if p.Together < p.Largest+64*mib || p.Together > 4096*mib {
		t.Errorf("together they had %d MiB, the largest %d; want the parent's 64 more", p.Together/mib, p.Largest/mib)
	}
	cmd = exec.Command(self, "-test.run=^TestMeasure$")
	cmd.Env = append(os.Environ(), peakEnv+"=fails")
	if _, err := measure(t.Context(), cmd, nil); err == nil {
		t.Error("a command that fails is measured without a word")
	}
}

// hold is the test's own child.
func hold(role string) {
	size := map[string]int{"parent": 64 << 20, "child": 96 << 20}[role]
	memory := make([]byte, size)
	for i := 0; i < size; i += 4096 {
		memory[i] = 1
	}
	switch role {
	case "parent":
		cmd := exec.Command(os.Args[0], "-test.run=^TestMeasure$")
		cmd.Env, cmd.Stdin = append(os.Environ(), peakEnv+"=child"), os.Stdin
		if out, err := cmd.CombinedOutput(); err != nil {
			fmt.Println(err, string(out))
			os.Exit(3)
		}
	case "child":
		if err := os.WriteFile(os.Getenv(readyEnv), nil, 0o600); err != nil {
			os.Exit(3)
		}
		_, _ = io.Copy(io.Discard, os.Stdin)
	default:
		os.Exit(3)
	}
	runtime.KeepAlive(memory)
	os.Exit(0)
}

func TestParseStat(t *testing.T) {
	line := "12 (a) b (c) S 1 12 77 0 -1 4194560 1 0 0 0 1 1 0 0 20 0 1 0 100 1000 42 18446744073709551615 1\n"
	if sid, pages, err := parseStat([]byte(line)); err != nil || sid != 77 || pages != 42 {
		t.Errorf("session %d, %d pages, %v", sid, pages, err)
	}
	for _, bad := range []string{"", "12 a S 1", "12 (a) S 1 12 77", strings.Replace(line, " 77 ", " x ", 1), strings.Replace(line, " 42 ", " x ", 1)} {
		if _, _, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	self, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(self)
	f.Add([]byte("1 () S 1 1 1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, _, err := parseStat(b); err == nil && !strings.Contains(string(b), ")") {
			t.Errorf("%q is taken", b)
		}
	})
}

func TestResidentOf(t *testing.T) {
	if _, err := residentOf(t.TempDir(), 1); err == nil || !strings.Contains(err.Error(), "is it mounted?") {
		t.Errorf("without processes: %v", err)
	}
	dir := t.TempDir()
	put := func(pid, stat string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(dir, pid), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, pid, "stat"), []byte(stat), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const rest = " 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1 1 10 0\n"
	put("5", "5 (x) S 1 5 5"+rest)
	put("6", "6 (x y) S 5 6 5"+rest)
	put("7", "7 (x) S 1 7 7"+rest)
	if sum, err := residentOf(dir, 5); err != nil || sum != 20*int64(os.Getpagesize()) {
		t.Errorf("%d, %v; want two of the three", sum, err)
	}
	put("8", "8 x")
	if _, err := residentOf(dir, 5); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "8/stat")) {
		t.Errorf("a line that says nothing: %v", err)
	}
}
