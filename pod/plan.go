package pod

import (
	"path"

	"garboard.local/init/table"
	"garboard.local/pod/manifest"
)

// Where the files of pods lie on the machine that runs them as systemd units.
// Each has one directory per pod, named NAMESPACE_NAME.
const (
	DataDir  = "/etc/garboard/pods"     // configMaps, secrets, environment; 0700
	StateDir = "/var/lib/garboard/pods" // emptyDirs
	RunDir   = "/run/garboard/pods"     // emptyDirs in memory
)

// RootDir is DataDir's place in the root image, for services of PID 1.
const RootDir = "/usr/lib/garboard/pods"

// NodeName stands in a string for the name of the node, which only the machine
// that runs the pod knows. It holds a NUL, which no manifest can.
const NodeName = "\x00node\x00"

// Plan is a pod as services, before they are written for a target.
type Plan struct {
	Document        *manifest.Document
	Target          Target
	Namespace, Name string
	UID             string
	Labels          map[string]string
	Annotations     map[string]string
	Services        []Service // in order of start
	Volumes         []Volume
	Files           []File
	Sysctls         []Setting

	HostNetwork, HostPID, HostIPC bool

	Role        string
	After       []string // NAMESPACE/NAME of pods that must be ready first
	WaitSeconds int      // for them, at most
	Grace       int64    // seconds between SIGTERM and SIGKILL
	Deadline    int64    // seconds that each container may run; 0 = no limit
	Resources   Resources
}

// ID names the pod's directories.
func (p *Plan) ID() string { return p.Namespace + "_" + p.Name }

// DataDir is the pod's directory below DataDir, or RootDir.
func (p *Plan) DataDir() string {
	if p.Target == Init {
		return path.Join(RootDir, p.ID())
	}
	return path.Join(DataDir, p.ID())
}

// Kind is which of a pod's containers a service is.
type Kind int

// The kinds, in the order of their start.
const (
	InitContainer Kind = iota // runs to success before the next begins
	Sidecar                   // an init container that stays
	Container
)

// Service is one container as a process.
type Service struct {
	Name  string // of the container
	Path  string // spec.containers[0], for findings
	Kind  Kind
	Image string
	Root  string // root directory of the unpacked image; "" = the host's
	// Layers of the image in the root image, the topmost first; of services of PID 1.
	Layers []string
	image  *imageConfig

	Argv      []string
	Dir       string
	Env       []Setting
	SecretEnv []Setting // never written where everybody may read

	Restart      string // a Pod's policy
	RestartCodes []int32

	User, Group string // number or name; "" = root
	Home        string // by the image; "" = not said
	Groups      []int64
	Caps        []string // bounding set; nil = all
	Ambient     []string
	Privileged  bool
	NoNewPrivs  bool
	ReadOnly    bool // the root
	Seccomp     bool // the runtime's default, as systemd can have it
	Filter      *table.Seccomp
	AppArmor    string
	SELinux     string
	OOMScoreAdj *int
	Limits      []Limit

	Mounts    []Mount
	Resources Resources

	Startup, Liveness, Readiness *Probe
	PreStop, PostStart           []string // argv; the first word "" means the probe program
	StopSignal                   string
}

// Setting is a name with a value.
type Setting struct{ Name, Value string }

// Limit is a resource limit; Soft and Hard are numbers or "unlimited".
type Limit struct{ Name, Soft, Hard string }

// Resources are shares and limits; 0 = not given.
type Resources struct {
	CPUWeight int   // 1 to 10000
	CPUMilli  int64 // thousandths of a CPU at most
	MemoryMin int64 // bytes
	MemoryMax int64 // bytes
}

// VolumeKind is where a volume's files are.
type VolumeKind int

// The kinds of volumes.
const (
	HostPath VolumeKind = iota
	EmptyDir
	Tmpfs
	Written // files of the plan
)

// Volume is a directory or file on the host that containers mount.
type Volume struct {
	Name   string
	Kind   VolumeKind
	Source string // on the host
	Type   string // of a hostPath
	Size   int64  // bytes, of a tmpfs; 0 = the kernel's default
	Group  *int64 // fsGroup
	Dirs   []string
}

// Mount is a volume in a container.
type Mount struct {
	Source, Target string
	Sub            string // the part of Source that is by subPath; "" = none
	ReadOnly       bool
	File           bool // the source is no directory
	Private        bool // what the host mounts in it later is not seen
}

// File is a file that belongs to a pod.
type File struct {
	Path    string
	Mode    uint32
	Group   *int64
	Content []byte
	Secret  bool
}

// Probe asks a container for its health. Exactly one of Exec, TCP, Unix, HTTP and GRPC is set.
type Probe struct {
	Exec []string
	TCP  string // host:port
	Unix string // socket
	HTTP *HTTPProbe
	GRPC *GRPCProbe

	Delay, Period, Timeout int // seconds; 0 = not given
	Successes, Failures    int // in a row; 0 = not given
}

// HTTPProbe asks for a URL.
type HTTPProbe struct {
	URL     string
	Headers []Setting
}

// GRPCProbe asks by grpc.health.v1.
type GRPCProbe struct{ Address, Service string }
