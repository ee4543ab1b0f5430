package seccomp

import (
	"errors"
	"fmt"
)

// ErrSyscallDoesNotExist says that no system call has that name or number.
var ErrSyscallDoesNotExist = errors.New("could not resolve syscall name")

// ScmpSyscall is the number of a system call.
type ScmpSyscall int32

// table is the names of an architecture's system calls, by number; numbers
// without a call have the empty name.
func table(arch ScmpArch) ([]string, error) {
	if arch == ArchNative {
		native, err := GetNativeArch()
		if err != nil {
			return nil, err
		}
		arch = native
	}
	switch arch {
	case ArchAMD64:
		return amd64Names[:], nil
	case ArchARM64:
		return arm64Names[:], nil
	}
	return nil, fmt.Errorf("the system calls of %s are not known here, only those of amd64 and arm64", arch)
}

// GetName is the call's name on the native architecture.
func (s ScmpSyscall) GetName() (string, error) { return s.GetNameByArch(ArchNative) }

// GetNameByArch is the call's name on an architecture: native, amd64 or arm64.
func (s ScmpSyscall) GetNameByArch(arch ScmpArch) (string, error) {
	names, err := table(arch)
	if err != nil {
		return "", err
	}
	if s < 0 || int(s) >= len(names) || names[s] == "" {
		return "", ErrSyscallDoesNotExist
	}
	return names[s], nil
}

// GetSyscallFromName is the number of a call on the native architecture.
func GetSyscallFromName(name string) (ScmpSyscall, error) {
	return GetSyscallFromNameByArch(name, ArchNative)
}

// GetSyscallFromNameByArch is the number of a call on an architecture: native,
// amd64 or arm64.
func GetSyscallFromNameByArch(name string, arch ScmpArch) (ScmpSyscall, error) {
	names, err := table(arch)
	if err != nil {
		return 0, err
	}
	for i, n := range names {
		if n == name && n != "" {
			return ScmpSyscall(i), nil
		}
	}
	return 0, ErrSyscallDoesNotExist
}
