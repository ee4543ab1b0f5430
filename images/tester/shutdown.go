package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Places of the mounts that a shutdown has to take down, on the node.
const (
	spacedMount = "/var/lib/tester/a b"
	boundMount  = "/var/lib/tester/bound\ttwice"
)

func init() {
	// Several troubles in one shutdown: a stopped kubelet, a pod that does not end,
	// swap on the data partition and no room on it (if there is one), and mounts that are nested, bound, have white space in their names, and are
	// kept busy by a loop device after every process has gone.
	scenarios["stuck"] = scenario{func(g *guest) error {
		if err := checkRunning(g); err != nil {
			return err
		}
		if err := g.stubbornPod(); err != nil {
			return err
		}
		return onNode(func() error { return errors.Join(g.busyMounts(), swapOnVar()) })
	}, func(g *guest) error {
		return errors.Join(g.fillVar(), g.stopKubelet(), send(systemSocket, cmdShutdown))
	}}
}

// stopKubelet sends the kubelet SIGSTOP.
func (g *guest) stopKubelet() error {
	all, err := readProcesses(g.proc)
	if err != nil {
		return err
	}
	kubelet, ok := service(all, "kubelet")
	if !ok {
		return errors.New("no kubelet to stop")
	}
	return syscall.Kill(kubelet.pid, syscall.SIGSTOP)
}

// stubbornPod starts a pod that needs an hour to end.
func (g *guest) stubbornPod() error {
	const manifest = `apiVersion: v1
kind: Pod
metadata:
  name: stubborn
spec:
  terminationGracePeriodSeconds: 3600
  containers:
    - name: stubborn
      image: localhost/garboard/tester:1
      imagePullPolicy: Never
      args: [sigterm, 1h]
`
	if err := os.WriteFile(filepath.Join(g.host, "etc/kubernetes/manifests/stubborn.yaml"), []byte(manifest), 0o600); err != nil {
		return err
	}
	return within(podCeiling, func() error {
		all, err := readProcesses(g.proc)
		if err != nil {
			return err
		}
		for _, p := range all {
			if len(p.args) == 3 && p.args[2] == "1h" {
				return nil
			}
		}
		return fmt.Errorf("the stubborn pod did not start within %s", podCeiling)
	})
}

// onNode runs f in the node's own mount namespace.
func onNode(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
		done <- func() error {
			ns, err := os.Open("/proc/1/ns/mnt")
			if err != nil {
				return err
			}
			defer ns.Close()
			if err := unix.Unshare(unix.CLONE_FS); err != nil {
				return fmt.Errorf("unshare: %w", err)
			}
			if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNS); err != nil {
				return fmt.Errorf("enter the node's mount namespace: %w", err)
			}
			return f()
		}()
	}()
	return <-done
}

func (g *guest) busyMounts() error {
	for _, dir := range []string{spacedMount, boundMount} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount("spaced", spacedMount, "tmpfs", 0, ""); err != nil {
		return err
	}
	for _, name := range []string{"nested", "backing", "null"} {
		if err := os.WriteFile(filepath.Join(spacedMount, name), make([]byte, 1<<20), 0o600); err != nil {
			return err
		}
	}
	if err := os.Remove(filepath.Join(spacedMount, "nested")); err != nil {
		return err
	}
	nested := filepath.Join(spacedMount, "nested")
	if err := os.Mkdir(nested, 0o755); err != nil {
		return err
	}
	return errors.Join(
		unix.Mount("nested", nested, "tmpfs", 0, ""),
		unix.Mount("/dev/null", filepath.Join(spacedMount, "null"), "", unix.MS_BIND, ""), // a device as a volume
		unix.Mount(spacedMount, boundMount, "", unix.MS_BIND|unix.MS_REC, ""),
		attachLoop(filepath.Join(spacedMount, "backing")),
	)
}

// attachLoop puts a file behind a loop device that is mounted nowhere, as the
// kubelet does for a block volume.
func attachLoop(path string) error {
	ctl, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer ctl.Close()
	n, err := unix.IoctlRetInt(int(ctl.Fd()), unix.LOOP_CTL_GET_FREE)
	if err != nil {
		return fmt.Errorf("a free loop device: %w", err)
	}
	dev, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", n), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer dev.Close()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.IoctlSetInt(int(dev.Fd()), unix.LOOP_SET_FD, int(f.Fd()))
}
