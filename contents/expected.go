package contents

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"garboard.local/builder/recipe"
	"garboard.local/builder/report"
	"garboard.local/builder/rootfs"
	"garboard.local/init/cgroup"
	"garboard.local/init/mounts"
	initroot "garboard.local/init/rootfs"
	"garboard.local/init/table"
	"garboard.local/pod"
)

// Expected is what a node made from a recipe is, a few seconds after its pods
// have started, without a data partition.
type Expected struct {
	Image     map[string]*rootfs.Entry // the root image by absolute path
	Files     []FileRule
	Mounts    []MountRule
	Sysctls   []recipe.Sysctl
	Cgroups   map[string]string // values of files; the shares that pods cannot take
	Sockets   []SocketRule
	Processes []ProcessRule
}

// etcDir is where the writable half of /etc lies without a data partition.
const etcDir = "/run/garboard/etc"

// New is what is expected of a recipe's image for one architecture; more are
// processes of pods that this image has and a node as shipped has not.
func New(r *recipe.Recipe, m *report.Manifest, more ...ProcessRule) (*Expected, error) {
	compiled, err := pod.Compile(r.Services, pod.Node{Arch: m.Arch}, nil)
	if err != nil {
		return nil, err
	}
	services := compiled.Services
	x := &Expected{Image: map[string]*rootfs.Entry{}, Sysctls: r.Sysctls, Sockets: runtimeSockets}
	for _, e := range m.Root {
		x.Image["/"+e.Path] = e
	}
	x.Image["/"] = &rootfs.Entry{Kind: rootfs.Dir, Mode: 0o755, Origin: "builder", Reason: "the root"}
	// PID 1 binds its own file over the image's empty one.
	for _, e := range m.Early {
		if "/"+e.Path == initroot.Init {
			bound := *e
			x.Image[initroot.InitInRoot] = &bound
		}
	}
	if x.Files, err = fileRules(r); err != nil {
		return nil, err
	}
	x.Files = append(x.Files, volumeFiles(compiled)...)
	x.Mounts = append(mountRules(), volumeMounts(compiled)...)
	x.Cgroups = shares(services)
	x.Processes = append(serviceProcesses(services), podProcesses...)
	x.Processes = append(x.Processes, more...)
	return x, nil
}

// fileRules are the recipe's directories and the run-time list.
func fileRules(r *recipe.Recipe) ([]FileRule, error) {
	var all []FileRule
	for _, d := range r.Dirs {
		if d.Link != "" {
			all = append(all, FileRule{Path: d.Path, Type: link, Mode: 0o777, Link: d.Link, Need: true, Why: "recipe"})
			continue
		}
		mode, err := d.Perm()
		if err != nil {
			return nil, err
		}
		rule := FileRule{Path: d.Path, Type: dir, Mode: mode, Need: true, Why: "recipe"}
		for _, u := range r.Users {
			if u.Name == d.Owner {
				rule.Owner = fmt.Sprintf("%d:%d", u.UID, u.UID)
			}
		}
		all = append(all, rule)
	}
	return append(all, runtimeFiles...), nil
}

// volumeFiles are the directories of services' volumes, and where they are mounted.
func volumeFiles(c *pod.Compiled) []FileRule {
	var all []FileRule
	for _, v := range c.Volumes {
		dir := table.VolumeDir
		if v.Memory {
			dir = table.MemoryVolumeDir
		}
		if !slices.ContainsFunc(all, func(r FileRule) bool { return r.Path == dir }) {
			all = append(all, FileRule{Path: dir, Type: dir, Mode: 0o700, Need: true, Why: "volumes of services; only root can enter"},
				FileRule{Path: dir + "/**", Any: true, Why: "the same"})
		}
	}
	for _, s := range c.Services {
		for _, m := range s.Mounts {
			if strings.HasPrefix(m.Target, "/var/") || strings.HasPrefix(m.Target, "/run/") || strings.HasPrefix(m.Target, "/tmp/") {
				all = append(all, FileRule{Path: m.Target, Type: dir, Mode: 0o755, Need: true, Why: "a volume of " + s.Name + " is mounted there"})
			}
		}
	}
	return all
}

// volumeMounts are the volumes in memory. Where services see them is in mount
// namespaces of their own.
func volumeMounts(c *pod.Compiled) []MountRule {
	var all []MountRule
	for _, v := range c.Volumes {
		if v.Memory {
			all = append(all, MountRule{Target: v.Path, Type: "tmpfs", Options: "nosuid nodev", Need: true, Why: "volume of services"})
		}
	}
	return all
}

// mountRules are the mounts of PID 1 and those of the pods.
func mountRules() []MountRule {
	all := []MountRule{
		{Target: "/", Type: "erofs", Options: flagNames(initroot.Flags), Need: true, Why: "the root image"},
		{Target: initroot.InitInRoot, Type: "rootfs", Options: flagNames(initroot.InitFlags), Need: true, Why: "PID 1's own file, from the initramfs"},
	}
	for _, m := range slices.Concat(mounts.Early(), mounts.Base(), []mounts.Mount{mounts.Memory()}, mounts.EtcOverlay(etcDir), mounts.Later()) {
		if m.Type == "" || m.Source == "none" {
			continue // a change of propagation
		}
		rule := MountRule{Target: m.Target, Type: m.Type, Options: flagNames(m.Flags), Need: !m.Optional, Why: "PID 1"}
		for word := range strings.SplitSeq(m.Data, ",") {
			key, value, _ := strings.Cut(word, "=")
			switch {
			case key == "size":
				rule.Percent, _ = strconv.ParseInt(strings.TrimSuffix(value, "%"), 10, 64)
			case key == "nr_inodes":
				n, _ := strconv.ParseInt(strings.TrimSuffix(value, "k"), 10, 64)
				rule.Super = append(rule.Super, fmt.Sprintf("nr_inodes=%d", n<<10))
			case key == "gid", key == "nsdelegate", strings.HasSuffix(key, "dir"):
				rule.Super = append(rule.Super, word)
			}
			// The modes of the tops are seen in the files.
		}
		all = append(all, rule)
	}
	return append(all, podMounts...)
}

// flagNames are the names that mountinfo has for flags of mount(2).
func flagNames(flags uintptr) string {
	var names []string
	for _, f := range []struct {
		bit  uintptr
		name string
	}{{unix.MS_RDONLY, "ro"}, {unix.MS_NOSUID, "nosuid"}, {unix.MS_NODEV, "nodev"}, {unix.MS_NOEXEC, "noexec"}} {
		if flags&f.bit != 0 {
			names = append(names, f.name)
		}
	}
	return strings.Join(names, " ")
}

// shares are the files of the groups that PID 1 makes: its shares are a floor,
// and there is no ceiling.
func shares(services []table.Service) map[string]string {
	var groups []cgroup.Group
	for _, s := range services {
		groups = append(groups, cgroup.Group{Name: s.Name, Share: cgroup.Share{Weight: s.CPUWeight, Memory: s.MemoryMin}})
	}
	all := map[string]string{}
	for _, g := range cgroup.Shares(groups) {
		weight := g.Weight
		if weight == 0 {
			weight = 100 // the kernel's default
		}
		all[g.Name+"/cpu.weight"] = strconv.Itoa(weight)
		all[g.Name+"/memory.min"] = strconv.FormatInt(g.Memory, 10)
		all[g.Name+"/cpu.max"] = "max 100000"
		all[g.Name+"/memory.max"] = "max"
		all[g.Name+"/pids.max"] = "max"
	}
	return all
}

// reservedKiB is what the kubelet keeps from pods: kubeReserved and
// systemReserved in overlays/rootfs/kubelet/etc/kubernetes/kubelet.yaml.
const reservedKiB = 384 << 10

func serviceProcesses(services []table.Service) []ProcessRule {
	all := []ProcessRule{{Program: "init", UID: "0", GID: "0", Caps: "all", NoNewPrivs: "0", Seccomp: "0", OOM: "0", Cgroup: "/" + cgroup.OwnInit,
		Files: openFiles["init"], Need: true, Why: "PID 1"}}
	for _, s := range services {
		name := s.Command[0][strings.LastIndexByte(s.Command[0], '/')+1:]
		filter := "0"
		if s.Seccomp != nil {
			filter = "2"
		}
		all = append(all, ProcessRule{Program: name, Parent: "init", Args: strings.Join(s.Command, " "), UID: "0", GID: "0", Caps: "all", NoNewPrivs: "0", Seccomp: filter,
			OOM: strconv.Itoa(s.OOMScoreAdj), Cgroup: "/" + cgroup.Service(s.Name), Files: openFiles[name], Need: true, Why: "service"})
	}
	return all
}
