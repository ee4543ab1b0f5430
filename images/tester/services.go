package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// The node's sockets and commands, as published (docs of the system socket).
// They are written out here on purpose: a test speaks the wire, not our library.
const (
	systemSocket  = "/run/system.sock"
	restartSocket = "/run/garboard/restart.sock"

	cmdShutdown       = 0x01
	cmdRestartKubelet = 0x03
	cmdRestartRuntime = 0x04
)

// Ceilings on an emulated machine.
const (
	serviceCeiling = 60 * time.Second
	podCeiling     = 2 * time.Minute
)

// send writes one command byte and keeps the connection open for the answer's time.
func send(socket string, command byte) error {
	c, err := net.DialTimeout("unix", socket, 5*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Write([]byte{command}); err != nil {
		return fmt.Errorf("%s: %w", socket, err)
	}
	time.Sleep(time.Second)
	return nil
}

// renewed runs act and waits until the service runs as another process.
func (g *guest) renewed(exe string, act func(process) error) error {
	all, err := readProcesses(g.proc)
	if err != nil {
		return err
	}
	old, ok := service(all, exe)
	if !ok {
		return fmt.Errorf("%s does not run", exe)
	}
	if err := act(old); err != nil {
		return err
	}
	return within(serviceCeiling, func() error {
		all, err := readProcesses(g.proc)
		if err != nil {
			return err
		}
		now, ok := service(all, exe)
		if !ok || now.pid == old.pid {
			return fmt.Errorf("%s did not come back within %s (old pid %d, running: %t)", exe, serviceCeiling, old.pid, ok)
		}
		g.say("tester: %s was pid %d and is pid %d", exe, old.pid, now.pid)
		return nil
	})
}

func kill(p process) error { return syscall.Kill(p.pid, syscall.SIGKILL) }

// checkRestarts kills and restarts the services in every way and demands that
// no container notices, and that new pods start afterwards.
func (g *guest) checkRestarts() error {
	all, err := readProcesses(g.proc)
	if err != nil {
		return err
	}
	before := containers(all)
	if len(before) < 3 {
		return fmt.Errorf("only %d containers found (%v): too few to prove anything", len(before), before)
	}
	runtime, err := runtimeProgram(all)
	if err != nil {
		return err
	}
	command := func(c byte) func(process) error {
		return func(process) error { return send(restartSocket, c) }
	}
	for _, step := range []struct {
		what string
		exe  string
		act  func(process) error
		then string // name of a new pod that must start, or ""
	}{
		{"SIGKILL", "kubelet", kill, ""},
		{"SIGKILL", runtime, kill, "late-1"},
		{"socket command 3", "kubelet", command(cmdRestartKubelet), ""},
		{"socket command 4", runtime, command(cmdRestartRuntime), "late-2"},
	} {
		g.say("tester: %s: %s", step.exe, step.what)
		if err := g.renewed(step.exe, step.act); err != nil {
			return fmt.Errorf("after %s of %s: %w", step.what, step.exe, err)
		}
		if step.then == "" {
			continue
		}
		if err := g.newPod(step.then); err != nil {
			return fmt.Errorf("after %s of %s: %w", step.what, step.exe, err)
		}
		if all, err = readProcesses(g.proc); err != nil {
			return err
		}
		if diff := changes(before, containers(all)); len(diff) > 0 {
			return fmt.Errorf("after %s of %s: %s", step.what, step.exe, strings.Join(diff, "; "))
		}
		g.say("tester: the same %d containers with the same processes", len(before))
	}
	return nil
}

// newPod lays down a static pod and waits for its process: the kubelet and the
// runtime have both done their work then, not only started.
func (g *guest) newPod(name string) error {
	manifest := fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata:
  name: %s
spec:
  terminationGracePeriodSeconds: 2
  containers:
    - name: late
      image: localhost/garboard/tester:1
      imagePullPolicy: Never
      args: [sleep]
`, name)
	path := filepath.Join(g.host, "etc/kubernetes/manifests", name+".yaml")
	if err := os.WriteFile(path, []byte(manifest), 0o600); err != nil {
		return err
	}
	return within(podCeiling, func() error {
		all, err := readProcesses(g.proc)
		if err != nil {
			return err
		}
		for id, c := range containers(all) {
			if strings.HasPrefix(id, "k8s_late_"+name+"-") && len(c.processes) > 0 {
				return nil
			}
		}
		return fmt.Errorf("the new static pod %s did not start within %s", name, podCeiling)
	})
}

// checkPrivilege proves that the socket given to bootstrap pods cannot stop
// the node.
func (g *guest) checkPrivilege() error {
	if err := send(restartSocket, cmdShutdown); err != nil && !errors.Is(err, syscall.EPIPE) {
		return err
	}
	// A node that obeyed would be ending our pod within this time.
	select {
	case <-g.term:
		return fmt.Errorf("%s took the shutdown command", restartSocket)
	case <-time.After(3 * time.Second):
	}
	for path, mode := range map[string]os.FileMode{systemSocket: 0o600, restartSocket: 0o666} {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if info.Mode().Perm() != mode {
			return fmt.Errorf("%s has mode %o, want %o", path, info.Mode().Perm(), mode)
		}
	}
	return nil
}
