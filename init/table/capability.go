package table

import (
	"slices"
	"strings"
)

// capabilities are the kernel's, by number (linux/capability.h, Linux 6.12).
var capabilities = [...]string{
	"CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP", "LINUX_IMMUTABLE",
	"NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER", "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT",
	"SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE", "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE",
	"AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP", "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ",
	"PERFMON", "BPF", "CHECKPOINT_RESTORE",
}

// Capability is the number of a capability, by its name without CAP_, in
// capitals; -1 if there is none of that name.
func Capability(name string) int { return slices.Index(capabilities[:], name) }

// Capabilities are the names of all capabilities, by number.
func Capabilities() []string { return slices.Clone(capabilities[:]) }

// limits are the resource limits by name, as setrlimit(2) numbers them on Linux.
var limits = [...]string{
	"cpu", "fsize", "data", "stack", "core", "rss", "nproc", "nofile", "memlock", "as", "locks", "sigpending", "msgqueue", "nice", "rtprio", "rttime",
}

// Limit is the number of a resource limit by its name in small letters (nofile); -1 if there is none.
func Limit(name string) int { return slices.Index(limits[:], name) }

// LimitNames are the names of all resource limits, for messages.
func LimitNames() string { return strings.Join(limits[:], ", ") }
