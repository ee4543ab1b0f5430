// Package observed is what somebody inside a running node saw of it, as the
// tester pod tells the host. It depends on the standard library alone.
package observed

import "fmt"

// Node is one look at a node.
type Node struct {
	MemTotal  int64             `json:"memTotal"` // KiB, of /proc/meminfo
	Files     []File            `json:"files"`
	Mounts    []Mount           `json:"mounts"`
	Sysctls   map[string]string `json:"sysctls"` // key in sysctl(8)'s notation, "/" where an interface may have a dot
	Cgroups   map[string]string `json:"cgroups"` // "garboard/init/cpu.weight"
	Sockets   []Socket          `json:"sockets"`
	Processes []Process         `json:"processes"`
}

// Types of files, as in find(1)'s -type.
const (
	Regular = "f"
	Dir     = "d"
	Symlink = "l"
	Char    = "c"
	Block   = "b"
	Unix    = "s"
	FIFO    = "p"
)

// File is one path of the node's mount namespace.
type File struct {
	Path   string `json:"path"` // absolute
	Type   string `json:"type"`
	Mode   uint32 `json:"mode"` // permission bits with setuid, setgid and sticky
	UID    int    `json:"uid,omitempty"`
	GID    int    `json:"gid,omitempty"`
	Size   int64  `json:"size,omitempty"`   // of regular files, bytes
	Link   string `json:"link,omitempty"`   // target of a symlink
	SHA256 string `json:"sha256,omitempty"` // of regular files up to HashLimit on the root image and /etc
}

// HashLimit is the size in bytes up to which files are hashed: under emulation
// the large ones would take minutes.
const HashLimit = 64 << 10

func (f File) String() string {
	s := fmt.Sprintf("%s %04o %d:%d", f.Type, f.Mode, f.UID, f.GID)
	if f.Link != "" {
		s += " -> " + f.Link
	}
	return s
}

// Mount is one line of PID 1's mountinfo.
type Mount struct {
	Target  string `json:"target"`
	Type    string `json:"type"`
	Options string `json:"options"` // of the mount: rw,nosuid,nodev
	Super   string `json:"super"`   // of the file system: rw,size=...
	Shared  bool   `json:"shared"`
}

// Socket is one that others can reach: listening, or bound without a peer.
type Socket struct {
	Network string `json:"network"` // tcp, tcp6, udp, udp6, raw, raw6, unix, packet
	Address string `json:"address"` // 127.0.0.1:80; a path; @name of the abstract namespace; a protocol number
	Owner   string `json:"owner"`   // command name of a process that has it open
}

// Process is one of user space that was there for some seconds.
type Process struct {
	PID        int    `json:"pid"`
	Program    string `json:"program"` // base name of the executable
	Parent     string `json:"parent"`  // its parent's
	Args       string `json:"args"`
	UID        string `json:"uid"` // effective
	GID        string `json:"gid"`
	CapEff     string `json:"capEff"`
	NoNewPrivs string `json:"noNewPrivs"`
	Seccomp    string `json:"seccomp"` // 0 none, 2 filter
	OOM        string `json:"oom"`     // oom_score_adj
	Cgroup     string `json:"cgroup"`
	Files      string `json:"files"` // limit of open files, soft/hard
}
