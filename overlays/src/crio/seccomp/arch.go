package seccomp

import (
	"fmt"
	"runtime"
	"strings"
)

// ScmpArch is a CPU architecture as seccomp sees it: one system call table.
type ScmpArch uint

// The architectures, in upstream's order: their values are part of its interface.
const (
	ArchInvalid ScmpArch = iota
	ArchNative
	ArchX86
	ArchAMD64
	ArchX32
	ArchARM
	ArchARM64
	ArchMIPS
	ArchMIPS64
	ArchMIPS64N32
	ArchMIPSEL
	ArchMIPSEL64
	ArchMIPSEL64N32
	ArchPPC
	ArchPPC64
	ArchPPC64LE
	ArchS390
	ArchS390X
	ArchPARISC
	ArchPARISC64
	ArchRISCV64
	ArchLOONGARCH64
	ArchM68K
	ArchSH
	ArchSHEB
)

// archNames holds the name that String gives, by architecture.
var archNames = [...]string{
	ArchInvalid: "Invalid architecture", ArchNative: "native",
	ArchX86: "x86", ArchAMD64: "amd64", ArchX32: "x32",
	ArchARM: "arm", ArchARM64: "arm64",
	ArchMIPS: "mips", ArchMIPS64: "mips64", ArchMIPS64N32: "mips64n32",
	ArchMIPSEL: "mipsel", ArchMIPSEL64: "mipsel64", ArchMIPSEL64N32: "mipsel64n32",
	ArchPPC: "ppc", ArchPPC64: "ppc64", ArchPPC64LE: "ppc64le",
	ArchS390: "s390", ArchS390X: "s390x",
	ArchPARISC: "parisc", ArchPARISC64: "parisc64",
	ArchRISCV64: "riscv64", ArchLOONGARCH64: "loong64",
	ArchM68K: "m68k", ArchSH: "sh", ArchSHEB: "sheb",
}

// archAliases are further names that GetArchFromString takes.
var archAliases = map[string]ScmpArch{
	"x86-64": ArchAMD64, "x86_64": ArchAMD64, "x64": ArchAMD64,
	"aarch64": ArchARM64, "loongarch64": ArchLOONGARCH64,
}

// String is the architecture's name. go.podman.io/common compares it with the
// "arches" of a profile's rules, which are spelt as Go spells GOARCH.
func (a ScmpArch) String() string {
	if a < ScmpArch(len(archNames)) {
		return archNames[a]
	}
	return fmt.Sprintf("Unknown architecture %#x", uint(a))
}

// GetArchFromString is the architecture of that name, in either case.
func GetArchFromString(arch string) (ScmpArch, error) {
	name := strings.ToLower(arch)
	for a := ArchX86; a < ScmpArch(len(archNames)); a++ {
		if archNames[a] == name {
			return a, nil
		}
	}
	if a, ok := archAliases[name]; ok {
		return a, nil
	}
	return ArchInvalid, fmt.Errorf("cannot convert unrecognized string %q", arch)
}

// GetNativeArch is the architecture that this program was compiled for.
func GetNativeArch() (ScmpArch, error) { return archOf(runtime.GOARCH) }

// archOf names the architectures for which this package knows the system calls.
func archOf(goarch string) (ScmpArch, error) {
	switch goarch {
	case "amd64":
		return ArchAMD64, nil
	case "arm64":
		return ArchARM64, nil
	}
	return ArchInvalid, fmt.Errorf("seccomp without libseccomp knows amd64 and arm64, not %s", goarch)
}

// archFromAudit translates the AUDIT_ARCH_* value of a notification
// (include/uapi/linux/audit.h). An x32 call has amd64's value, as in libseccomp.
func archFromAudit(v uint32) (ScmpArch, error) {
	switch v {
	case 0xc000003e:
		return ArchAMD64, nil
	case 0x40000003:
		return ArchX86, nil
	case 0xc00000b7:
		return ArchARM64, nil
	case 0x40000028:
		return ArchARM, nil
	}
	return ArchInvalid, fmt.Errorf("unrecognized architecture %#x", v)
}
