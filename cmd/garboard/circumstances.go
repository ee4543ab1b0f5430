package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"garboard.local/builder"
)

// circumstances are what must not reach the outputs.
type circumstances struct {
	root, cache, output, tmp, home string
	env                            []string
	umask, cpus                    int
	user                           int // in a user namespace; -1: as this process
}

// sharedGo is Go's cache on this machine, and the environment by which a build uses
// the modules that Go has downloaded.
func sharedGo(ctx context.Context) (cache string, env []string, err error) {
	goEnv, err := exec.CommandContext(ctx, "go", "env", "GOCACHE", "GOMODCACHE", "GOPATH", "GOPROXY", "GOSUMDB").Output()
	if err != nil {
		return "", nil, fmt.Errorf("go env: %w; install Go", err)
	}
	v := strings.Split(strings.TrimRight(string(goEnv), "\n"), "\n")
	return v[0], []string{"GOMODCACHE=" + v[1], "GOPATH=" + v[2], "GOPROXY=" + v[3], "GOSUMDB=" + v[4]}, nil
}

// usual are circumstances without anything odd about them, below a directory.
func usual(o builder.Options, dir string, shared []string) circumstances {
	return circumstances{
		root: o.Root, cache: filepath.Join(dir, "cache"), output: filepath.Join(dir, "out"), tmp: filepath.Join(dir, "tmp"),
		home: filepath.Join(dir, "home"), umask: 0o022, cpus: runtime.NumCPU(), user: -1,
		env: append([]string{"TZ=UTC", "LANG=C", "LC_ALL=C", "USER=alice", "LOGNAME=alice"}, shared...),
	}
}

// make makes the directories, with a cache that holds nothing but downloads.
func (c circumstances) make(o builder.Options) error {
	for _, d := range []string{c.cache, c.output, c.tmp, c.home} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	locked := lockedBlobs(o)
	return linkTree(filepath.Join(c.cache, "blobs"), filepath.Join(o.Store.Dir(), "blobs"), func(name string) bool { return locked[name] })
}

// lockedBlobs are the packages of the lock, which are downloads and not builds.
func lockedBlobs(o builder.Options) map[string]bool {
	out := map[string]bool{}
	for _, ps := range o.Lock.Debian.Packages {
		for _, p := range ps {
			out[p.SHA256] = true
		}
	}
	for _, ps := range o.Lock.Tools {
		for _, p := range ps {
			out[p.SHA256] = true
		}
	}
	return out
}

// otherUser is a user's number under which a build can run in a user namespace.
func otherUser(ctx context.Context) (int, error) {
	user := 4711
	cmd := exec.CommandContext(ctx, "go", "version")
	inNamespace(cmd, user)
	if err := cmd.Run(); err != nil {
		return -1, fmt.Errorf("no user namespace: %w", err)
	}
	return user, nil
}

func inNamespace(cmd *exec.Cmd, user int) {
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: user, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: user, HostID: os.Getgid(), Size: 1}},
	}
}

func (c circumstances) describe() string {
	s := fmt.Sprintf("the second build: in %s, umask %04o, %d processor(s) of %d, programs from Debian see another day, %s",
		c.root, c.umask, c.cpus, runtime.NumCPU(), strings.Join(c.env[:6], " "))
	if c.user >= 0 {
		s += fmt.Sprintf(", user %d instead of %d", c.user, os.Getuid())
	}
	return s
}

// start starts a process with the umask and on the processors of c: it inherits
// them from the thread that starts it.
func (c circumstances) start(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, some unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return err
	}
	for i, n := 0, 0; n < c.cpus && i < len(all)*64; i++ {
		if all.IsSet(i) {
			some.Set(i)
			n++
		}
	}
	if err := unix.SchedSetaffinity(0, &some); err != nil {
		return err
	}
	old := unix.Umask(c.umask)
	err := cmd.Start()
	unix.Umask(old)
	return errors.Join(err, unix.SchedSetaffinity(0, &all))
}
