package contents

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"garboard.local/builder/rootfs"
	"garboard.local/contents/observed"
)

// Difference is one thing on a node that is not as it is documented.
type Difference struct {
	Kind   string // extra, missing or different
	What   string // file, mount, sysctl, cgroup, socket, process
	Name   string
	Detail string
}

func (d Difference) String() string {
	return strings.TrimSuffix(fmt.Sprintf("%s %s %s: %s", d.Kind, d.What, d.Name, d.Detail), ": ")
}

// Kinds of differences.
const (
	Extra     = "extra"
	Missing   = "missing"
	Different = "different"
)

// differences collects them about one kind of thing.
type differences struct {
	what string
	list []Difference
}

func (d *differences) add(kind, name, format string, args ...any) {
	d.list = append(d.list, Difference{kind, d.what, name, fmt.Sprintf(format, args...)})
}

// Compare says in what a node is not what is expected; nil if in nothing.
func (x *Expected) Compare(n *observed.Node) []Difference {
	return slices.Concat(x.files(n), x.mounts(n), x.sysctls(n), x.cgroups(n), x.sockets(n), x.processes(n))
}

const setID = 0o6000

func (x *Expected) files(n *observed.Node) []Difference {
	d := &differences{what: "file"}
	rules := make([]pattern, len(x.Files))
	for i, r := range x.Files {
		rules[i] = compile(r.Path)
	}
	met := make([]bool, len(x.Files))
	seen := map[string]bool{}
	for _, f := range n.Files {
		if seen[f.Path] = true; x.Image[f.Path] != nil {
			compareImage(d, x.Image[f.Path], f)
			continue
		}
		i := 0
		for i < len(rules) && !(rules[i].match(f.Path) && (x.Files[i].Type == "" || x.Files[i].Type == f.Type)) {
			i++
		}
		if i == len(rules) {
			d.add(Extra, f.Path, "%s", f)
			continue
		}
		met[i] = true
		compareRule(d, x.Files[i], f)
	}
	for _, p := range slices.Sorted(maps.Keys(x.Image)) {
		if !seen[p] {
			d.add(Missing, p, "of the image")
		}
	}
	for i, r := range x.Files {
		if r.Need && !met[i] {
			d.add(Missing, r.Path, "%s", r.Why)
		}
	}
	return d.list
}

// compareImage holds a file against its entry in the manifest.
func compareImage(d *differences, e *rootfs.Entry, f observed.File) {
	want := observed.File{Type: map[rootfs.Kind]string{rootfs.File: file, rootfs.Dir: dir, rootfs.Symlink: link}[e.Kind],
		Mode: e.Mode, UID: e.UID, GID: e.GID, Link: e.Link}
	switch {
	case f.String() != want.String():
		d.add(Different, f.Path, "%s, want %s", f, want)
	case f.Type != file || slices.Contains(written, f.Path):
	case f.Size != e.Size:
		d.add(Different, f.Path, "%d bytes, want %d", f.Size, e.Size)
	case e.Size <= observed.HashLimit && f.SHA256 != e.SHA256:
		d.add(Different, f.Path, "SHA-256 %.12s, want %.12s", f.SHA256, e.SHA256)
	}
}

func compareRule(d *differences, r FileRule, f observed.File) {
	owner := r.Owner
	if owner == "" {
		owner = "0:0"
	}
	switch {
	case f.Mode&setID != 0:
		d.add(Different, f.Path, "%s: nothing that the node itself makes is setuid or setgid", f)
	case r.Any:
	case f.Mode != r.Mode || fmt.Sprintf("%d:%d", f.UID, f.GID) != owner:
		d.add(Different, f.Path, "%s, want %04o %s", f, r.Mode, owner)
	case r.Link != "" && !compile(r.Link).match(f.Link):
		d.add(Different, f.Path, "%s, want a link to %s", f, r.Link)
	}
}

func (x *Expected) mounts(n *observed.Node) []Difference {
	d := &differences{what: "mount"}
	met := make([]bool, len(x.Mounts))
	for _, m := range n.Mounts {
		i := slices.IndexFunc(x.Mounts, func(r MountRule) bool { return compile(r.Target).match(m.Target) && r.Type == m.Type })
		if i < 0 {
			d.add(Extra, m.Target, "%s %s", m.Type, m.Options)
			continue
		}
		met[i] = true
		compareMount(d, x.Mounts[i], m, n.MemTotal)
	}
	for i, r := range x.Mounts {
		if r.Need && !met[i] {
			d.add(Missing, r.Target, "%s", r.Type)
		}
	}
	return d.list
}

func compareMount(d *differences, r MountRule, m observed.Mount, memTotal int64) {
	ignored := []string{"rw", "relatime", "noatime"}
	options := slices.DeleteFunc(strings.Split(m.Options, ","), func(o string) bool { return slices.Contains(ignored, o) })
	if got := strings.Join(options, " "); got != r.Options {
		d.add(Different, m.Target, "options %q, want %q", got, r.Options)
	}
	super := strings.Split(m.Super, ",")
	for _, want := range r.Super {
		if !slices.Contains(super, want) {
			d.add(Different, m.Target, "file system's options %q lack %s", m.Super, want)
		}
	}
	if r.Percent > 0 {
		size := int64(-1)
		for _, o := range super {
			if v, ok := strings.CutPrefix(o, "size="); ok {
				size, _ = strconv.ParseInt(strings.TrimSuffix(v, "k"), 10, 64)
			}
		}
		if !near(size, memTotal*r.Percent/100) {
			d.add(Different, m.Target, "size %d KiB, want %d %% of the memory, which is %d KiB", size, r.Percent, memTotal)
		}
	}
	if m.Shared == r.Private {
		d.add(Different, m.Target, "shared is %t", m.Shared)
	}
}

// near allows one in a hundred: the kernel frees some memory of its own after
// it has worked out percentages.
func near(got, want int64) bool { return got > want-want/100 && got < want+want/100 }

func (x *Expected) sysctls(n *observed.Node) []Difference {
	d := &differences{what: "sysctl"}
	for _, s := range x.Sysctls {
		found := false
		p := compile(strings.ReplaceAll(s.Key, ".", "/"))
		for _, key := range slices.Sorted(maps.Keys(n.Sysctls)) {
			// Without a wildcard the keys are the same; with one, each interface's counts.
			if key != s.Key && !(strings.Contains(s.Key, "*") && p.match(key)) {
				continue
			}
			found = true
			if got := n.Sysctls[key]; got != s.Value {
				d.add(Different, key, "%s, want %s", got, s.Value)
			}
		}
		if !found && !s.Optional {
			d.add(Missing, s.Key, "want %s", s.Value)
		}
	}
	return d.list
}

func (x *Expected) cgroups(n *observed.Node) []Difference {
	d := &differences{what: "cgroup"}
	for _, key := range slices.Sorted(maps.Keys(n.Cgroups)) {
		got := n.Cgroups[key]
		want, known := x.Cgroups[key]
		switch {
		case known && got != want:
			d.add(Different, key, "%s, want %s", got, want)
		case known || strings.HasPrefix(key, "kubepods/"):
		case strings.HasSuffix(key, "/cgroup.subtree_control") && (got == "" || key == "garboard/cgroup.subtree_control"):
		default:
			d.add(Extra, key, "%s", got)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(x.Cgroups)) {
		if _, there := n.Cgroups[key]; !there {
			d.add(Missing, key, "want %s", x.Cgroups[key])
		}
	}
	for _, group := range []string{"garboard", "kubepods"} {
		on := strings.Fields(n.Cgroups[group+"/cgroup.subtree_control"])
		for _, c := range []string{"cpu", "cpuset", "io", "memory", "pids"} {
			if !slices.Contains(on, c) {
				d.add(Different, group+"/cgroup.subtree_control", "%v lacks %s", on, c)
			}
		}
	}
	// All pods together leave the node what the kubelet reserves for it.
	limit, err := strconv.ParseInt(n.Cgroups["kubepods/memory.max"], 10, 64)
	if err != nil || !near(limit>>10, n.MemTotal-reservedKiB) {
		d.add(Different, "kubepods/memory.max", "%s, want the memory (%d KiB) less %d KiB", n.Cgroups["kubepods/memory.max"], n.MemTotal, reservedKiB)
	}
	return d.list
}

func (x *Expected) sockets(n *observed.Node) []Difference {
	d := &differences{what: "socket"}
	met := make([]bool, len(x.Sockets))
	for _, s := range n.Sockets {
		network := strings.TrimSuffix(s.Network, "6")
		i := slices.IndexFunc(x.Sockets, func(r SocketRule) bool {
			return r.Network == network && r.Owner == s.Owner && compile(r.Address).match(s.Address)
		})
		if i < 0 {
			d.add(Extra, s.Network+" "+s.Address, "of %q", s.Owner)
			continue
		}
		met[i] = true
	}
	for i, r := range x.Sockets {
		if r.Need && !met[i] {
			d.add(Missing, r.Network+" "+r.Address, "of %s: %s", r.Owner, r.Why)
		}
	}
	return d.list
}

func (x *Expected) processes(n *observed.Node) []Difference {
	d := &differences{what: "process"}
	met := make([]bool, len(x.Processes))
	for _, p := range n.Processes {
		i := slices.IndexFunc(x.Processes, func(r ProcessRule) bool {
			return r.Program == p.Program && strings.HasPrefix(p.Args, r.Args) && (r.Parent == "" || r.Parent == p.Parent)
		})
		if i < 0 {
			d.add(Extra, p.Program, "pid %d of %s, cgroup %s: %s", p.PID, p.Parent, p.Cgroup, p.Args)
			continue
		}
		met[i] = true
		compareProcess(d, x.Processes[i], p)
	}
	for i, r := range x.Processes {
		if r.Need && !met[i] {
			d.add(Missing, r.Program, "%s", r.Why)
		}
	}
	return d.list
}

func compareProcess(d *differences, r ProcessRule, p observed.Process) {
	caps := r.Caps
	switch caps {
	case "all":
		caps = allCaps
	case "none":
		caps = "0000000000000000"
	}
	for _, c := range []struct{ what, got, want string }{
		{"uid", p.UID, r.UID}, {"gid", p.GID, r.GID}, {"capabilities", p.CapEff, caps}, {"no_new_privs", p.NoNewPrivs, r.NoNewPrivs},
		{"seccomp", p.Seccomp, r.Seccomp}, {"oom_score_adj", p.OOM, r.OOM}, {"open files", p.Files, r.Files},
	} {
		if c.want != "" && c.got != c.want {
			d.add(Different, p.Program, "%s %s, want %s", c.what, c.got, c.want)
		}
	}
	if r.Cgroup != "" && !compile(r.Cgroup).match(p.Cgroup) {
		d.add(Different, p.Program, "cgroup %s, want %s", p.Cgroup, r.Cgroup)
	}
}
