package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// peak is the memory that a process and all that it started needed.
type peak struct {
	// Largest is the most that any one of them had resident, in bytes. It is exact:
	// wait4(2) tells it of a process and those that it has waited for.
	Largest int64
	// Together is the largest sum of what all had resident at one time, in bytes, seen
	// every peakInterval. Pages that two of them share count twice.
	Together int64
	Seconds  float64
}

// peakInterval is how often memory is looked at: a compiler or mkfs lives for
// seconds, and reading /proc takes a millisecond or two.
const peakInterval = 50 * time.Millisecond

// measure runs a command in a session of its own, by which those that it starts are
// found, and waits for it. looked, if there is one, is told each sum that was seen.
func measure(ctx context.Context, cmd *exec.Cmd, looked func(sum int64)) (p peak, err error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return p, err
	}
	session := cmd.Process.Pid
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	ticker := time.NewTicker(peakInterval)
	defer ticker.Stop()
	for {
		sum, lookErr := residentOf("/proc", session)
		p.Together = max(p.Together, sum)
		if looked != nil {
			looked(sum)
		}
		select {
		case err = <-done:
			p.Seconds = time.Since(began).Seconds()
			if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
				p.Largest = u.Maxrss * 1024 // Linux counts KiB: getrusage(2)
			}
			return p, errors.Join(err, context.Cause(ctx), lookErr)
		case <-ticker.C:
		}
	}
}

// residentOf is the sum of the resident memory of a session's processes, in bytes.
func residentOf(proc string, session int) (sum int64, err error) {
	files, err := filepath.Glob(filepath.Join(proc, "[0-9]*", "stat"))
	if err != nil || len(files) == 0 {
		return 0, fmt.Errorf("no process in %s to measure: is it mounted? %w", proc, errors.Join(err, os.ErrNotExist))
	}
	for _, f := range files {
		stat, err := os.ReadFile(f)
		if err != nil {
			continue // it has ended
		}
		sid, pages, err := parseStat(stat)
		if err != nil {
			return sum, fmt.Errorf("%s: %w", f, err)
		}
		if sid == session {
			sum += pages * int64(os.Getpagesize())
		}
	}
	return sum, nil
}

// parseStat reads session and resident pages from /proc/PID/stat (proc_pid_stat(5)):
// fields 6 and 24, counted behind the name in parentheses, which may hold anything.
func parseStat(stat []byte) (session int, pages int64, err error) {
	i := bytes.LastIndexByte(stat, ')')
	if i < 0 {
		return 0, 0, fmt.Errorf("no name in parentheses in %q", stat)
	}
	f := bytes.Fields(stat[i+1:])
	if len(f) < 22 {
		return 0, 0, fmt.Errorf("%d fields behind the name in %q, want 22 or more", len(f), stat)
	}
	if session, err = strconv.Atoi(string(f[3])); err != nil {
		return 0, 0, fmt.Errorf("session: %w", err)
	}
	if pages, err = strconv.ParseInt(string(f[21]), 10, 64); err != nil {
		return 0, 0, fmt.Errorf("resident pages: %w", err)
	}
	return session, pages, nil
}
