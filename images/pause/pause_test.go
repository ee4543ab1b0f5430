package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// build compiles pause as the node image does.
func build(t *testing.T, arch string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "pause")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", bin, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOARCH="+arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build for %s: %v\n%s", arch, err, out)
	}
	return bin
}

func TestBuildsSmallForBothArchitectures(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		fi, err := os.Stat(build(t, arch))
		if err != nil {
			t.Fatal(err)
		}
		if fi.Size() > 1500<<10 {
			t.Errorf("%s: pause is %d bytes, more than 1500 KiB", arch, fi.Size())
		}
	}
}

func TestEndsAtOnceWithStatusZero(t *testing.T) {
	bin := build(t, "")
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		cmd := exec.Command(bin)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		asleep(t, cmd.Process.Pid)
		start := time.Now()
		cmd.Process.Signal(sig)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: pause ended with %v, want status 0", sig, err)
		}
		if d := time.Since(start); d > time.Second {
			t.Errorf("%s: pause took %s to end", sig, d)
		}
	}
}

func TestFewThreads(t *testing.T) {
	cmd := exec.Command(build(t, ""))
	cmd.Env = []string{} // cri-o gives a sandbox's PID 1 none of its image's variables
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	asleep(t, cmd.Process.Pid)
	if n := status(t, cmd.Process.Pid, "Threads"); n > 5 {
		t.Errorf("pause has %d threads, want at most 5", n)
	}
	t.Logf("threads %d, RSS %d KiB, of it anonymous %d KiB", status(t, cmd.Process.Pid, "Threads"), status(t, cmd.Process.Pid, "VmRSS"), status(t, cmd.Process.Pid, "RssAnon"))
}

// The shell becomes pause while it has a child; the child leaves an orphan.
const family = `sh -c 'sleep 0.3 & exec sleep 0.1' & exec "$0"`

func TestReapsChildren(t *testing.T) {
	cmd := exec.Command("sh", "-c", family, build(t, ""))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	childless(t, cmd.Process.Pid)
}

// As PID 1 of a namespace pause also inherits the orphan, and the kernel gives
// it no signal that it does not handle. Without root the namespace is asked
// for through a user namespace, which some hosts forbid; then what remains is
// that the refusal is that one and no other.
func TestAsPID1(t *testing.T) {
	cmd := exec.Command("sh", "-c", family, build(t, ""))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	if err := cmd.Start(); err != nil {
		if !os.IsPermission(err) {
			t.Fatal(err)
		}
		t.Logf("uid %d may not make a PID namespace here (%v): the PID 1 part did not run", os.Getuid(), err)
		return
	}
	childless(t, cmd.Process.Pid)
	cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Errorf("as PID 1 pause ended with %v on SIGTERM, want status 0", err)
	}
}

func asleep(t *testing.T, pid int) {
	t.Helper()
	wait(t, "pause to sleep in ppoll", func() bool {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return strings.Contains(string(b), "(pause) S ")
	})
	time.Sleep(50 * time.Millisecond)
}

func childless(t *testing.T, pid int) {
	t.Helper()
	asleep(t, pid)
	path := fmt.Sprintf("/proc/%d/task/%d/children", pid, pid)
	if b, err := os.ReadFile(path); err != nil || len(b) == 0 {
		t.Fatalf("%s: %q, %v: the test's own set-up made no child", path, b, err)
	}
	time.Sleep(400 * time.Millisecond)
	wait(t, "pause to have no child left, zombie or not", func() bool {
		b, err := os.ReadFile(path)
		return err == nil && len(b) == 0
	})
}

func wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 100 {
		if ok() {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("waited 5 s for %s", what)
}

// status is a number in /proc/PID/status.
func status(t *testing.T, pid int, key string) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range strings.Split(string(b), "\n") {
		if v, ok := strings.CutPrefix(l, key+":"); ok {
			n, _ := strconv.Atoi(strings.Fields(v)[0])
			return n
		}
	}
	t.Fatalf("no %s in /proc/%d/status", key, pid)
	return 0
}
