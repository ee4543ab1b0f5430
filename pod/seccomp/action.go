package seccomp

import (
	"fmt"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// What a program returns (linux/seccomp.h). The low half holds an errno.
const (
	retKillThread  = 0x0000_0000
	retKillProcess = 0x8000_0000
	retTrap        = 0x0003_0000
	retErrno       = 0x0005_0000
	retLog         = 0x7ffc_0000
	retAllow       = 0x7fff_0000
	maxErrno       = 4095 // the kernel cuts what is above (MAX_ERRNO)
)

// action is the value that a program returns for an action by its name. An
// error number is EPERM unless the profile has another, as under crun and runc.
func action(name string, number *uint, errno string) (uint32, error) {
	if name != "SCMP_ACT_ERRNO" && (number != nil || errno != "") {
		return 0, fmt.Errorf("an errno goes with SCMP_ACT_ERRNO, not with %q", name)
	}
	switch name {
	case "SCMP_ACT_KILL", "SCMP_ACT_KILL_THREAD":
		return retKillThread, nil
	case "SCMP_ACT_KILL_PROCESS":
		return retKillProcess, nil
	case "SCMP_ACT_TRAP":
		return retTrap, nil
	case "SCMP_ACT_LOG":
		return retLog, nil
	case "SCMP_ACT_ALLOW":
		return retAllow, nil
	case "SCMP_ACT_ERRNO":
		n, err := errorNumber(number, errno)
		return retErrno | n, err
	case "SCMP_ACT_NOTIFY":
		return 0, fmt.Errorf("%s: nobody would answer, and every such call would wait for ever; use SCMP_ACT_ERRNO", name)
	case "SCMP_ACT_TRACE":
		return 0, fmt.Errorf("%s: nobody traces a service, so the call would fail with ENOSYS; use SCMP_ACT_ERRNO", name)
	case "":
		return 0, fmt.Errorf("it has no action, such as SCMP_ACT_ALLOW")
	}
	return 0, fmt.Errorf("action %q is not one of SCMP_ACT_ALLOW, SCMP_ACT_ERRNO, SCMP_ACT_KILL, SCMP_ACT_KILL_THREAD, SCMP_ACT_KILL_PROCESS, SCMP_ACT_LOG, SCMP_ACT_TRAP", name)
}

// errorNumber is that of a rule: by name or number, or by number alone.
func errorNumber(number *uint, errno string) (uint32, error) {
	n := uint64(unix.EPERM)
	if number != nil {
		n = uint64(*number)
	}
	if errno != "" {
		var err error
		if n, err = strconv.ParseUint(errno, 10, 32); err != nil {
			n = errnoNamed(errno)
		}
	}
	if n < 1 || n > maxErrno {
		if errno != "" {
			return 0, fmt.Errorf("errno %q is not one: a name such as EPERM, or 1 to %d", errno, maxErrno)
		}
		return 0, fmt.Errorf("errnoRet %d is not between 1 and %d", n, maxErrno)
	}
	return uint32(n), nil
}

// errnoNamed is the number of an error, 0 if there is none of that name. Both
// architectures have the same numbers.
func errnoNamed(name string) uint64 {
	switch name { // second names
	case "EWOULDBLOCK":
		return uint64(unix.EWOULDBLOCK)
	case "EDEADLOCK":
		return uint64(unix.EDEADLOCK)
	case "EOPNOTSUPP":
		return uint64(unix.EOPNOTSUPP)
	case "ENOTSUP":
		return uint64(unix.ENOTSUP)
	}
	for n := 1; n <= maxErrno; n++ {
		if unix.ErrnoName(syscall.Errno(n)) == name {
			return uint64(n)
		}
	}
	return 0
}

// flag is the bit of seccomp(2) for a flag of a profile.
func flag(name string) (uint, error) {
	switch name {
	case "SECCOMP_FILTER_FLAG_LOG":
		return unix.SECCOMP_FILTER_FLAG_LOG, nil
	case "SECCOMP_FILTER_FLAG_SPEC_ALLOW":
		return unix.SECCOMP_FILTER_FLAG_SPEC_ALLOW, nil
	case "SECCOMP_FILTER_FLAG_TSYNC":
		return 0, nil // executing the service's program leaves one thread
	case "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV":
		return 0, fmt.Errorf("flag %s goes with SCMP_ACT_NOTIFY, which a service cannot have", name)
	}
	return 0, fmt.Errorf("flag %q is not one of SECCOMP_FILTER_FLAG_LOG, SECCOMP_FILTER_FLAG_SPEC_ALLOW, SECCOMP_FILTER_FLAG_TSYNC", name)
}
