package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// process is one user-space process, as /proc shows it.
type process struct {
	pid, ppid int
	start     uint64 // clock ticks after boot; with the pid it names a process for ever
	comm      string
	exe       string // base name of the program, or "" if it cannot be read
	args      []string
	cgroup    string // path in the cgroup2 hierarchy
}

// kernelThread is PF_KTHREAD of linux/sched.h.
const kernelThread = 0x00200000

// readProcesses lists the user-space processes by pid. Those that end
// meanwhile are left out.
func readProcesses(proc string) (map[int]process, error) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, err
	}
	all := map[int]process{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		p, user, err := readProcess(filepath.Join(proc, e.Name()), pid)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ESRCH):
		case err != nil:
			return nil, err
		case user:
			all[pid] = p
		}
	}
	return all, nil
}

func readProcess(dir string, pid int) (p process, user bool, err error) {
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return p, false, err
	}
	p, flags, err := parseStat(string(stat))
	if err != nil {
		return p, false, fmt.Errorf("%s/stat: %w", dir, err)
	}
	if flags&kernelThread != 0 {
		return p, false, nil
	}
	p.pid = pid
	if exe, err := os.Readlink(filepath.Join(dir, "exe")); err == nil {
		p.exe = filepath.Base(strings.TrimSuffix(exe, " (deleted)"))
	}
	args, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil {
		return p, false, err
	}
	for arg := range bytes.SplitSeq(bytes.TrimRight(args, "\x00"), []byte{0}) {
		p.args = append(p.args, string(arg))
	}
	cgroup, err := os.ReadFile(filepath.Join(dir, "cgroup"))
	if err != nil {
		return p, false, err
	}
	for line := range strings.Lines(string(cgroup)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			p.cgroup = path
		}
	}
	return p, true, nil
}

// parseStat reads proc_pid_stat(5): fields 2 (comm, in parentheses, any bytes),
// 4 (ppid), 9 (flags) and 22 (start time).
func parseStat(stat string) (p process, flags uint64, err error) {
	open, end := strings.IndexByte(stat, '('), strings.LastIndexByte(stat, ')')
	if open < 0 || end < open {
		return p, 0, fmt.Errorf("no command name in %q", stat)
	}
	p.comm = stat[open+1 : end]
	f := strings.Fields(stat[end+1:]) // f[0] is field 3
	if len(f) < 20 {
		return p, 0, fmt.Errorf("only %d fields after the command name in %q", len(f), stat)
	}
	var errs [3]error
	p.ppid, errs[0] = strconv.Atoi(f[1])
	flags, errs[1] = strconv.ParseUint(f[6], 10, 64)
	p.start, errs[2] = strconv.ParseUint(f[19], 10, 64)
	return p, flags, errors.Join(errs[:]...)
}

// service is the process that PID 1 runs under this program name.
func service(all map[int]process, exe string) (process, bool) {
	for _, p := range all {
		if p.ppid == 1 && p.exe == exe {
			return p, true
		}
	}
	return process{}, false
}

// stray reports whether a process has no business on a node: it is neither
// PID 1, nor a service, nor in a pod's cgroup (there conmon lives too), nor a
// container's monitor elsewhere.
func (p process) stray() bool {
	switch {
	case p.pid == 1:
		return p.exe != "init"
	case p.ppid == 1 && (p.exe == "crio" || p.exe == "containerd" || p.exe == "kubelet"):
		return false
	case p.exe == "conmon", p.exe == shimProgram && p.ppid == 1:
		return false
	}
	return !strings.HasPrefix(p.cgroup, "/kubepods/") && !strings.Contains(p.cgroup, "/kubepods/")
}

// container is one that the runtime made, found by its monitor.
type container struct {
	id        string
	processes map[int]uint64 // its first processes: pid and start time; none before it is started
}

func (c container) equal(d container) bool {
	return c.id == d.id && maps.Equal(c.processes, d.processes)
}

// containers finds all by conmon's arguments: -c ID and -n NAME, the name being
// k8s_<container>_<pod>_<namespace>_<uid>_<attempt>; or below containerd's shims.
func containers(all map[int]process) map[string]container {
	found := shimContainers(all, shimBundles)
	for _, monitor := range all {
		if monitor.exe != "conmon" {
			continue
		}
		c := container{id: option(monitor.args, "-c"), processes: map[int]uint64{}}
		name := option(monitor.args, "-n")
		if c.id == "" || name == "" {
			continue // a fork that is about to become one
		}
		for _, p := range all {
			// A container that is created and not yet started has a process of the
			// runtime, which waits for the start.
			if p.ppid == monitor.pid && !strings.HasPrefix(p.comm, "crun") {
				c.processes[p.pid] = p.start
			}
		}
		found[name] = c
	}
	return found
}

func option(args []string, name string) string {
	if i := slices.Index(args, name); i >= 0 && i+1 < len(args) {
		return args[i+1]
	}
	return ""
}

// changes tells which of the containers of before are not the same in after.
func changes(before, after map[string]container) []string {
	var diff []string
	for _, name := range slices.Sorted(maps.Keys(before)) {
		b := before[name]
		a, there := after[name]
		switch {
		case !there:
			diff = append(diff, fmt.Sprintf("container %s (%s) is gone", name, b.id))
		case !a.equal(b):
			diff = append(diff, fmt.Sprintf("container %s was %s %v and is %s %v", name, b.id, b.processes, a.id, a.processes))
		}
	}
	return diff
}
