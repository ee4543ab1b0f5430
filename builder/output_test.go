package builder

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"garboard.local/builder/store"
)

const roleEnv = "GARBOARD_OUTPUT_ROLE"

// body is an output that tells whether it is whole.
func body(fill byte) []byte { return bytes.Repeat([]byte{fill}, 4<<20) }

// TestOutputIsWholeOrAbsent kills processes at random while they write an
// output over an older one.
func TestOutputIsWholeOrAbsent(t *testing.T) {
	if dir := os.Getenv(roleEnv); dir != "" {
		fmt.Println("begins")
		for i := byte(0); ; i++ {
			if err := writeBytes(filepath.Join(dir, "vmlinuz"), body('a'+i%26)); err != nil {
				fmt.Println(err)
				os.Exit(3)
			}
		}
	}
	dir := t.TempDir()
	halves := 0
	for range 25 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestOutputIsWholeOrAbsent$")
		cmd.Env = append(os.Environ(), roleEnv+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if s := bufio.NewScanner(out); !s.Scan() || s.Text() != "begins" {
			t.Fatalf("the child says %q", s.Text())
		}
		time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond)
		cmd.Process.Kill()
		cmd.Wait()
		left, _ := filepath.Glob(filepath.Join(dir, leftoverPattern))
		halves = max(halves, len(left))
		b, err := os.ReadFile(filepath.Join(dir, "vmlinuz"))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil || len(b) != 4<<20 || !bytes.Equal(b, body(b[0])) {
			t.Fatalf("half an output under its final name: %d bytes, %v", len(b), err)
		}
	}
	t.Logf("%d halves under other names before they are swept", halves)
	if err := sweepLeftovers(dir); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 1 {
		t.Errorf("%v, %v; want the output alone", entries, err)
	}
}

// TestFullDisk fills a file system of 1 MiB, in a namespace of its own, with an
// output and with the cache.
func TestFullDisk(t *testing.T) {
	if dir := os.Getenv(roleEnv); dir != "" {
		fullDisk(dir)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestFullDisk$")
	cmd.Env = append(os.Environ(), roleEnv+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		t.Logf("this kernel lets nobody but root mount, even in a namespace: %v", err)
		return
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), "all was as it should be") {
		t.Errorf("the child did not come to its end:\n%s", out)
	}
}

func fullDisk(dir string) {
	check := func(ok bool, format string, args ...any) {
		if !ok {
			fmt.Printf(format+"\n", args...)
			os.Exit(3)
		}
	}
	check(unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, "") == nil, "private mounts")
	err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m")
	check(err == nil, "mount: %v", err)
	p := filepath.Join(dir, "cmdline")
	err = writeBytes(p, []byte("quiet\n"))
	check(err == nil, "a small output: %v", err)
	err = writeBytes(p, body('x'))
	check(errors.Is(err, unix.ENOSPC) && strings.Contains(err.Error(), dir), "a large one: %v", err)
	b, err := os.ReadFile(p)
	check(err == nil && string(b) == "quiet\n", "the old output is %q, %v", b, err)
	left, _ := filepath.Glob(filepath.Join(dir, leftoverPattern))
	check(len(left) == 0, "left behind: %q", left)

	s, err := store.Open(filepath.Join(dir, "cache"))
	check(err == nil, "cache: %v", err)
	_, _, err = s.Put(bytes.NewReader(body('x')))
	check(errors.Is(err, unix.ENOSPC) && strings.Contains(err.Error(), "cache "+dir), "a large blob: %v", err)
	left, _ = filepath.Glob(filepath.Join(s.Dir(), "tmp", "*"))
	check(len(left) == 0, "left in the cache: %q", left)

	check(s.Close() == nil, "close")
	err = unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, "")
	check(err == nil, "remount: %v", err)
	err = writeBytes(p, []byte("loud\n"))
	check(errors.Is(err, unix.EROFS) && strings.Contains(err.Error(), dir), "read-only output: %v", err)
	_, err = store.Open(filepath.Join(dir, "cache"))
	check(errors.Is(err, unix.EROFS) && strings.Contains(err.Error(), "cache "+dir), "read-only cache: %v", err)
	fmt.Println("all was as it should be")
	os.Exit(0)
}
