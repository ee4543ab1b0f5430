package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// examples are the pods of docs/examples, as recipes/test.yaml lays them into the image.
const examples = "usr/share/garboard/examples"

// checkBootstrap runs the documented bootstrap pod as a static pod and demands
// that the kubelet is restarted exactly once: a pod that ran again after each
// restart that it causes would restart the kubelet for ever.
func (g *guest) checkBootstrap() error {
	manifest, err := os.ReadFile(filepath.Join(g.host, examples, "restart-kubelet.yaml"))
	if err != nil {
		return err
	}
	before, err := g.settled()
	if err != nil {
		return err
	}
	if err := g.renewed("kubelet", func(process) error {
		return os.WriteFile(filepath.Join(g.host, "etc/kubernetes/manifests/bootstrap.yaml"), manifest, 0o600)
	}); err != nil {
		return err
	}
	all, err := readProcesses(g.proc)
	if err != nil {
		return err
	}
	once, _ := service(all, "kubelet")
	// The kubelet that came back has looked at its pods long before this is over.
	time.Sleep(30 * time.Second)
	if all, err = readProcesses(g.proc); err != nil {
		return err
	}
	if now, ok := service(all, "kubelet"); !ok || now.pid != once.pid {
		return fmt.Errorf("the kubelet was restarted again: pid %d, then %d (running: %t)", once.pid, now.pid, ok)
	}
	if diff := changes(before, containers(all)); len(diff) > 0 {
		return fmt.Errorf("the restart touched other pods: %s", strings.Join(diff, "; "))
	}
	logs, err := filepath.Glob(filepath.Join(g.host, "var/log/pods/kube-system_bootstrap-*/restart-kubelet/*.log"))
	if err != nil {
		return err
	}
	if len(logs) != 1 || filepath.Base(logs[0]) != "0.log" {
		return fmt.Errorf("the bootstrap container ran not once, its logs: %q", logs)
	}
	text, err := os.ReadFile(logs[0])
	if err != nil {
		return err
	}
	if !strings.Contains(string(text), "garboard-ctl: restart-kubelet: PID 1 has read it\n") {
		return fmt.Errorf("the bootstrap container said: %s", text)
	}
	return nil
}

// settled waits until all containers are past their start, in which crun is the
// process that conmon looks after.
func (g *guest) settled() (map[string]container, error) {
	var before map[string]container
	err := within(podCeiling, func() error {
		all, err := readProcesses(g.proc)
		if err != nil {
			return err
		}
		then := before
		before = containers(all)
		time.Sleep(3 * time.Second)
		if all, err = readProcesses(g.proc); err != nil {
			return err
		}
		if diff := changes(before, containers(all)); len(diff) > 0 || len(then) != len(before) {
			return fmt.Errorf("containers do not come to rest: %d, then %d; %s", len(then), len(before), strings.Join(diff, "; "))
		}
		return nil
	})
	return before, err
}

// The restart that the bootstrap pod causes is what the node pod has to show.
func init() {
	scenarios["bootstrap"] = scenario{func(g *guest) error {
		if err := checkRunning(g); err != nil {
			return err
		}
		if err := g.checkBootstrap(); err != nil {
			return err
		}
		return g.checkNodePod()
	}, func(g *guest) error { return send(systemSocket, cmdShutdown) }}
}
