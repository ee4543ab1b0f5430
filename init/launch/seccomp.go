package launch

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"garboard.local/init/table"
)

// filterNeedsRights says whether installing the filter takes CAP_SYS_ADMIN:
// it does without no_new_privs, since the filter would go on to programs that
// are setuid. The thread keeps it through the change of its user then, so that
// nothing but execve has to pass the filter; execve takes it away from all but root.
func filterNeedsRights(s *table.Service) bool { return s.Seccomp != nil && !s.NoNewPrivileges }

// filter has the kernel judge this thread's system calls from now on.
func filter(s *table.Service) error {
	if s.Seccomp == nil {
		return nil
	}
	if filterNeedsRights(s) {
		if err := effective(); err != nil {
			return err
		}
	}
	var program []unix.SockFilter
	for b := s.Seccomp.Program; len(b) >= table.FilterBytes; b = b[table.FilterBytes:] {
		program = append(program, unix.SockFilter{Code: binary.LittleEndian.Uint16(b), Jt: b[2], Jf: b[3], K: binary.LittleEndian.Uint32(b[4:])})
	}
	if len(program) == 0 || len(program) > table.MaxFilter {
		return fmt.Errorf("seccomp: a program of %d instructions", len(program))
	}
	given := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, e := syscall.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, uintptr(s.Seccomp.Flags), uintptr(unsafe.Pointer(&given)))
	runtime.KeepAlive(program)
	if e != 0 {
		return fmt.Errorf("seccomp: install a program of %d instructions: %w; the kernel needs CONFIG_SECCOMP_FILTER", len(program), e)
	}
	return nil
}

// effective makes the capabilities usable that the thread kept when it changed
// its user.
func effective() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	for i := range data {
		data[i].Effective = data[i].Permitted
	}
	if err := unix.Capset(&header, &data[0]); err != nil {
		return fmt.Errorf("capabilities for installing a seccomp filter: %w", err)
	}
	return nil
}
