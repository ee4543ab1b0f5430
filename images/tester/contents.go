package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"garboard.local/contents/observed"
)

// lookAtContents looks at the whole node twice, before and after it has spoilt
// it in every way that must be noticed, and keeps both for the host, which knows
// what ought to be there.
func (g *guest) lookAtContents() error {
	all, err := readProcesses(g.proc)
	if err != nil {
		return err
	}
	if program, err := runtimeProgram(all); err != nil || program != "crio" {
		g.say("tester: the list of the node's contents is that of a node with cri-o, not with %s", program)
		return err
	}
	var looks [2]*observed.Node
	if looks[0], err = g.observe(g.residents); err != nil {
		return err
	}
	undo, err := g.spoil()
	if err == nil {
		looks[1], err = g.observe(g.residents)
	}
	if err := errors.Join(err, undo()); err != nil {
		return err
	}
	g.say("tester: saw %d files, %d mounts, %d sysctls, %d sockets, %d processes", len(looks[0].Files), len(looks[0].Mounts),
		len(looks[0].Sysctls), len(looks[0].Sockets), len(looks[0].Processes))
	g.contents, err = json.Marshal(looks)
	return err
}

// root is the node's root as PID 1 sees it.
func (g *guest) root() string { return filepath.Join(g.proc, "1/root") }

// observe looks at everything once. Of the processes only residents that are
// still there count.
func (g *guest) observe(residents map[int]process) (*observed.Node, error) {
	info, err := os.ReadFile(filepath.Join(g.proc, "1/mountinfo"))
	if err != nil {
		return nil, err
	}
	total, err := statusField(filepath.Join(g.proc, "meminfo"), "MemTotal")
	if err != nil {
		return nil, err
	}
	n := &observed.Node{}
	if n.MemTotal, err = strconv.ParseInt(strings.TrimSuffix(total, " kB"), 10, 64); err != nil {
		return nil, fmt.Errorf("meminfo: %w", err)
	}
	var errs [6]error
	n.Mounts, errs[0] = parseMounts(string(info))
	n.Files, errs[1] = walk(g.root(), n.Mounts)
	n.Sysctls, errs[2] = sysctls(g.proc, filepath.Join(g.root(), "usr/lib/garboard/node.json"))
	n.Cgroups, errs[3] = cgroups(filepath.Join(g.root(), "sys/fs/cgroup"))
	n.Sockets, errs[4] = sockets(g.proc)
	n.Processes, errs[5] = residentsOf(g.proc, residents)
	return n, errors.Join(errs[:]...)
}

// parseMounts reads proc_pid_mountinfo(5).
func parseMounts(text string) ([]observed.Mount, error) {
	var all []observed.Mount
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for line := range strings.Lines(text) {
		before, after, ok := strings.Cut(strings.TrimSpace(line), " - ")
		b, a := strings.Fields(before), strings.Fields(after)
		if !ok || len(b) < 6 || len(a) < 3 {
			return nil, fmt.Errorf("mountinfo: cannot read %q", line)
		}
		all = append(all, observed.Mount{Target: unescape.Replace(b[4]), Options: b[5], Type: a[0], Super: a[2],
			Shared: slices.ContainsFunc(b[6:], func(s string) bool { return strings.HasPrefix(s, "shared:") })})
	}
	return all, nil
}

// stores are file systems whose files somebody made; the others are views of
// the kernel, or a container's root.
var stores = []string{"erofs", "tmpfs", "ext4", "devtmpfs", "devpts", "mqueue"}

// walk lists every file that lies on a store, and the tops of what is mounted
// below /sys. What vanishes meanwhile is left out.
func walk(root string, mounts []observed.Mount) ([]observed.File, error) {
	on := map[string]string{} // type by target; of several on one place the last
	var all []observed.File
	for _, m := range mounts {
		on[m.Target] = m.Type
		if strings.HasPrefix(m.Target, "/sys/") {
			f, err := look(root, m.Target)
			if err != nil {
				return nil, err
			}
			all = append(all, f)
		}
	}
	err := filepath.WalkDir(root+"/", func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		name := path.Join("/", strings.TrimPrefix(p, root))
		f, err := look(root, name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
		all = append(all, f)
		kind, mounted := on[name]
		if d.IsDir() && mounted && !slices.Contains(stores, kind) && !(kind == "overlay" && name == "/etc") {
			return fs.SkipDir
		}
		return nil
	})
	return all, err
}

// look describes one file.
func look(root, name string) (observed.File, error) {
	file := root + name
	if name == "/" {
		file = root + "/." // the root itself, not the link to it
	}
	var st syscall.Stat_t
	if err := syscall.Lstat(file, &st); err != nil {
		return observed.File{}, fmt.Errorf("%s: %w", name, err)
	}
	f := observed.File{Path: name, Type: fileType(st.Mode), Mode: st.Mode & 0o7777, UID: int(st.Uid), GID: int(st.Gid)}
	var err error
	switch f.Type {
	case observed.Symlink:
		f.Link, err = os.Readlink(file)
	case observed.Regular:
		f.Size = st.Size
		if st.Size <= observed.HashLimit && hashed(name) {
			f.SHA256, err = hash(file)
		}
	}
	return f, err
}

// hashed: what changes all the time (/run, /var, /dev) is not.
func hashed(name string) bool {
	return strings.HasPrefix(name, "/usr/") || strings.HasPrefix(name, "/etc/")
}

func fileType(mode uint32) string {
	switch mode & syscall.S_IFMT {
	case syscall.S_IFREG:
		return observed.Regular
	case syscall.S_IFDIR:
		return observed.Dir
	case syscall.S_IFLNK:
		return observed.Symlink
	case syscall.S_IFCHR:
		return observed.Char
	case syscall.S_IFBLK:
		return observed.Block
	case syscall.S_IFSOCK:
		return observed.Unix
	}
	return observed.FIFO
}

func hash(file string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// sysctls reads back every parameter of the node table; a key with a * stands
// for each interface there is.
func sysctls(proc, table string) (map[string]string, error) {
	b, err := os.ReadFile(table)
	if err != nil {
		return nil, err
	}
	var t struct {
		Sysctls []struct{ Key string }
	}
	if err := json.Unmarshal(b, &t); err != nil {
		return nil, fmt.Errorf("%s: %w", table, err)
	}
	all := map[string]string{}
	base := filepath.Join(proc, "sys")
	for _, s := range t.Sysctls {
		files, err := filepath.Glob(filepath.Join(base, strings.ReplaceAll(s.Key, ".", "/")))
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				return nil, err
			}
			key := s.Key
			if strings.Contains(key, "*") {
				key = strings.TrimPrefix(f, base+"/") // with slashes: an interface's name may have dots
			}
			all[key] = strings.Join(strings.Fields(string(b)), " ")
		}
	}
	return all, nil
}

// cgroups reads the shares and limits of the node's own groups and of the pods'
// common one.
func cgroups(root string) (map[string]string, error) {
	all := map[string]string{}
	dirs, err := filepath.Glob(filepath.Join(root, "garboard/*"))
	if err != nil {
		return nil, err
	}
	for _, d := range append(dirs, filepath.Join(root, "garboard"), filepath.Join(root, "kubepods")) {
		if fi, err := os.Stat(d); err != nil || !fi.IsDir() {
			continue // a file of the group
		}
		for _, f := range []string{"cpu.weight", "cpu.max", "memory.min", "memory.max", "pids.max", "cgroup.subtree_control"} {
			b, err := os.ReadFile(filepath.Join(d, f))
			if err != nil {
				return nil, err
			}
			all[strings.TrimPrefix(filepath.Join(d, f), root+"/")] = strings.TrimSpace(string(b))
		}
	}
	return all, nil
}

// residentsOf describes those of the processes that are still there.
func residentsOf(proc string, residents map[int]process) ([]observed.Process, error) {
	now, err := readProcesses(proc)
	if err != nil {
		return nil, err
	}
	var all []observed.Process
	for pid, p := range now {
		if was, there := residents[pid]; !there || was.start != p.start {
			continue
		}
		dir := fmt.Sprintf("%s/%d", proc, pid)
		o := observed.Process{PID: pid, Program: p.exe, Parent: now[p.ppid].exe, Args: strings.Join(p.args, " "), Cgroup: p.cgroup}
		status, err := os.ReadFile(dir + "/status")
		adj, err2 := os.ReadFile(dir + "/oom_score_adj")
		limits, err3 := os.ReadFile(dir + "/limits")
		if err := errors.Join(err, err2, err3); errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue
		} else if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(status)) {
			key, v, _ := strings.Cut(line, ":")
			f := strings.Fields(v)
			switch {
			case key == "Uid" && len(f) == 4:
				o.UID = f[1]
			case key == "Gid" && len(f) == 4:
				o.GID = f[1]
			case key == "CapEff" && len(f) == 1:
				o.CapEff = f[0]
			case key == "NoNewPrivs" && len(f) == 1:
				o.NoNewPrivs = f[0]
			case key == "Seccomp" && len(f) == 1:
				o.Seccomp = f[0]
			}
		}
		for line := range strings.Lines(string(limits)) {
			if f := strings.Fields(strings.TrimPrefix(line, "Max open files")); strings.HasPrefix(line, "Max open files") && len(f) >= 2 {
				o.Files = f[0] + "/" + f[1]
			}
		}
		o.OOM = strings.TrimSpace(string(adj))
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b observed.Process) int { return a.PID - b.PID })
	return all, nil
}
