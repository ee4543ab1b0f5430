package seccomp

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/agext/levenshtein"
	"github.com/elastic/go-seccomp-bpf/arch"
)

// machine is an architecture as the kernel tells it to a program.
type machine struct {
	audit uint32 // AUDIT_ARCH_*, linux/audit.h
	calls map[string]int
	x32   bool // numbers from x32Bit on are another way to call
}

// x32Bit marks a call of the x32 ABI (asm/unistd.h).
const x32Bit = 0x4000_0000

func machineOf(goarch string) (machine, error) {
	switch goarch {
	case "amd64":
		return machine{uint32(arch.X86_64.ID), arch.X86_64.SyscallNames, true}, nil
	case "arm64":
		return machine{uint32(arch.AARCH64.ID), arm64Calls(), false}, nil
	}
	return machine{}, fmt.Errorf("there are services on amd64 and arm64, not on %q", goarch)
}

// The library reads arm64's calls from the header that all newer architectures
// share. What of it is not arm64's own is put right here; a test compares all
// with libseccomp's table.
const (
	firstTime64, lastTime64 = 403, 423 // of architectures with 32 bits only
	archSpecific            = 244      // where the numbers of one architecture begin
)

func arm64Calls() map[string]int {
	calls := map[string]int{}
	for name, n := range arch.AARCH64.SyscallNames {
		switch {
		case n >= firstTime64 && n <= lastTime64, n == archSpecific:
		case name == "fstatat": // as C libraries call it
			calls["newfstatat"] = n
		default:
			calls[name] = n
		}
	}
	return calls
}

// Arches are the architectures that a profile can be compiled for.
func Arches() []string { return []string{"amd64", "arm64"} }

// names knows system calls by name.
type names map[string]bool

// knownNames are the system calls of every architecture that there is a table of.
func knownNames() names {
	known := names{}
	for _, calls := range []map[string]int{arch.X86_64.SyscallNames, arm64Calls(), arch.I386.SyscallNames, arch.ARM.SyscallNames, arch.X32.SyscallNames} {
		for n := range calls {
			known[n] = true
		}
	}
	return known
}

// like is the known name nearest to one that is not, for a message.
func (k names) like(name string) string {
	var all []string
	for n := range k {
		all = append(all, n)
	}
	best := slices.MaxFunc(all, func(a, b string) int {
		return cmp.Or(cmp.Compare(levenshtein.Similarity(name, a, nil), levenshtein.Similarity(name, b, nil)), cmp.Compare(b, a))
	})
	if levenshtein.Similarity(name, best, nil) < 0.5 {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// Unknown are the names of a profile that no system call has, each with a remark,
// as far as its rules are for an architecture that a service can run on. A runtime
// leaves them out without a word. Names that the default profile has are calls
// of further architectures.
func (p *Profile) Unknown() []string {
	known := knownNames()
	if d, _, err := Default(); err == nil {
		for _, r := range d.Syscalls {
			for _, n := range r.names() {
				known[n] = true
			}
		}
	}
	var out []string
	for _, r := range p.Syscalls {
		if a := r.Includes.Arches; len(a) > 0 && !slices.ContainsFunc(Arches(), func(x string) bool { return slices.Contains(a, x) }) {
			continue
		}
		for _, n := range r.names() {
			if !known[n] {
				out = append(out, fmt.Sprintf("%q is no system call%s", n, known.like(n)))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
