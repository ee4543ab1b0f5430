package contents

import "garboard.local/contents/observed"

// FileRule allows files that the image does not have.
type FileRule struct {
	Path  string // a pattern
	Type  string // of package observed; "" = any
	Mode  uint32 // permission bits with setuid, setgid and sticky
	Owner string // "0:4"; "" = 0:0
	Link  string // pattern of a symlink's target
	Any   bool   // mode and owner are whatever their maker likes, below a directory that only root can enter
	Need  bool   // there must be one
	Why   string
}

const (
	file = observed.Regular
	dir  = observed.Dir
	link = observed.Symlink
	sock = observed.Unix
	char = observed.Char
)

// runtimeFiles are what appears on the writable file systems of a running node,
// beside the directories that the recipe names. The first rule that fits a path counts.
var runtimeFiles = []FileRule{
	// PID 1.
	{Path: "/run/system.sock", Type: sock, Mode: 0o600, Need: true, Why: "the system socket: shutdown, reboot, restarts; for root alone"},
	{Path: "/run/garboard", Type: dir, Mode: 0o755, Need: true, Why: "what PID 1 keeps until the end"},
	{Path: "/run/garboard/restart.sock", Type: sock, Mode: 0o666, Need: true, Why: "takes restarts only; who may mount it is the grant"},
	{Path: "/run/garboard/kubelet-grace", Type: file, Mode: 0o644, Need: true, Why: "the kubelet tells PID 1 how long it needs at the end"},
	{Path: "/run/garboard/services.json", Type: file, Mode: 0o644, Need: true, Why: "how each service is, and how it ended the last time"},
	{Path: "/run/garboard/.services.json", Type: file, Mode: 0o644, Why: "the same, while it is written"},
	{Path: "/run/garboard/etc", Type: dir, Mode: 0o755, Why: "the writable half of /etc, without a data partition"},
	{Path: "/run/garboard/etc/**", Any: true, Why: "the same files as in /etc, and overlayfs' own; seen and compared there"},
	{Path: "/etc/machine-id", Type: file, Mode: 0o444, Need: true, Why: "made by PID 1 where the image has none"},
	{Path: "/var/lib", Type: dir, Mode: 0o755, Need: true, Why: "holds what is below"},
	{Path: "/var/log", Type: dir, Mode: 0o755, Need: true, Why: "holds what is below"},
	{Path: "/var/log/garboard", Type: dir, Mode: 0o755, Need: true, Why: "logs of PID 1 and its services"},
	{Path: "/var/log/garboard/*", Type: file, Mode: 0o640, Owner: "0:4", Need: true, Why: "readable by group adm: the node pod"},

	// The container runtime.
	{Path: "/run/crio/crio.sock", Type: sock, Mode: 0o660, Need: true, Why: "the kubelet's way to cri-o; who can open it is root on the node"},
	{Path: "/run/crio/version", Type: file, Mode: 0o644, Why: "cri-o notices a reboot by it"},
	{Path: "/run/crio/exits", Type: dir, Mode: 0o755, Why: "conmon leaves exit statuses here"},
	{Path: "/run/crio/exits/*", Type: file, Mode: 0o644, Why: "an exit status that cri-o has not read yet"},
	{Path: "/run/crio/exec-pid-dir", Type: dir, Mode: 0o750, Why: "pids of commands executed in containers"},
	{Path: "/run/crio/seccomp", Type: dir, Mode: 0o700, Why: "sockets of seccomp notifiers"},
	{Path: "/run/crio/{id}", Type: link, Mode: 0o777, Link: "/run/containers/storage/overlay-containers/{id}/userdata", Why: "a short path to a container's attach socket"},
	{Path: "/run/nri", Type: dir, Mode: 0o700, Why: "cri-o's node resource interface"},
	{Path: "/run/nri/nri.sock", Type: sock, Mode: 0o755, Why: "the same; behind a directory that only root can enter"},
	{Path: "/run/containers", Type: dir, Mode: 0o700, Need: true, Why: "state of containers; only root can enter"},
	{Path: "/run/containers/**", Any: true, Why: "bundles, attach sockets, FIFOs and /dev/shm of containers"},
	{Path: "/run/crun", Type: dir, Mode: 0o700, Need: true, Why: "crun's state; only root can enter"},
	{Path: "/run/crun/**", Any: true, Why: "configuration, status and seccomp program of each container"},
	{Path: "/run/cni/**", Any: true, Why: "addresses of pods; behind a directory that only root can enter"},
	{Path: "/run/ipcns", Type: dir, Mode: 0o755, Why: "namespaces of pods, pinned"},
	{Path: "/run/netns", Type: dir, Mode: 0o755, Why: "namespaces of pods, pinned"},
	{Path: "/run/pidns", Type: dir, Mode: 0o755, Why: "namespaces of pods, pinned"},
	{Path: "/run/userns", Type: dir, Mode: 0o755, Why: "namespaces of pods, pinned"},
	{Path: "/run/utsns", Type: dir, Mode: 0o755, Why: "namespaces of pods, pinned"},
	{Path: "/run/*ns/{id}", Type: file, Mode: 0o444, Need: true, Why: "one namespace of one pod"},
	{Path: "/run/xtables.lock", Type: file, Mode: 0o600, Why: "lock of the iptables commands"},
	{Path: "/etc/crio/auth", Type: dir, Mode: 0o755, Why: "credentials for registries, by namespace of pods; made by cri-o, empty"},
	{Path: "/etc/crio/policies", Type: dir, Mode: 0o755, Why: "signature policies, by namespace of pods; made by cri-o, empty"},
	{Path: "/var/lib/containers", Type: dir, Mode: 0o755, Why: "holds what is below"},
	{Path: "/var/lib/containers/storage/**", Any: true, Why: "layers of containers; behind a directory that only root can enter. Images that are pulled may bring setuid programs, for their containers alone"},
	{Path: "/var/lib/garboard/images/**", Any: true, Why: "the runtime's store of images that came with a disk image, without one empty but for lock files; behind a directory that only root can enter"},
	{Path: "/var/lib/crio/clean.shutdown*", Type: file, Mode: 0o644, Why: "cri-o's mark of an orderly end"},

	// The kubelet.
	{Path: "/var/lib/kubelet/**", Any: true, Why: "state, volumes and sockets of plugins and pods; behind a directory that only root can enter"},
	{Path: "/var/log/pods/*", Type: dir, Mode: 0o755, Need: true, Why: "logs of one pod"},
	{Path: "/var/log/pods/*/*", Type: dir, Mode: 0o755, Need: true, Why: "logs of one container"},
	{Path: "/var/log/pods/*/*/*", Type: file, Mode: 0o600, Need: true, Why: "what one run of it wrote"},
	{Path: "/var/log/containers/*", Type: link, Mode: 0o777, Link: "/var/log/pods/*/*/*", Need: true, Why: "names by which log collectors find those files"},
	{Path: "/var/opt", Type: dir, Mode: 0o755, Why: "holds what is below"},
	{Path: "/var/opt/cni", Type: dir, Mode: 0o755, Why: "holds what is below"},
	{Path: "/var/log/crio", Type: dir, Mode: 0o755, Why: "holds what is below"},

	// Tops of mounts that the image has no directory for.
	{Path: "/dev/pts", Type: dir, Mode: 0o755, Need: true, Why: "terminals of containers with one, as the node sees them"},
	{Path: "/dev/shm", Type: dir, Mode: 0o1777, Need: true, Why: "shared memory of the node's own processes"},
	{Path: "/dev/mqueue", Type: dir, Mode: 0o1777, Why: "message queues of the node's own processes"},
	{Path: "/sys/fs/cgroup", Type: dir, Mode: 0o555, Need: true, Why: "control groups"},
	{Path: "/sys/fs/bpf", Type: dir, Mode: 0o1700, Why: "pinned BPF objects of network plugins"},
	{Path: "/sys/kernel/tracing", Type: dir, Mode: 0o700, Why: "tracing, for root alone"},
	{Path: "/sys/kernel/security", Type: dir, Mode: 0o755, Why: "security modules' state"},

	// The kernel's devices.
	{Path: "/dev/null", Type: char, Mode: 0o666, Need: true, Why: "for everybody, by its nature"},
	{Path: "/dev/zero", Type: char, Mode: 0o666, Need: true, Why: "for everybody, by its nature"},
	{Path: "/dev/full", Type: char, Mode: 0o666, Need: true, Why: "for everybody, by its nature"},
	{Path: "/dev/random", Type: char, Mode: 0o666, Need: true, Why: "for everybody, by its nature"},
	{Path: "/dev/urandom", Type: char, Mode: 0o666, Need: true, Why: "for everybody, by its nature"},
	{Path: "/dev/tty", Type: char, Mode: 0o666, Need: true, Why: "the terminal of whoever opens it"},
	{Path: "/dev/ptmx", Type: char, Mode: 0o666, Need: true, Why: "makes terminals"},
	{Path: "/dev/pts/ptmx", Type: char, Mode: 0o666, Need: true, Why: "makes terminals"},
	{Path: "/dev/kmsg", Type: char, Mode: 0o644, Need: true, Why: "the kernel log; `kernel.dmesg_restrict` asks for CAP_SYSLOG"},
	{Path: "/dev/fd", Type: link, Mode: 0o777, Link: "/proc/self/fd", Why: "usual name"},
	{Path: "/dev/std*", Type: link, Mode: 0o777, Link: "fd/*", Why: "usual name"},
	{Path: "/dev/*", Type: char, Mode: 0o600, Why: "devices of this machine, for root alone"},
	{Path: "/dev/*", Type: observed.Block, Mode: 0o600, Why: "disks and loop devices, for root alone"},
	{Path: "/dev/*", Type: dir, Mode: 0o755, Why: "groups of devices"},
	{Path: "/dev/*/*", Type: char, Mode: 0o600, Why: "devices of this machine, for root alone"},
}

// written are files of the image whose content PID 1 replaces; their modes stay.
var written = []string{"/etc/hosts", "/etc/resolv.conf"}

// SocketRule allows a socket that others can reach.
type SocketRule struct {
	Network string
	Address string // a pattern
	Owner   string // command name
	Need    bool
	Why     string
}

// runtimeSockets are those in the node's network namespace. A unix socket is
// listed by the path it was bound to; where that is not the path at which it is
// reached, it has been renamed, so that it never is there without its mode.
var runtimeSockets = []SocketRule{
	{"tcp", "127.0.0.1:*", "crio", true, "streams of exec, attach and port-forward, which clients reach through the kubelet"},
	{"unix", "/run/.s*/s", "init", true, "became /run/system.sock; the peer's pid and uid are asked for"},
	{"unix", "/run/garboard/.s*/s", "init", true, "became /run/garboard/restart.sock; the peer's pid and uid are asked for"},
	{"unix", "/run/crio/crio.sock", "crio", true, "CRI, for the kubelet"},
	{"unix", "/var/run/nri/nri.sock", "crio", false, "node resource interface"},
	{"unix", "/run/crio/seccomp/*", "crio", false, "seccomp notifiers of containers that ask for one"},
	{"unix", "/var/lib/kubelet/pod-resources/*", "kubelet", false, "which devices pods have"},
	{"unix", "/var/lib/kubelet/device-plugins/kubelet.sock", "kubelet", false, "device plugins register here"},
	{"unix", "/proc/self/fd/*/attach", "conmon", true, "a container's terminal and output, for cri-o; behind a directory that only root can enter"},
	{"packet", "ethertype 0800", "init", false, "DHCP, while it asks"},
	{"udp", "*:68", "init", false, "DHCP, while it renews"},
}

// ProcessRule allows a process. An empty field fits anything.
type ProcessRule struct {
	Program, Parent string
	Args            string // how the command line begins
	UID, GID        string
	Caps            string // effective: all, none, or the number as /proc has it
	NoNewPrivs      string // 0 or 1
	Seccomp         string // 0 = none, 2 = filter
	OOM             string // oom_score_adj
	Cgroup          string // a pattern
	Files           string // limit of open files
	Need            bool
	Why             string
}

const allCaps = "000001ffffffffff" // 41 capabilities, Linux 5.9 and later

// podProcesses are those of the pods that every node has; the services' rules
// come from the recipe.
var podProcesses = []ProcessRule{
	{Program: "conmon", Parent: "init", UID: "0", GID: "0", Caps: "all", NoNewPrivs: "0", Seccomp: "0", OOM: "-1000", Cgroup: "/kubepods/**", Files: "1024/524288", Need: true,
		Why: "one for each container: its exit status and its log"},
	{Program: "nodelogs", Parent: "conmon", UID: "65534", GID: "4", Caps: "none", NoNewPrivs: "1", Seccomp: "2", OOM: "-997", Cgroup: "/kubepods/**", Need: true,
		Why: "the node pod: logs of PID 1 and the services"},
	{Program: "hello", Parent: "conmon", UID: "65534", GID: "0", Caps: "none", NoNewPrivs: "1", Seccomp: "2", OOM: "1000", Cgroup: "/kubepods/**", Need: true,
		Why: "static pod that shows the node works"},
}

// openFiles are the limits that services end up with: Go programs raise the soft
// one to the hard, the kubelet sets its own (maxOpenFiles).
var openFiles = map[string]string{"init": "1024/524288", "crio": "524287/524288", "kubelet": "1000000/1000000"}

// MountRule allows a mount.
type MountRule struct {
	Target  string // a pattern
	Type    string
	Options string   // of the mount, without rw and the policy on access times
	Super   []string // what the file system's options must hold
	Percent int64    // its size, of the memory; 0 = not compared
	Private bool     // what is mounted below does not reach others
	Need    bool
	Why     string
}

// podMounts are those that the runtime and the kubelet make.
var podMounts = []MountRule{
	{Target: "/run/*ns/{id}", Type: "nsfs", Why: "a pod's pinned namespace"},
	{Target: "/var/lib/containers/storage/overlay", Type: "tmpfs", Options: "nosuid nodev", Private: true, Why: "a bind mount: layers are not shared with others' namespaces"},
	{Target: "/var/lib/containers/storage/overlay/{id}/merged", Type: "overlay", Private: true, Need: true,
		Why: "a container's root; programs in it may be setuid, unlike in a volume, and its processes have no_new_privs if the pod says so"},
	{Target: "/run/containers/storage/overlay-containers/{id}/userdata/shm", Type: "tmpfs", Options: "nosuid nodev noexec", Why: "a pod's /dev/shm"},
	{Target: "/var/lib/kubelet/pods/{id}/volumes/**", Type: "tmpfs", Why: "volumes in memory"},
}
