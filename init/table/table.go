// Package table is the contract between the builder and PID 1: one JSON file
// in the root image that says everything the node was decided to be at build
// time. The builder writes it from the recipe; PID 1 only carries it out.
// It depends on the standard library alone.
package table

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Path is where the table lies in the root image.
const Path = "/usr/lib/garboard/node.json"

// Table is what PID 1 reads once, at boot.
type Table struct {
	Version   int       `json:"version"`            // 1
	Name      string    `json:"name"`               // recipe name and architecture, for the console
	BuildTime time.Time `json:"buildTime"`          // the clock is never earlier than this
	Hostname  string    `json:"hostname,omitempty"` // default; DHCP and /etc/hostname come first
	NTP       []string  `json:"ntp,omitempty"`      // time servers, asked after those of DHCP
	Watchdog  string    `json:"watchdog,omitempty"` // words for package watchdog's Parse
	// Modules are loaded at boot in this order, dependencies included by modules.dep.
	Modules []string `json:"modules,omitempty"`
	// Sysctls are written below /proc/sys in this order ("net.ipv4.ip_forward").
	Sysctls []Sysctl `json:"sysctls,omitempty"`
	// Dirs are made on the writable file systems, parents first.
	Dirs []Dir `json:"dirs,omitempty"`
	// Volumes are made before any service starts.
	Volumes  []Volume  `json:"volumes,omitempty"`
	Services []Service `json:"services"`
}

// Sysctl is one kernel parameter in sysctl.conf(5) notation.
type Sysctl struct {
	Key      string `json:"key"`
	Value    string `json:"value"`
	Optional bool   `json:"optional,omitempty"` // a kernel without it is fine
}

// Dir is a directory to make on a writable file system, or a symbolic link.
type Dir struct {
	Path string      `json:"path"`
	Link string      `json:"link,omitempty"` // make a link to this instead
	Mode os.FileMode `json:"mode"`           // permission bits, sticky and setgid as package os has them
	UID  int         `json:"uid,omitempty"`
	GID  int         `json:"gid,omitempty"`
}

// FileMode is the mode with the given bits of chmod(2), whose sticky and setgid
// bits are not where package os has its own.
func FileMode(bits uint32) os.FileMode {
	m := os.FileMode(bits & 0o777)
	if bits&0o1000 != 0 {
		m |= os.ModeSticky
	}
	if bits&0o2000 != 0 {
		m |= os.ModeSetgid
	}
	return m
}

// Restart policies, as in a Pod's spec.restartPolicy.
const (
	RestartAlways    = "Always"
	RestartOnFailure = "OnFailure"
	RestartNever     = "Never"
)

// Roles a service can have. At most one service has each.
const (
	RoleRuntime = "runtime" // started first; socket command 0x04 restarts it
	RoleKubelet = "kubelet" // may hold the shutdown lock; socket command 0x03 restarts it
)

// Service is one process that PID 1 keeps running.
type Service struct {
	Name    string   `json:"name"`
	Role    string   `json:"role,omitempty"`
	Command []string `json:"command"` // argv; argv[0] is an absolute path
	Env     []string `json:"env,omitempty"`
	Dir     string   `json:"dir,omitempty"`
	Restart string   `json:"restart"`
	// GraceSeconds lie between the order to end and SIGKILL, MinGraceSeconds at least.
	GraceSeconds int `json:"graceSeconds"`
	// After names services that must be ready before this one starts; it is
	// started anyway, with a warning, once WaitSeconds have passed.
	After       []string `json:"after,omitempty"`
	WaitSeconds int      `json:"waitSeconds,omitempty"`
	// Startup must succeed before Ready and Live are tried. If it or Live fails
	// too often in a row the process is ended by its grace; Restart decides what then.
	Startup     *Probe `json:"startup,omitempty"`
	Live        *Probe `json:"live,omitempty"`
	Ready       *Probe `json:"ready,omitempty"`
	OOMScoreAdj int    `json:"oomScoreAdj,omitempty"`
	CPUWeight   int    `json:"cpuWeight,omitempty"` // cpu.weight of its cgroup, 1 to 10000
	MemoryMin   int64  `json:"memoryMin,omitempty"` // memory.min of its cgroup, bytes
	MemoryMax   int64  `json:"memoryMax,omitempty"` // memory.max of its cgroup, bytes
	CPUMilli    int64  `json:"cpuMilli,omitempty"`  // cpu.max of its cgroup, thousandths of a CPU
	// Once makes it a task that has to end with status 0; it is not started again then.
	Once bool `json:"once,omitempty"`
	// Requires names tasks that must have ended with status 0 before this one
	// starts, and sidecars that must have started by then. Unlike After this is not
	// waived: if a task has failed for good, this one is never started.
	Requires []string `json:"requires,omitempty"`
	// Pod names the pod whose services begin and end together; "" is one of its own.
	Pod string `json:"pod,omitempty"`
	// Sidecar says that it ends after the others of its pod, the last one first, and
	// when they have ended. It has started once its postStart hook and its startup
	// probe have succeeded.
	Sidecar    bool  `json:"sidecar,omitempty"`
	PostStart  *Hook `json:"postStart,omitempty"`
	PreStop    *Hook `json:"preStop,omitempty"`    // GraceSeconds are for it and for what follows
	StopSignal int   `json:"stopSignal,omitempty"` // in place of SIGTERM; 0 = that

	// What package launch gives the process before it becomes the command.
	Root            *Root     `json:"root,omitempty"`  // null = the node's
	User            string    `json:"user,omitempty"`  // name or number; "" = 0
	Group           string    `json:"group,omitempty"` // name or number; "" = the user's, 0 for a number
	Groups          []uint32  `json:"groups,omitempty"`
	Capabilities    *[]string `json:"capabilities,omitempty"` // bounding set, names without CAP_; null = all
	Ambient         []string  `json:"ambient,omitempty"`
	NoNewPrivileges bool      `json:"noNewPrivileges,omitempty"`
	Limits          []RLimit  `json:"limits,omitempty"`
	Seccomp         *Seccomp  `json:"seccomp,omitempty"` // null = none
	// Mounts are made in a mount namespace of the process's own, in this order.
	// What the node mounts later is seen in it; what is mounted in it is not seen outside.
	// With a Root the targets lie in that; the sources are always the node's.
	Mounts []Mount `json:"mounts,omitempty"`
}

// Mount is a bind mount of a directory or, with File, of something else.
type Mount struct {
	Source string `json:"source"`
	// Sub is a path in Source; symbolic links on its way may not lead out of Source.
	Sub      string `json:"sub,omitempty"`
	Target   string `json:"target"`
	ReadOnly bool   `json:"readOnly,omitempty"`
	File     bool   `json:"file,omitempty"`
	// Private says that what the node mounts in it later is not seen.
	Private bool `json:"private,omitempty"`
}

// Where volumes lie, and nothing else.
const (
	VolumeDir       = "/var/lib/garboard/pods"
	MemoryVolumeDir = "/run/garboard/pods"
)

// Volume is a directory that services share, empty at each boot. Its mode is 0777, with
// the sticky bit in memory, as a kubelet's.
type Volume struct {
	Path   string `json:"path"`             // below VolumeDir or, with Memory, MemoryVolumeDir
	Memory bool   `json:"memory,omitempty"` // a tmpfs of its own
	// Size of a tmpfs, bytes; 0 = a tenth of the memory.
	Size int64 `json:"size,omitempty"`
	// Dirs are made in it, absolute paths.
	Dirs []string `json:"dirs,omitempty"`
	// Group owns it and its Dirs, and with the set-group-ID bit all that is made in
	// them; null = root's, without the bit.
	Group *uint32 `json:"group,omitempty"`
}

// RLimit is a resource limit by the name that Limit knows.
type RLimit struct {
	Name string `json:"name"`
	Soft uint64 `json:"soft"`
	Hard uint64 `json:"hard"`
}

// Unlimited is no limit (RLIM_INFINITY).
const Unlimited = ^uint64(0)

// Probe asks a service for its state. Exactly one of Exec, TCP and Unix is set.
type Probe struct {
	Exec          []string `json:"exec,omitempty"`        // exit status 0 = ready
	TCP           string   `json:"tcp,omitempty"`         // host:port that accepts a connection
	Unix          string   `json:"unix,omitempty"`        // socket path that accepts a connection
	PeriodMillis  int      `json:"periodMillis"`          // between two attempts
	TimeoutMillis int      `json:"timeoutMillis"`         // of one attempt
	DelayMillis   int      `json:"delayMillis,omitempty"` // before the first
	Successes     int      `json:"successes,omitempty"`   // in a row that are enough; 0 = 1
	Failures      int      `json:"failures,omitempty"`    // in a row that are too many; 0 = never
}

// Load reads and checks a table.
func Load(path string) (*Table, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var t Table
	if err := json.Unmarshal(b, &t); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &t, errors.Join(t.Check(), t.Resolved())
}

// Check reports the first rule of this package that the table breaks.
func (t *Table) Check() error {
	if t.Version != 1 {
		return fmt.Errorf("node table: version %d, this init reads version 1", t.Version)
	}
	for _, v := range t.Volumes {
		if err := v.check(); err != nil {
			return fmt.Errorf("volume %s: %w", v.Path, err)
		}
	}
	seen, tasks := map[string]bool{}, map[string]bool{}
	roles := map[string]string{}
	for _, s := range t.Services {
		switch {
		case s.Name == "":
			return fmt.Errorf("node table: a service has no name")
		case seen[s.Name]:
			return fmt.Errorf("node table: two services are named %q", s.Name)
		case len(s.Command) == 0 || s.Command[0] == "" || s.Command[0][0] != '/':
			return fmt.Errorf("service %s: command must begin with an absolute path", s.Name)
		case s.Restart != RestartAlways && s.Restart != RestartOnFailure && s.Restart != RestartNever:
			return fmt.Errorf("service %s: restart policy %q is not one of Always, OnFailure, Never", s.Name, s.Restart)
		case s.CPUWeight < 0 || s.CPUWeight > 10000 || s.MemoryMin < 0:
			return fmt.Errorf("service %s: a CPU weight is 1 to 10000, a memory minimum not negative", s.Name)
		case s.MemoryMax < 0 || s.CPUMilli < 0:
			return fmt.Errorf("service %s: a limit of memory or CPU is negative", s.Name)
		case s.Once && (s.Startup != nil || s.Live != nil || s.Ready != nil):
			return fmt.Errorf("service %s: a task is ready when it has ended; it has no probes", s.Name)
		case s.Once && s.Role != "":
			return fmt.Errorf("service %s: a task that ends cannot be the %s", s.Name, s.Role)
		case s.GraceSeconds < 0:
			return fmt.Errorf("service %s: negative grace", s.Name)
		case s.Role != "" && roles[s.Role] != "":
			return fmt.Errorf("services %s and %s both have the role %q", roles[s.Role], s.Name, s.Role)
		}
		for _, a := range s.After {
			if !seen[a] {
				return fmt.Errorf("service %s: comes after %q, which is not defined before it", s.Name, a)
			}
		}
		if err := s.check(tasks); err != nil {
			return fmt.Errorf("service %s: %w", s.Name, err)
		}
		seen[s.Name], tasks[s.Name], roles[s.Role] = true, s.Once || s.Sidecar, s.Name
	}
	return nil
}

// check demands that a volume is where its directory may be removed with all in it.
func (v Volume) check() error {
	parent := VolumeDir
	if v.Memory {
		parent = MemoryVolumeDir
	}
	if path.Clean(v.Path) != v.Path || !strings.HasPrefix(v.Path, parent+"/") {
		return fmt.Errorf("is not below %s", parent)
	}
	for _, d := range v.Dirs {
		if path.Clean(d) != d || !strings.HasPrefix(d, v.Path+"/") {
			return fmt.Errorf("%s is not in it", d)
		}
	}
	if v.Size < 0 || v.Size > 0 && !v.Memory {
		return fmt.Errorf("a size of %d bytes; sizes are of volumes in memory", v.Size)
	}
	return nil
}

// check looks at what the process is given, and at the tasks and sidecars it needs.
func (s *Service) check(tasks map[string]bool) error {
	if err := s.checkEnd(); err != nil {
		return err
	}
	for _, r := range s.Requires {
		if !tasks[r] {
			return fmt.Errorf("requires %q, which is no task defined before it, nor a sidecar", r)
		}
	}
	for _, m := range s.Mounts {
		for _, p := range []string{m.Source, m.Target} {
			if !path.IsAbs(p) || path.Clean(p) != p {
				return fmt.Errorf("mount of %s at %s: %q is not a clean absolute path", m.Source, m.Target, p)
			}
		}
		if m.Target == "/" {
			return fmt.Errorf("mount of %s: nothing is mounted over /", m.Source)
		}
		if m.Sub != "" && (path.Clean(m.Sub) != m.Sub || !filepath.IsLocal(m.Sub)) {
			return fmt.Errorf("mount of %s at %s: %q is not a path inside", m.Source, m.Target, m.Sub)
		}
	}
	if err := s.Root.Check(); err != nil {
		return err
	}
	names := slices.Clone(s.Ambient)
	if s.Capabilities != nil {
		names = append(names, *s.Capabilities...)
	}
	for _, c := range names {
		if Capability(c) < 0 {
			return fmt.Errorf("%q is not a capability", c)
		}
	}
	if s.Seccomp != nil {
		if err := s.Seccomp.check(); err != nil {
			return err
		}
	}
	for _, l := range s.Limits {
		if Limit(l.Name) < 0 || l.Soft > l.Hard {
			return fmt.Errorf("limit %s=%d:%d: unknown, or the first is above the second", l.Name, l.Soft, l.Hard)
		}
	}
	return nil
}
