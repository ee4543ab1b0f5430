package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A node that gets another name: its static pods must not notice.
func init() {
	scenarios["rename"] = scenario{checkRename, func(*guest) error { return send(systemSocket, cmdShutdown) }}
}

const (
	newName = "renamed-7.example.com"
	ticker  = `apiVersion: v1
kind: Pod
metadata:
  name: ticker
spec:
  terminationGracePeriodSeconds: 2
  containers:
    - name: tick
      image: localhost/garboard/tester:1
      imagePullPolicy: Never
      args: [tick]
      env: [{name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
`
)

// checkRename renames the node, restarts the kubelet and demands that all static
// pods go on in the same containers, that their logs grow where they were, and
// that the kubelet, which knows the new name, still keeps them: it gives logs, runs
// commands in them, and starts a container that ends, and a pod that is new.
func checkRename(g *guest) error {
	if err := checkRunning(g); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(g.host, "etc/kubernetes/manifests/ticker.yaml"), []byte(ticker), 0o600); err != nil {
		return err
	}
	logs := filepath.Join(g.host, "var/log/pods/default_ticker-*/tick/*.log")
	var log string
	if err := within(podCeiling, func() (err error) { log, err = grown(logs, 2); return err }); err != nil {
		return err
	}
	all, err := readProcesses(g.proc)
	if err != nil {
		return err
	}
	before := containers(all)
	if err := g.letKubeletServe(); err != nil {
		return err
	}
	if err := rename(g.proc, newName); err != nil {
		return fmt.Errorf("rename the node: %w", err)
	}
	if err := g.renewed("kubelet", func(process) error { return send(restartSocket, cmdRestartKubelet) }); err != nil {
		return err
	}
	// A new pod is the sign that the kubelet has seen all manifests under its new
	// name; what it wanted to kill it would kill now.
	if err := g.newPod("late-renamed"); err != nil {
		return err
	}
	if all, err = readProcesses(g.proc); err != nil {
		return err
	}
	now := containers(all)
	if !hasContainer(now, "k8s_late_late-renamed-"+newName) {
		return fmt.Errorf("the new pod does not bear the node's new name: %v", now)
	}
	g.say("tester: the new pod is called after %s", newName)
	time.Sleep(15 * time.Second)
	if all, err = readProcesses(g.proc); err != nil {
		return err
	}
	if diff := changes(before, containers(all)); len(diff) > 0 {
		return fmt.Errorf("after the rename: %s", strings.Join(diff, "; "))
	}
	g.say("tester: the same %d containers with the same processes", len(before))
	was, err := lines(log)
	if err != nil {
		return err
	}
	if err := within(20*time.Second, func() error { _, err := grown(log, was+2); return err }); err != nil {
		return fmt.Errorf("after the rename: %w", err)
	}
	g.say("tester: %s has grown from %d lines", strings.TrimPrefix(log, g.host), was)
	if err := g.logsAndExec("ticker-"+newName, "tick", "tick: 1"); err != nil {
		return fmt.Errorf("after the rename: %w", err)
	}
	_, uid, _ := strings.Cut(strings.TrimPrefix(log, g.host+"/var/log/pods/default_"), "_")
	uid, _, _ = strings.Cut(uid, "/")
	return g.restartTicker(before, filepath.Join(g.host, "var/log/pods/default_ticker-"+newName+"_"+uid, "tick"))
}

// restartTicker ends the ticker's container: the kubelet must start it again, as
// the second of the same pod, with its log under the new name.
func (g *guest) restartTicker(before map[string]container, dir string) error {
	for name, c := range before {
		if !strings.HasPrefix(name, "k8s_tick_ticker-") {
			continue
		}
		for pid := range c.processes {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				return fmt.Errorf("kill the ticker: %w", err)
			}
		}
	}
	var log string
	err := within(podCeiling, func() (err error) { log, err = grown(filepath.Join(dir, "1.log"), 2); return err })
	if err != nil {
		return fmt.Errorf("the killed container did not come back: %w", err)
	}
	g.say("tester: the killed container is back and writes %s", strings.TrimPrefix(log, g.host))
	all, err := readProcesses(g.proc)
	if err != nil {
		return err
	}
	after := containers(all)
	maps.DeleteFunc(before, func(name string, _ container) bool { return strings.HasPrefix(name, "k8s_tick_ticker-") })
	if diff := changes(before, after); len(diff) > 0 {
		return fmt.Errorf("after the end of one container: %s", strings.Join(diff, "; "))
	}
	return nil
}

func hasContainer(all map[string]container, prefix string) bool {
	for name, c := range all {
		if strings.HasPrefix(name, prefix) && len(c.processes) > 0 {
			return true
		}
	}
	return false
}

// grown is the one file that matches and has at least n lines.
func grown(pattern string, n int) (string, error) {
	found, err := filepath.Glob(pattern)
	if err != nil {
		return "", err
	}
	if len(found) != 1 {
		return "", fmt.Errorf("%d files are %s, want 1", len(found), pattern)
	}
	if have, err := lines(found[0]); err != nil || have < n {
		return "", fmt.Errorf("%s has %d lines, want %d (%v)", found[0], have, n, err)
	}
	return found[0], nil
}

func lines(path string) (int, error) {
	b, err := os.ReadFile(path)
	return bytes.Count(b, []byte{'\n'}), err
}

// rename gives the node another name at run time, in PID 1's UTS namespace.
func rename(proc, name string) error {
	ns, err := os.Open(filepath.Join(proc, "1/ns/uts"))
	if err != nil {
		return err
	}
	defer ns.Close()
	done := make(chan error)
	go func() {
		// Never unlocked: the thread ends with the goroutine, and its namespace with it.
		runtime.LockOSThread()
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWUTS); err != nil {
			done <- fmt.Errorf("setns %s: %w", ns.Name(), err)
			return
		}
		done <- unix.Sethostname([]byte(name))
	}()
	return <-done
}

// tick writes a line a second.
func tick(say func(string, ...any)) error {
	term := termination()
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for n := 1; ; n++ {
		say("tick: %d", n)
		select {
		case <-t.C:
		case <-term:
			return nil
		}
	}
}
