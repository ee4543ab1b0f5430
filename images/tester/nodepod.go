package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// nodeLogs are the containers of the node pod.
var nodeLogs = []string{"crio", "kubelet", "init"}

// checkNodePod demands that each container's log is the service's log, line for
// line, through a restart of the kubelet (which has been by now) and of the
// container; that they have no privilege; and says what they cost.
func (g *guest) checkNodePod() error {
	for _, name := range nodeLogs {
		if err := g.sameLog(name); err != nil {
			return err
		}
	}
	text, err := os.ReadFile(filepath.Join(g.host, "var/log/garboard/init.log"))
	if err != nil {
		return err
	}
	if n := bytes.Count(text, []byte(" service kubelet: started, pid ")); n != 2 {
		return fmt.Errorf("init.log tells of %d starts of the kubelet, want 2:\n%s", n, text)
	}
	all, err := readProcesses(g.proc)
	if err != nil {
		return err
	}
	for _, name := range nodeLogs {
		p, err := nodeLogProcess(all, name)
		if err != nil {
			return err
		}
		if err := g.unprivileged(p); err != nil {
			return fmt.Errorf("container %s of the node pod: %w", name, err)
		}
	}
	if err := g.cost(all, 20*time.Second); err != nil {
		return err
	}
	old, err := nodeLogProcess(all, "init")
	if err != nil {
		return err
	}
	if err := syscall.Kill(old.pid, syscall.SIGKILL); err != nil {
		return err
	}
	if err := within(podCeiling, func() error {
		all, err := readProcesses(g.proc)
		if err != nil {
			return err
		}
		p, err := nodeLogProcess(all, "init")
		if err == nil && p.pid == old.pid {
			err = errors.New("the killed container runs")
		}
		return err
	}); err != nil {
		return err
	}
	return g.sameLog("init")
}

// sameLog waits until what the container wrote, in all its runs, is the log.
func (g *guest) sameLog(name string) error {
	return within(30*time.Second, func() error {
		shown, err := g.shown(name)
		if err != nil {
			return err
		}
		var log []byte
		for _, f := range []string{name + ".log.1", name + ".log"} { // no kubelet writes 4 MiB in a test
			b, err := os.ReadFile(filepath.Join(g.host, "var/log/garboard", f))
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
			log = append(log, b...)
		}
		// The log may have grown since, and its last line may be unfinished.
		if len(shown) == 0 || !bytes.HasPrefix(log, shown) || bytes.Count(log[len(shown):], []byte("\n")) > 2 {
			return fmt.Errorf("container %s shows %d bytes of the log's %d, or others: it ends in %q, the log in %q",
				name, len(shown), len(log), last(shown), last(log))
		}
		g.say("tester: container %s shows its log, %d bytes", name, len(shown))
		return nil
	})
}

func last(b []byte) []byte { return b[max(0, len(b)-200):] }

// shown is the text of a container's CRI log files, without what the follower
// itself says on standard error.
func (g *guest) shown(name string) ([]byte, error) {
	files, err := filepath.Glob(filepath.Join(g.host, "var/log/pods/kube-system_node-*", name, "[0-9].log"))
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	var out []byte
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		for line := range bytes.Lines(b) {
			f := bytes.SplitN(line, []byte(" "), 4)
			if len(f) != 4 || string(f[1]) != "stdout" {
				return nil, fmt.Errorf("container %s: unexpected %q", name, line)
			}
			if string(f[2]) == "P" {
				f[3] = bytes.TrimSuffix(f[3], []byte("\n"))
			}
			out = append(out, f[3]...)
		}
	}
	return out, nil
}

// nodeLogProcess is the process of a container of the node pod.
func nodeLogProcess(all map[int]process, name string) (process, error) {
	for _, p := range all {
		if p.exe == "nodelogs" && len(p.args) == 2 && p.args[1] == name {
			return p, nil
		}
	}
	return process{}, fmt.Errorf("the node pod's container %s does not run", name)
}

func (g *guest) unprivileged(p process) error {
	for key, want := range map[string]string{
		"Uid": "65534\t65534\t65534\t65534", "Gid": "4\t4\t4\t4", "CapEff": "0000000000000000", "CapBnd": "0000000000000000",
		"NoNewPrivs": "1", "Seccomp": "2",
	} {
		got, err := statusField(fmt.Sprintf("%s/%d/status", g.proc, p.pid), key)
		if err != nil {
			return err
		}
		if got != want {
			return fmt.Errorf("%s is %s, want %s", key, got, want)
		}
	}
	return nil
}

// cost says what the containers take: memory, and CPU time and wake-ups while
// the node is idle for d.
func (g *guest) cost(all map[int]process, d time.Duration) error {
	type use struct{ ticks, wakes int }
	look := func() (map[string]use, error) {
		out := map[string]use{}
		for _, name := range nodeLogs {
			p, err := nodeLogProcess(all, name)
			if err != nil {
				return nil, err
			}
			stat, err := os.ReadFile(fmt.Sprintf("%s/%d/stat", g.proc, p.pid))
			if err != nil {
				return nil, err
			}
			f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
			user, err1 := strconv.Atoi(f[11]) // fields 14 and 15 of proc_pid_stat(5)
			sys, err2 := strconv.Atoi(f[12])
			u := use{ticks: user + sys}
			tasks, err3 := filepath.Glob(fmt.Sprintf("%s/%d/task/*/status", g.proc, p.pid))
			if err := errors.Join(err1, err2, err3); err != nil {
				return nil, err
			}
			for _, task := range tasks {
				w, err := statusField(task, "voluntary_ctxt_switches")
				if err != nil {
					return nil, err
				}
				n, err := strconv.Atoi(w)
				if err != nil {
					return nil, err
				}
				u.wakes += n
			}
			out[name] = u
		}
		return out, nil
	}
	before, err := look()
	if err != nil {
		return err
	}
	time.Sleep(d)
	after, err := look()
	if err != nil {
		return err
	}
	for _, name := range nodeLogs {
		p, err := nodeLogProcess(all, name)
		if err != nil {
			return err
		}
		rss, err := statusField(fmt.Sprintf("%s/%d/status", g.proc, p.pid), "VmRSS")
		if err != nil {
			return err
		}
		ticks, wakes := after[name].ticks-before[name].ticks, after[name].wakes-before[name].wakes
		g.say("tester: container %s: %s resident, %d ms of CPU so far; in %s of idleness %d ms and %d wake-ups",
			name, rss, before[name].ticks*10, d, ticks*10, wakes)
		// A poller of ten times a second would have 200. The log itself may grow a little.
		if wakes > 100 || ticks > 20 {
			return fmt.Errorf("container %s does not sleep: %d wake-ups, %d ms in %s", name, wakes, ticks*10, d)
		}
	}
	return nil
}
