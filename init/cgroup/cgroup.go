// Package cgroup arranges the unified hierarchy: every controller is enabled
// for the root's children (the kubelet makes /kubepods there), and PID 1 and
// each service live in a group of their own, never in the root.
package cgroup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Groups below the root. Own holds no process itself: only its children do.
const (
	Own     = "garboard"
	OwnInit = "garboard/init"
	Pods    = "kubepods"
)

// Tree is a cgroup2 mount, normally at /sys/fs/cgroup.
type Tree struct{ Root string }

// Group is a service's group and its share of the machine.
type Group struct {
	Name string // of the service
	Share
}

// Share is what a group gets even when everyone wants everything.
type Share struct {
	Weight int   // cpu.weight, 1 to 10000; 0 = the kernel's default of 100
	Memory int64 // memory.min in bytes: never reclaimed for others
}

// initShare is PID 1's: its log pipes and its supervision must not stall.
var initShare = Share{Weight: 100, Memory: 32 << 20}

// Setup enables the controllers, makes the groups of PID 1 and of the services,
// gives each its share, and moves PID 1 (pid) into its own.
func (t Tree) Setup(pid int, services []Group) error {
	var errs []error
	errs = append(errs, t.enable(""), os.MkdirAll(filepath.Join(t.Root, Own), 0o755), t.enable(Own))
	for _, g := range Shares(services) {
		errs = append(errs, os.MkdirAll(filepath.Join(t.Root, g.Name), 0o755), t.share(g.Name, g.Share))
	}
	err := os.WriteFile(filepath.Join(t.Root, OwnInit, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644)
	if err != nil {
		errs = append(errs, fmt.Errorf("move pid %d into its group: %w", pid, err))
	}
	return errors.Join(errs...)
}

// Shares returns what Setup gives: the groups of PID 1 and of the services by
// their path, and the one above them all.
func Shares(services []Group) []Group {
	all := []Group{{Name: OwnInit, Share: initShare}}
	for _, g := range services {
		all = append(all, Group{Name: Service(g.Name), Share: g.Share})
	}
	var sum Share // a child is protected only as far as its parent is
	for _, g := range all {
		sum.Weight += max(g.Weight, 1)
		sum.Memory += g.Memory
	}
	sum.Weight = min(sum.Weight, maxWeight)
	return append(all, Group{Name: Own, Share: sum})
}

const maxWeight = 10000

// share writes a group's share; what is zero stays the kernel's default.
func (t Tree) share(group string, s Share) error {
	var errs []error
	for file, n := range map[string]int64{"cpu.weight": int64(s.Weight), "memory.min": s.Memory} {
		if n == 0 {
			continue
		}
		if err := os.WriteFile(filepath.Join(t.Root, group, file), []byte(strconv.FormatInt(n, 10)), 0o644); err != nil {
			errs = append(errs, fmt.Errorf("%s of group %s: %w", file, group, err))
		}
	}
	return errors.Join(errs...)
}

// cpuPeriod is that of cpu.max, in microseconds: the kernel's default.
const cpuPeriod = 100_000

// Limit bounds a service's group: memory in bytes, CPU in thousandths of one.
// What is zero stays unlimited.
func (t Tree) Limit(service string, memory, cpuMilli int64) error {
	files := map[string]string{}
	if memory > 0 {
		files["memory.max"] = strconv.FormatInt(memory, 10)
		files["memory.oom.group"] = "1" // as for a container: half a service is none
	}
	if cpuMilli > 0 {
		files["cpu.max"] = fmt.Sprintf("%d %d", max(cpuMilli*cpuPeriod/1000, 1000), cpuPeriod) // the kernel takes no less than 1 ms
	}
	var errs []error
	for file, text := range files {
		if err := os.WriteFile(filepath.Join(t.Root, Service(service), file), []byte(text), 0o644); err != nil {
			errs = append(errs, fmt.Errorf("%s of service %s: %w", file, service, err))
		}
	}
	return errors.Join(errs...)
}

// Service is the group of the service called name.
func Service(name string) string { return Own + "/" + name }

// enable turns on every controller of a group for its children, one by one if
// the kernel refuses them together.
func (t Tree) enable(group string) error {
	dir := filepath.Join(t.Root, group)
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "cgroup.subtree_control")
	names := strings.Fields(string(b))
	if len(names) == 0 {
		return nil
	}
	if os.WriteFile(file, []byte("+"+strings.Join(names, " +")), 0o644) == nil {
		return nil
	}
	var errs []error
	for _, n := range names {
		if err := os.WriteFile(file, []byte("+"+n), 0o644); err != nil {
			errs = append(errs, fmt.Errorf("enable controller %s: %w", n, err))
		}
	}
	return errors.Join(errs...)
}

// Open returns the directory of a group for clone3(2)'s CLONE_INTO_CGROUP.
func (t Tree) Open(group string) (*os.File, error) { return os.Open(filepath.Join(t.Root, group)) }

// Populated says whether any process is left in a group or below it. A group
// that does not exist holds none.
func (t Tree) Populated(group string) bool {
	b, err := os.ReadFile(filepath.Join(t.Root, group, "cgroup.events"))
	if err != nil {
		return false
	}
	for line := range strings.SplitSeq(string(b), "\n") {
		if line == "populated 1" {
			return true
		}
	}
	return false
}

// Procs returns the pids in a group and all groups below it.
func (t Tree) Procs(group string) []int {
	var pids []int
	_ = filepath.WalkDir(filepath.Join(t.Root, group), func(p string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil // groups come and go while we walk
		}
		f, err := os.Open(filepath.Join(p, "cgroup.procs"))
		if err != nil {
			return nil
		}
		defer f.Close()
		for sc := bufio.NewScanner(f); sc.Scan(); {
			// 0 is a process of another pid namespace
			if pid, err := strconv.Atoi(sc.Text()); err == nil && pid > 1 {
				pids = append(pids, pid)
			}
		}
		return nil
	})
	return pids
}

// WaitEmpty waits until a group holds no process, or ctx ends; it says which.
func (t Tree) WaitEmpty(ctx context.Context, group string) bool {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for t.Populated(group) {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
}
