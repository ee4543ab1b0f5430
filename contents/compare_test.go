package contents

import (
	"slices"
	"strings"
	"testing"

	"garboard.local/builder/report"
	"garboard.local/builder/rootfs"
	"garboard.local/contents/observed"
)

const sum = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// expected is that of the standard recipe with a small image.
func expected(t *testing.T) *Expected {
	t.Helper()
	big := &rootfs.Entry{Path: "usr/bin/kubelet", Kind: rootfs.File, Mode: 0o755, Size: 80 << 20, SHA256: sum}
	m := &report.Manifest{Arch: "amd64",
		Root: []*rootfs.Entry{
			{Path: "etc", Kind: rootfs.Dir, Mode: 0o755}, {Path: "etc/hosts", Kind: rootfs.File, Mode: 0o644, Size: 9, SHA256: "old"},
			{Path: "bin", Kind: rootfs.Symlink, Mode: 0o777, Link: "usr/bin"}, big,
			{Path: "usr/lib/garboard/init", Kind: rootfs.File, Mode: 0o755},
			{Path: "etc/passwd", Kind: rootfs.File, Mode: 0o644, Size: 20, SHA256: sum},
		},
		Early: []*rootfs.Entry{{Path: "init", Kind: rootfs.File, Mode: 0o755, Size: 5 << 20}}}
	x, err := New(nodeRecipe(t), m)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// instance is a name that a pattern fits.
func instance(p string) string {
	return strings.NewReplacer("**", "x/y", "*ns", "netns", "*", "x", "{id}", "0a1b-2c").Replace(p)
}

// fulfil makes a node that is as expected in everything, optional things included.
func fulfil(x *Expected) *observed.Node {
	n := &observed.Node{MemTotal: 2 << 20, Sysctls: map[string]string{}, Cgroups: map[string]string{
		"garboard/cgroup.subtree_control": "cpuset cpu io memory pids", "kubepods/cgroup.subtree_control": "cpuset cpu io memory pids",
		"kubepods/memory.max": "1744830464", "garboard/crio/cgroup.subtree_control": ""}}
	for p, e := range x.Image {
		f := observed.File{Path: p, Type: map[rootfs.Kind]string{rootfs.File: file, rootfs.Dir: dir, rootfs.Symlink: link}[e.Kind], Mode: e.Mode, Size: e.Size, Link: e.Link}
		if f.Type == file && e.Size <= observed.HashLimit {
			f.SHA256 = e.SHA256
		}
		if slices.Contains(written, p) {
			f.Size, f.SHA256 = 100, "new"
		}
		n.Files = append(n.Files, f)
	}
	for _, r := range x.Files {
		f := observed.File{Path: instance(r.Path), Type: r.Type, Mode: r.Mode, Link: instance(r.Link)}
		if r.Type == "" {
			f.Type, f.Mode, f.UID = file, 0o666, 1000
		}
		if r.Owner == "0:4" {
			f.GID = 4
		}
		n.Files = append(n.Files, f)
	}
	for _, r := range x.Mounts {
		m := observed.Mount{Target: instance(r.Target), Type: r.Type, Options: strings.Join(append(strings.Fields(r.Options), "relatime"), ","), Shared: !r.Private}
		m.Super = strings.Join(append(slices.Clone(r.Super), "rw", "size="+map[int64]string{0: "7", 10: "209712", 40: "838860"}[r.Percent]+"k"), ",")
		n.Mounts = append(n.Mounts, m)
	}
	for _, s := range x.Sysctls {
		key := s.Key
		if strings.Contains(key, "*") {
			key = strings.ReplaceAll(strings.ReplaceAll(key, ".", "/"), "*", "eth0.1")
		}
		n.Sysctls[key] = s.Value
	}
	for k, v := range x.Cgroups {
		n.Cgroups[k] = v
	}
	for _, r := range x.Sockets {
		n.Sockets = append(n.Sockets, observed.Socket{Network: r.Network, Address: instance(r.Address), Owner: r.Owner})
	}
	for i, r := range x.Processes {
		caps := map[string]string{"all": allCaps, "none": "0000000000000000"}[r.Caps]
		n.Processes = append(n.Processes, observed.Process{PID: i + 1, Program: r.Program, Parent: r.Parent, Args: r.Args, UID: r.UID, GID: r.GID, CapEff: caps,
			NoNewPrivs: r.NoNewPrivs, Seccomp: r.Seccomp, OOM: r.OOM, Cgroup: instance(r.Cgroup), Files: r.Files})
	}
	return n
}

func TestCompare(t *testing.T) {
	at := func(n *observed.Node, path string) *observed.File {
		return &n.Files[slices.IndexFunc(n.Files, func(f observed.File) bool { return f.Path == path })]
	}
	mount := func(n *observed.Node, target string) *observed.Mount {
		return &n.Mounts[slices.IndexFunc(n.Mounts, func(m observed.Mount) bool { return m.Target == target })]
	}
	process := func(n *observed.Node, program string) *observed.Process {
		return &n.Processes[slices.IndexFunc(n.Processes, func(p observed.Process) bool { return p.Program == program })]
	}
	drop := func(n *observed.Node, path string) {
		n.Files = slices.DeleteFunc(n.Files, func(f observed.File) bool { return f.Path == path })
	}
	for _, tt := range []struct {
		name  string
		spoil func(*observed.Node)
		want  string // how the one difference begins; "" = none
	}{
		{"as it should be", func(*observed.Node) {}, ""},
		{"an optional thing is not there", func(n *observed.Node) {
			drop(n, "/run/xtables.lock")
			delete(n.Sysctls, "kernel.sysrq")
		}, ""},
		{"unknown file", func(n *observed.Node) {
			n.Files = append(n.Files, observed.File{Path: "/run/x", Type: file, Mode: 0o644})
		}, "extra file /run/x: f 0644 0:0"},
		{"unknown file in /etc", func(n *observed.Node) {
			n.Files = append(n.Files, observed.File{Path: "/etc/ld.so.preload", Type: file, Mode: 0o644})
		}, "extra file /etc/ld.so.preload"},
		{"file of the image gone", func(n *observed.Node) { drop(n, "/etc/passwd") }, "missing file /etc/passwd"},
		{"file that must be made gone", func(n *observed.Node) { drop(n, "/etc/machine-id") }, "missing file /etc/machine-id"},
		{"mode of a file of the image", func(n *observed.Node) { at(n, "/etc/passwd").Mode = 0o666 }, "different file /etc/passwd: f 0666 0:0, want f 0644 0:0"},
		{"owner of a file of the image", func(n *observed.Node) { at(n, "/etc/passwd").UID = 7 }, "different file /etc/passwd: f 0644 7:0"},
		{"root writable for all", func(n *observed.Node) { at(n, "/").Mode = 0o777 }, "different file /: d 0777 0:0"},
		{"content", func(n *observed.Node) { at(n, "/etc/passwd").SHA256 = strings.Repeat("0", 64) }, "different file /etc/passwd: SHA-256"},
		{"no hash of a small file", func(n *observed.Node) { at(n, "/etc/passwd").SHA256 = "" }, "different file /etc/passwd: SHA-256"},
		{"size", func(n *observed.Node) { at(n, "/usr/bin/kubelet").Size = 1 }, "different file /usr/bin/kubelet: 1 bytes"},
		{"another init", func(n *observed.Node) { at(n, "/usr/lib/garboard/init").Size = 1 }, "different file /usr/lib/garboard/init: 1 bytes"},
		{"mode of a file with written content", func(n *observed.Node) { at(n, "/etc/hosts").Mode = 0o666 }, "different file /etc/hosts"},
		{"link elsewhere", func(n *observed.Node) { at(n, "/bin").Link = "/tmp" }, "different file /bin: l 0777 0:0 -> /tmp"},
		{"recipe's link elsewhere", func(n *observed.Node) { at(n, "/var/run").Link = "/tmp" }, "different file /var/run"},
		{"a file in place of a link", func(n *observed.Node) { at(n, "/bin").Type = file }, "different file /bin"},
		{"mode of a socket", func(n *observed.Node) { at(n, "/run/system.sock").Mode = 0o666 }, "different file /run/system.sock: s 0666"},
		{"mode of a directory of the recipe", func(n *observed.Node) { at(n, "/var/tmp").Mode = 0o777 }, "different file /var/tmp: d 0777 0:0, want 1777"},
		{"group of a log", func(n *observed.Node) { at(n, "/var/log/garboard/x").GID = 0 }, "different file /var/log/garboard/x"},
		{"setuid where all else goes", func(n *observed.Node) { at(n, "/var/lib/kubelet/x/y").Mode = 0o4755 }, "different file /var/lib/kubelet/x/y: f 4755"},
		{"setgid", func(n *observed.Node) { at(n, "/run/crio/version").Mode |= 0o2000 }, "different file /run/crio/version"},
		{"device for all", func(n *observed.Node) {
			n.Files = append(n.Files, observed.File{Path: "/dev/sda", Type: observed.Block, Mode: 0o666})
		}, "different file /dev/sda"},
		{"unknown mount", func(n *observed.Node) {
			n.Mounts = append(n.Mounts, observed.Mount{Target: "/mnt", Type: "ext4", Options: "rw", Shared: true})
		}, "extra mount /mnt: ext4 rw"},
		{"mount of another type", func(n *observed.Node) { mount(n, "/sys/fs/bpf").Type = "tmpfs" }, "extra mount /sys/fs/bpf"},
		{"option gone", func(n *observed.Node) { mount(n, "/dev/shm").Options = "rw,nosuid,nodev" }, `different mount /dev/shm: options "nosuid nodev"`},
		{"option more", func(n *observed.Node) { mount(n, "/tmp").Options += ",noexec" }, "different mount /tmp"},
		{"root writable", func(n *observed.Node) { mount(n, "/").Options = "rw,nodev" }, "different mount /: options"},
		{"no cap", func(n *observed.Node) { mount(n, "/run").Super = "rw,nr_inodes=65536,size=999999k" }, "different mount /run: size 999999 KiB, want 10 %"},
		{"no cap at all", func(n *observed.Node) { mount(n, "/run").Super = "rw,nr_inodes=65536" }, "different mount /run: size -1"},
		{"files not capped", func(n *observed.Node) { mount(n, "/run").Super = "rw,size=209715k" }, "different mount /run: file system's options"},
		{"not shared", func(n *observed.Node) { mount(n, "/var").Shared = false }, "different mount /var: shared is false"},
		{"sysctl", func(n *observed.Node) { n.Sysctls["kernel.kptr_restrict"] = "0" }, "different sysctl kernel.kptr_restrict: 0, want 2"},
		{"sysctl of one interface", func(n *observed.Node) { n.Sysctls["net/ipv4/conf/eth0/send_redirects"] = "1" }, "different sysctl net/ipv4/conf/eth0/send_redirects: 1"},
		{"sysctl gone", func(n *observed.Node) { delete(n.Sysctls, "kernel.kptr_restrict") }, "missing sysctl kernel.kptr_restrict"},
		{"no interface's", func(n *observed.Node) { delete(n.Sysctls, "net/ipv4/conf/eth0.1/send_redirects") }, "missing sysctl net.ipv4.conf.*.send_redirects"},
		{"share", func(n *observed.Node) { n.Cgroups["garboard/crio/memory.min"] = "0" }, "different cgroup garboard/crio/memory.min: 0"},
		{"unknown group", func(n *observed.Node) { n.Cgroups["garboard/x/cpu.weight"] = "100" }, "extra cgroup garboard/x/cpu.weight"},
		{"group gone", func(n *observed.Node) { delete(n.Cgroups, "garboard/kubelet/cpu.weight") }, "missing cgroup garboard/kubelet/cpu.weight"},
		{"controller off", func(n *observed.Node) { n.Cgroups["kubepods/cgroup.subtree_control"] = "cpuset cpu io memory" }, "different cgroup kubepods/cgroup.subtree_control"},
		{"pods may take all memory", func(n *observed.Node) { n.Cgroups["kubepods/memory.max"] = "max" }, "different cgroup kubepods/memory.max: max"},
		{"port on all addresses", func(n *observed.Node) {
			n.Sockets = append(n.Sockets, observed.Socket{Network: "tcp6", Address: "[::]:10250", Owner: "kubelet"})
		}, `extra socket tcp6 [::]:10250: of "kubelet"`},
		{"somebody else's port", func(n *observed.Node) {
			n.Sockets = append(n.Sockets, observed.Socket{Network: "tcp", Address: "127.0.0.1:80", Owner: "x"})
		}, "extra socket tcp 127.0.0.1:80"},
		{"abstract socket", func(n *observed.Node) {
			n.Sockets = append(n.Sockets, observed.Socket{Network: "unix", Address: "@x", Owner: "crio"})
		}, "extra socket unix @x"},
		{"socket gone", func(n *observed.Node) { n.Sockets = n.Sockets[1:] }, "missing socket tcp 127.0.0.1:*"},
		{"unknown process", func(n *observed.Node) {
			n.Processes = append(n.Processes, observed.Process{PID: 9, Program: "sh", Parent: "init"})
		}, "extra process sh: pid 9 of init"},
		{"right process of a wrong parent", func(n *observed.Node) {
			n.Processes = append(n.Processes, observed.Process{PID: 9, Program: "conmon", Parent: "sh"})
		}, "extra process conmon"},
		{"other arguments", func(n *observed.Node) { process(n, "crio").Args = "/usr/bin/x" }, "extra process crio"},
		{"process gone", func(n *observed.Node) {
			n.Processes = slices.DeleteFunc(n.Processes, func(p observed.Process) bool { return p.Program == "hello" })
		}, "missing process hello"},
		{"capabilities", func(n *observed.Node) { process(n, "hello").CapEff = allCaps }, "different process hello: capabilities"},
		{"seccomp", func(n *observed.Node) { process(n, "nodelogs").Seccomp = "0" }, "different process nodelogs: seccomp 0, want 2"},
		{"no_new_privs", func(n *observed.Node) { process(n, "nodelogs").NoNewPrivs = "0" }, "different process nodelogs: no_new_privs"},
		{"oom_score_adj", func(n *observed.Node) { process(n, "kubelet").OOM = "0" }, "different process kubelet: oom_score_adj 0, want -999"},
		{"uid", func(n *observed.Node) { process(n, "hello").UID = "0" }, "different process hello: uid 0"},
		{"cgroup", func(n *observed.Node) { process(n, "kubelet").Cgroup = "/" }, "different process kubelet: cgroup /"},
		{"limit", func(n *observed.Node) { process(n, "init").Files = "1/1" }, "different process init: open files 1/1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := expected(t)
			n := fulfil(x)
			tt.spoil(n)
			got := x.Compare(n)
			switch {
			case tt.want == "" && len(got) > 0:
				t.Errorf("%v", got)
			case tt.want != "" && len(got) == 2 && strings.HasPrefix(got[1].String(), "missing "):
				// What became something else is missing, too.
				got = got[:1]
				fallthrough
			case tt.want != "":
				if len(got) != 1 || !strings.HasPrefix(got[0].String(), tt.want) {
					t.Errorf("got %v, want one: %s", got, tt.want)
				}
			}
		})
	}
}

// What is not compared file by file lies where only root can enter.
func TestUncomparedFilesAreShielded(t *testing.T) {
	x := expected(t)
	for _, r := range x.Files {
		if !r.Any || strings.HasPrefix(r.Path, "/run/garboard/etc/") { // the files of /etc, compared there
			continue
		}
		shielded := slices.ContainsFunc(x.Files, func(d FileRule) bool {
			return d.Type == dir && d.Mode == 0o700 && d.Need && strings.HasPrefix(r.Path, d.Path+"/")
		})
		if !shielded {
			t.Errorf("%s is not compared and not shielded by a directory of mode 0700", r.Path)
		}
	}
}

func TestPattern(t *testing.T) {
	for _, tt := range []struct {
		pattern, path string
		want          bool
	}{
		{"/run/*", "/run/a", true}, {"/run/*", "/run/a/b", false}, {"/run/*", "/run/", false}, {"/run/**", "/run/a/b", true}, {"/run/**", "/run", false},
		{"/run/{id}", "/run/0aF", false}, {"/run/{id}", "/run/0a-f", true}, {"/run/a.b", "/run/aXb", false}, {"/run/*ns/{id}", "/run/netns/1-2", true},
		{"127.0.0.1:*", "127.0.0.1:80", true}, {"127.0.0.1:*", "127.0.0.10:80", false}, {"/run/.s*/s", "/run/.s12/s", true},
	} {
		if got := compile(tt.pattern).match(tt.path); got != tt.want {
			t.Errorf("%s and %s: %t", tt.pattern, tt.path, got)
		}
	}
}

// The reasons that the recipe is asked for are all there.
func TestEverythingHasAReason(t *testing.T) {
	x := expected(t)
	for _, r := range x.Files {
		if r.Why == "" {
			t.Errorf("file %s has no reason", r.Path)
		}
	}
	for _, r := range x.Mounts {
		if r.Why == "" {
			t.Errorf("mount %s has no reason", r.Target)
		}
	}
	for _, r := range x.Sockets {
		if r.Why == "" {
			t.Errorf("socket %s has no reason", r.Address)
		}
	}
	for _, r := range x.Processes {
		if r.Why == "" {
			t.Errorf("process %s has no reason", r.Program)
		}
	}
}
