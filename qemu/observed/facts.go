package observed

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Fact is one observation: what is looked at, and what was seen.
type Fact struct{ Key, Value string }

// Pod is a pod's manifest and what its world says of its status; Status is nil if
// the world does not know the pod.
type Pod struct {
	Spec   *corev1.Pod
	Status *corev1.PodStatus
}

// Facts are the observations of one world, in the order of the manifests. Numbers that
// are another in each run (times, ids) are in none of them.
func Facts(r *Report, pods []Pod) []Fact {
	var out []Fact
	for _, p := range pods {
		f := facts{report: r, pod: p.Spec.Name}
		f.order(p.Spec)
		f.ends(p.Spec)
		for _, c := range slices.Concat(p.Spec.Spec.InitContainers, p.Spec.Spec.Containers) {
			f.container(c)
		}
		f.status(p)
		out = append(out, f.list...)
	}
	return out
}

type facts struct {
	report *Report
	pod    string
	list   []Fact
}

func (f *facts) add(container, what, format string, args ...any) {
	key := f.pod
	if container != "" {
		key += "/" + container
	}
	f.list = append(f.list, Fact{key + ": " + what, fmt.Sprintf(format, args...)})
}

// events are those of a container, in order.
func (f *facts) events(container string) []Event {
	var out []Event
	for _, e := range f.report.Events {
		if e.Who == f.pod+"/"+container {
			out = append(out, e)
		}
	}
	return out
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func (f *facts) container(c corev1.Container) {
	events := f.events(c.Name)
	if len(events) == 0 {
		f.add(c.Name, "life", "never started")
		return
	}
	f.add(c.Name, "life", "%s", life(events))
	f.postStart(c.Name, events)
	f.pauses(c.Name, events)
	for _, e := range events {
		if e.Look != nil {
			f.look(c, e.Look)
			break // later runs are as the first
		}
	}
}

// volatile are variables whose values are another in each run.
var volatile = []string{"INVOCATION_ID", "JOURNAL_STREAM", "SYSTEMD_EXEC_PID", "MEMORY_PRESSURE_WATCH", "MEMORY_PRESSURE_WRITE"}

func (f *facts) look(c corev1.Container, l *Look) {
	add := func(what, format string, args ...any) { f.add(c.Name, what, format, args...) }
	groups := slices.DeleteFunc(slices.Clone(l.Groups), func(g int) bool { return g == l.GID })
	add("user, group, other groups", "%d:%d %v", l.UID, l.GID, groups)
	for _, s := range []struct{ key, name string }{{"CapBnd", "bounding"}, {"CapEff", "effective"}, {"CapPrm", "permitted"}, {"CapInh", "inheritable"}, {"CapAmb", "ambient"}} {
		add(s.name+" capabilities", "%s", capabilities(l.Status[s.key]))
	}
	add("no_new_privs", "%s", l.Status["NoNewPrivs"])
	add("seccomp", "%s", map[string]string{"0": "none", "2": "filter"}[l.Status["Seccomp"]])
	add("umask", "%04o", l.Umask)
	add("working directory", "%s", l.Dir)
	if args := l.Args; slices.Contains(args, "--") {
		add("arguments", "%q", args[slices.Index(args, "--")+1:])
	}
	for _, kv := range l.Env {
		name, value, _ := strings.Cut(kv, "=")
		if slices.Contains(volatile, name) {
			value = "(set)"
		} else {
			value = strconv.Quote(value)
		}
		add("variable "+name, "%s", value)
	}
	add("name of the machine", "%s", l.Hostname)
	for _, n := range []string{"net", "ipc", "uts"} {
		add(n+" namespace", "%s", f.whose(c.Name, n, l.Namespaces[n]))
	}
	if l.Namespaces["net"] != f.report.Namespaces["net"] { // the machine's are also those of other pods
		add("network interfaces", "%s", strings.Join(l.Interfaces, ", "))
	}
	// Its number may be that of another, which has ended: nobody holds a container's.
	add("has the machine's PID namespace", "%s", yes(l.Namespaces["pid"] == f.report.Namespaces["pid"]))
	add("is process 1", "%s", yes(l.First))
	add("sees the machine's processes", "%s", yes(l.Processes))
	add("oom_score_adj", "%s", score(l.OOM))
	add("standard input", "%s", l.Stdin)
	add("writing to /", "%s", l.Root)
	add("opening /dev/kmsg", "%s", l.Devices)
	add("setting a kernel parameter", "%s", l.Sysctl)
	for _, m := range c.VolumeMounts {
		p, ok := l.Paths[m.MountPath]
		if !ok {
			continue
		}
		add(m.MountPath, "%s %s on %s, writing: %s", p.Mode, p.Owner, p.Type, p.Write)
		var names []string
		for n := range p.Files {
			names = append(names, n)
		}
		slices.Sort(names)
		for _, n := range names {
			add(m.MountPath+"/"+n, "%s", strconv.Quote(p.Files[n]))
		}
	}
}

// score is an oom_score_adj; one that a kubelet makes of a container's and the machine's
// memory is another on each machine.
func score(s string) string {
	if n, err := strconv.Atoi(s); err == nil && n > 2 && n < 999 {
		return "by its share of the memory"
	}
	return s
}

// whose is a namespace in words: the machine's, shared within the pod, or the container's own.
func (f *facts) whose(container, kind, id string) string {
	if f.report.Namespaces[kind] == id {
		return "the machine's"
	}
	for _, e := range f.report.Events {
		pod, other, _ := strings.Cut(e.Who, "/")
		if e.Look != nil && pod == f.pod && other != container && e.Look.Namespaces[kind] == id {
			return "the pod's"
		}
	}
	return "of no other container"
}

// capabilityNames are in the order of their numbers (capabilities(7)).
var capabilityNames = strings.Fields(`CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE
	NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN
	SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG
	WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE`)

func capabilities(hex string) string {
	mask, err := strconv.ParseUint(hex, 16, 64)
	if err != nil {
		return "unreadable: " + strconv.Quote(hex)
	}
	var names []string
	for i, n := range capabilityNames {
		if mask&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	switch len(names) {
	case 0:
		return "none"
	case len(capabilityNames):
		return "all"
	}
	return strings.Join(names, " ")
}

// status is what the world itself says of the pod.
func (f *facts) status(p Pod) {
	if p.Status == nil {
		f.add("", "status", "unknown")
		return
	}
	f.add("", "phase", "%s", p.Status.Phase)
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady || c.Type == corev1.PodInitialized {
			f.add("", "condition "+string(c.Type), "%s", c.Status)
		}
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if loops(f.events(c.Name)) { // whatever it does just now
			f.add(c.Name, "state", "fails again and again")
			f.add(c.Name, "restarts", "2 or more")
			f.add(c.Name, "ready", "%s", yes(c.Ready))
			continue
		}
		f.add(c.Name, "state", "%s", state(c.State))
		if c.LastTerminationState.Terminated != nil {
			f.add(c.Name, "state before", "%s", state(c.LastTerminationState))
		}
		f.add(c.Name, "restarts", "%d", c.RestartCount)
		f.add(c.Name, "ready", "%s", yes(c.Ready))
	}
}

func state(s corev1.ContainerState) string {
	switch {
	case s.Running != nil:
		return "running"
	case s.Terminated != nil:
		return fmt.Sprintf("terminated: %d %s", s.Terminated.ExitCode, s.Terminated.Reason)
	case s.Waiting != nil:
		return "waiting: " + s.Waiting.Reason
	}
	return "none"
}
