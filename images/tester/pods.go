package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// termination delivers SIGTERM, what the kubelet's grace begins with.
func termination() <-chan os.Signal {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTERM)
	return c
}

// seccomp prints the seccomp mode of its own process: 0 off, 1 strict,
// 2 filter (proc_pid_status(5)), and stays for others to look at.
func seccomp(say func(string, ...any)) error {
	term := termination()
	mode, err := statusField("/proc/self/status", "Seccomp")
	if err != nil {
		return err
	}
	say("seccomp: %s", mode)
	<-term
	say("seccomp: SIGTERM, bye")
	return nil
}

// sigterm needs d to end after SIGTERM and says when it was let finish.
func sigterm(d time.Duration, say func(string, ...any)) error {
	term := termination()
	say("sigterm: waiting")
	<-term
	say("sigterm: SIGTERM, needs %s", d)
	time.Sleep(d)
	say("sigterm: finished")
	return nil
}

// sleep stays until it is told to go.
func sleep(say func(string, ...any)) error {
	term := termination()
	say("sleep: here")
	<-term
	say("sleep: SIGTERM, bye")
	return nil
}

// stats prints the uptime at its first line of code and, once the node has
// come to rest, its memory and user-space processes. It needs the host's pids.
func stats(proc string, rest time.Duration, say func(string, ...any)) error {
	up, err := uptime(proc)
	if err != nil {
		return err
	}
	say("uptime %s", up)
	term := termination()
	select {
	case <-time.After(rest):
	case <-term:
		return nil
	}
	available, err := statusField(filepath.Join(proc, "meminfo"), "MemAvailable")
	if err != nil {
		return err
	}
	processes, err := readProcesses(proc)
	if err != nil {
		return err
	}
	say("stats: MemAvailable %s, processes %d", available, len(processes))
	<-term
	return nil
}

// uptime is the first number of /proc/uptime, in seconds.
func uptime(proc string) (string, error) {
	b, err := os.ReadFile(filepath.Join(proc, "uptime"))
	if err != nil {
		return "", err
	}
	up, _, _ := strings.Cut(string(b), " ")
	return up, nil
}

// statusField finds "Key: value" in a file of /proc.
func statusField(path, key string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(line, ":"); ok && k == key {
			return strings.TrimSpace(v), nil
		}
	}
	return "", fmt.Errorf("%s has no field %s", path, key)
}
