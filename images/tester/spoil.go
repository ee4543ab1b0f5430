package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// spoil makes the node deviate from its documentation in one way of each kind;
// the host demands that its comparison names exactly these. undo is never nil.
func (g *guest) spoil() (undo func() error, err error) {
	var undoes []func() error
	undo = func() error {
		var errs []error
		for i := len(undoes) - 1; i >= 0; i-- {
			errs = append(errs, undoes[i]())
		}
		return errors.Join(errs...)
	}
	all, err := readProcesses(g.proc)
	if err != nil {
		return undo, err
	}
	kubelet, ok := service(all, "kubelet")
	if !ok {
		return undo, errors.New("no kubelet runs")
	}
	root := g.root()
	for _, step := range []func() (func() error, error){
		func() (func() error, error) {
			return newFile(filepath.Join(root, "run/garboard/spoilt"), 0o755|syscall.S_ISUID)
		},
		func() (func() error, error) { return changeMode(filepath.Join(root, "run/system.sock"), 0o666) },
		func() (func() error, error) { return changeMode(filepath.Join(root, "etc/nsswitch.conf"), 0o666) },
		func() (func() error, error) { return rewrite(filepath.Join(g.proc, "sys/kernel/sysrq"), "1") },
		func() (func() error, error) {
			return rewrite(filepath.Join(root, "sys/fs/cgroup/garboard/kubelet/cpu.weight"), "77")
		},
		func() (func() error, error) {
			return rewrite(fmt.Sprintf("%s/%d/oom_score_adj", g.proc, kubelet.pid), "-998")
		},
		func() (func() error, error) { return listen("tcp", fmt.Sprintf("127.0.0.1:%d", probePort+1)) },
		func() (func() error, error) { return listen("unix", "@spoilt") },
		func() (func() error, error) { return g.mountOver() },
	} {
		u, err := step()
		if err != nil {
			return undo, fmt.Errorf("spoil: %w", err)
		}
		undoes = append(undoes, u)
	}
	return undo, nil
}

func newFile(file string, mode uint32) (func() error, error) {
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return nil, err
	}
	return func() error { return os.Remove(file) }, syscall.Chmod(file, mode)
}

func changeMode(file string, mode uint32) (func() error, error) {
	var st syscall.Stat_t
	if err := syscall.Stat(file, &st); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return func() error { return syscall.Chmod(file, st.Mode&0o7777) }, syscall.Chmod(file, mode)
}

func rewrite(file, text string) (func() error, error) {
	old, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return func() error { return os.WriteFile(file, old, 0) }, os.WriteFile(file, []byte(text), 0)
}

func listen(network, address string) (func() error, error) {
	l, err := net.Listen(network, address)
	if err != nil {
		return nil, err
	}
	return l.Close, nil
}

// mountOver hides a program of the root image behind an empty file and makes
// /dev/shm executable, in the node's mount namespace.
func (g *guest) mountOver() (func() error, error) {
	const program = "/usr/bin/nsenter"
	err := g.inNode(func() error {
		return errors.Join(unix.Mount("/dev/null", program, "", unix.MS_BIND, ""),
			unix.Mount("", "/dev/shm", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_NOSUID|unix.MS_NODEV, ""))
	})
	return func() error {
		return g.inNode(func() error {
			return errors.Join(unix.Unmount(program, 0),
				unix.Mount("", "/dev/shm", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""))
		})
	}, err
}

// inNode runs f in the mount namespace of PID 1.
func (g *guest) inNode(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for ever: the thread ends with this goroutine
		done <- g.inNamespace(f)
	}()
	return <-done
}

// inNamespace goes back at the end: the thread may be the process's first,
// which does not end and is what /proc/self shows.
func (g *guest) inNamespace(f func() error) error {
	var ns [2]int
	for i, pid := range []string{"1", "self"} {
		var err error
		if ns[i], err = unix.Open(filepath.Join(g.proc, pid, "ns/mnt"), unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			return fmt.Errorf("mount namespace of %s: %w", pid, err)
		}
		defer unix.Close(ns[i])
	}
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if err := unix.Setns(ns[0], unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("enter PID 1's mount namespace: %w", err)
	}
	return errors.Join(f(), unix.Setns(ns[1], unix.CLONE_NEWNS))
}
