// Package recipe reads recipes: the YAML documents that say what a node image
// is made of. Parsing is strict: an unknown field is an error that names the
// file, the line and the nearest known field.
package recipe

// Recipe is one node image, for every architecture it is built for. In any
// string, {arch} stands for Debian's architecture name (amd64, arm64) and
// {triplet} for its multiarch triplet (x86_64-linux-gnu, aarch64-linux-gnu),
// and {console} for the serial console of its virtual machines (ttyS0, ttyAMA0).
type Recipe struct {
	// Extends names another recipe, relative to this file. Scalars given here
	// replace its scalars; lists given here are appended to its lists.
	Extends string `yaml:"extends,omitempty" json:"extends,omitempty"`
	// Name of the recipe: the output directory is <name>-<arch>.
	Name string `yaml:"name" json:"name"`
	// Runtime names what brings the container runtime, relative to this file: a
	// document of the same fields, whose lists come before this recipe's.
	Runtime string `yaml:"runtime,omitempty" json:"runtime,omitempty"`
	// Hostname of the node where neither DHCP nor a file gives one.
	Hostname string `yaml:"hostname,omitempty" json:"hostname,omitempty"`
	// NTP are time servers, host or host:port, asked after those that DHCP names.
	NTP []string `yaml:"ntp,omitempty" json:"ntp,omitempty"`
	// Watchdog says which one is fed and how: words off, soft (the kernel's timer
	// where the machine has none), runtime, a timeout such as 60s, with commas.
	Watchdog string `yaml:"watchdog,omitempty" json:"watchdog,omitempty"`
	Kernel   Kernel `yaml:"kernel,omitempty" json:"kernel,omitempty"`
	// Cmdline is the kernel command line, in words.
	Cmdline []string `yaml:"cmdline,omitempty" json:"cmdline,omitempty"`
	// Packages are Debian packages of which the named files enter the root image.
	Packages []Package `yaml:"packages,omitempty" json:"packages,omitempty"`
	// Components are programs compiled from overlays/src/<name>.
	Components []Component `yaml:"components,omitempty" json:"components,omitempty"`
	// Programs are programs of this repository in the root image.
	Programs []Program `yaml:"programs,omitempty" json:"programs,omitempty"`
	// Overlays are directories, relative to the recipe, whose files are laid over the root image.
	Overlays []Overlay `yaml:"overlays,omitempty" json:"overlays,omitempty"`
	// Users are added to /etc/passwd, and a group of the same name to /etc/group: for
	// services that run as one (annotation garboard.local/user) and for dirs.
	Users []User `yaml:"users,omitempty" json:"users,omitempty"`
	// Dirs are directories made at boot on the writable file systems.
	Dirs []Dir `yaml:"dirs,omitempty" json:"dirs,omitempty"`
	// Links are symbolic links in the root image.
	Links []Link `yaml:"links,omitempty" json:"links,omitempty"`
	// Services are Pod manifests, relative to the recipe, of what PID 1 itself
	// runs, in the order in which they may depend on each other.
	Services []string `yaml:"services,omitempty" json:"services,omitempty"`
	// Images are container images that lie in the root image, ready to run; those of
	// disk.images lie on the data partition of disk images.
	Images []Image `yaml:"images,omitempty" json:"images,omitempty"`
	// Sysctls are kernel parameters set at boot.
	Sysctls []Sysctl `yaml:"sysctls,omitempty" json:"sysctls,omitempty"`
	// Outputs to write.
	Outputs []Output `yaml:"outputs,omitempty" json:"outputs,omitempty" jsonschema:"enum=initramfs,enum=uki,enum=raw,enum=qcow2,enum=iso"`
	// Disk says what the disk images (outputs raw and qcow2) are like.
	Disk Disk `yaml:"disk,omitempty" json:"disk,omitempty"`

	// Dir is the directory of the recipe file, File its path. Every relative
	// path of a parsed recipe has been joined with the directory of the file
	// that stated it.
	Dir  string `yaml:"-" json:"-"`
	File string `yaml:"-" json:"-"`
}

// Kernel is the kernel and what of its modules is used.
type Kernel struct {
	// Package is a Debian kernel image package, or the metapackage that depends on one.
	Package string `yaml:"package,omitempty" json:"package,omitempty"`
	// OCI is a container image laid out as LinuxKit's kernels (kernel, kernel.tar,
	// cmdline), in place of a package: a reference in a registry, or, beginning with
	// ./, ../ or /, an OCI layout or an archive of one, relative to this file.
	OCI string `yaml:"oci,omitempty" json:"oci,omitempty"`
	// Boot modules lie in the initramfs: what is needed to reach the root image.
	Boot []Module `yaml:"boot,omitempty" json:"boot,omitempty"`
	// Disks modules lie in the initramfs of disk images whose root image is read from
	// the disk, beside those of boot: the drivers of disks. They are in the root image
	// only if another list has them.
	Disks []Module `yaml:"disks,omitempty" json:"disks,omitempty"`
	// Load modules are loaded by PID 1 at every boot, in this order.
	Load []Module `yaml:"load,omitempty" json:"load,omitempty"`
	// Available modules are loaded by the kernel when it asks for them.
	// A name may hold wildcards (nft_*), or be a path below kernel/ that ends in a slash.
	Available []Module `yaml:"available,omitempty" json:"available,omitempty"`
	// Firmware are packages with firmware: of each, the files that a module of the
	// image asks for enter the image, and those named here.
	Firmware []Firmware `yaml:"firmware,omitempty" json:"firmware,omitempty"`
	// Microcode are packages with updates for processors, which the kernel loads
	// before all else.
	Microcode []Microcode `yaml:"microcode,omitempty" json:"microcode,omitempty"`
}

// Firmware is a Debian package with files below /usr/lib/firmware.
type Firmware struct {
	Package string `yaml:"package" json:"package"`
	Reason  string `yaml:"reason" json:"reason"`
	Arch    string `yaml:"arch,omitempty" json:"arch,omitempty" jsonschema:"enum=amd64,enum=arm64"`
	// Files enter the image though no module names them: absolute paths;
	// wildcards as in path.Match.
	Files []string `yaml:"files,omitempty" json:"files,omitempty"`
}

// Microcode is a Debian package with files in /usr/lib/firmware/amd-ucode or intel-ucode.
type Microcode struct {
	Package string `yaml:"package" json:"package"`
	Reason  string `yaml:"reason" json:"reason"`
	Arch    string `yaml:"arch,omitempty" json:"arch,omitempty" jsonschema:"enum=amd64"`
}

// Module is a kernel module, with dependencies taken along.
type Module struct {
	Name string `yaml:"name" json:"name"`
	// Arch restricts it to one architecture.
	Arch string `yaml:"arch,omitempty" json:"arch,omitempty" jsonschema:"enum=amd64,enum=arm64"`
	// Optional: a kernel that lacks it or has it built in is fine.
	Optional bool   `yaml:"optional,omitempty" json:"optional,omitempty"`
	Reason   string `yaml:"reason" json:"reason"`
}

// Package is a Debian package and what is taken of it.
type Package struct {
	Name string `yaml:"name" json:"name"`
	// Reason says why the node needs it; a file may state its own.
	Reason string `yaml:"reason" json:"reason"`
	// Files are absolute paths; wildcards as in path.Match.
	Files []string `yaml:"files,omitempty" json:"files,omitempty"`
	// Dlopen marks files that no ELF header names: a reader of the manifest is told so.
	Dlopen []string `yaml:"dlopen,omitempty" json:"dlopen,omitempty"`
	// Setuid are files that keep their setuid and setgid bits. All others lose
	// them: nobody logs in to a node, so nothing needs to become root.
	Setuid []string `yaml:"setuid,omitempty" json:"setuid,omitempty"`
	// Concat maps a path in the root image to a pattern: the matching files of
	// the package are joined, in the order of their names.
	Concat map[string]string `yaml:"concat,omitempty" json:"concat,omitempty"`
	Arch   string            `yaml:"arch,omitempty" json:"arch,omitempty" jsonschema:"enum=amd64,enum=arm64"`
}

// Component is a compiled program and where its binaries go.
type Component struct {
	Name   string `yaml:"name" json:"name"`
	Reason string `yaml:"reason" json:"reason"`
	// Files maps a binary of the component to its path in the root image.
	Files map[string]string `yaml:"files" json:"files"`
}

// Overlay is a directory laid over the root image.
type Overlay struct {
	Path   string `yaml:"path" json:"path"`
	Reason string `yaml:"reason" json:"reason"`
	// Target is the directory in the root image; default /.
	Target string `yaml:"target,omitempty" json:"target,omitempty"`
}

// User is a user of the node, and the group of the same name. Nobody logs in as one.
type User struct {
	Name string `yaml:"name" json:"name" jsonschema:"pattern=^[a-z_][a-z0-9_-]{0\\,31}$"`
	// UID is the number of the user and of the group, 1 to 65533.
	UID    int    `yaml:"uid" json:"uid" jsonschema:"minimum=1,maximum=65533"`
	Reason string `yaml:"reason" json:"reason"`
}

// Dir is a directory made at boot, or a symbolic link to one.
type Dir struct {
	Path string `yaml:"path" json:"path"`
	Link string `yaml:"link,omitempty" json:"link,omitempty"`
	Mode string `yaml:"mode,omitempty" json:"mode,omitempty" jsonschema:"pattern=^0[0-7]{3\\,4}$"` // octal, default 0755
	// Owner is a user of the image, by name, and that user's group; default root.
	Owner string `yaml:"owner,omitempty" json:"owner,omitempty"`
}

// Link is a symbolic link.
type Link struct {
	Path   string `yaml:"path" json:"path"`
	To     string `yaml:"to" json:"to"`
	Reason string `yaml:"reason" json:"reason"`
}

// Sysctl is one kernel parameter, with dots. A * between two of them stands for
// each network interface that there is when PID 1 comes to it.
type Sysctl struct {
	Key      string `yaml:"key" json:"key"`
	Value    string `yaml:"value" json:"value"`
	Optional bool   `yaml:"optional,omitempty" json:"optional,omitempty"`
}

// Arches are the architectures a recipe can be built for.
var Arches = []string{"amd64", "arm64"}

// Triplet is Debian's multiarch triplet of an architecture.
func Triplet(arch string) string {
	return map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}[arch]
}

// Console is the serial console that virtual machines of an architecture have.
func Console(arch string) string {
	return map[string]string{"amd64": "ttyS0", "arm64": "ttyAMA0"}[arch]
}
