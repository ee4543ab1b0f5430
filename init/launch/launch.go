// Package launch turns a process that PID 1 has started into a service's
// command, with the user, groups, capabilities and limits that the service has.
// What a kernel call changes for one thread only (all of these) is done by the
// thread that then executes the command, and executing ends the others.
//
// It is a program of its own by name, because between fork and exec a Go
// program cannot do anything but what syscall.SysProcAttr offers, which lacks
// the bounding set, no_new_privs and limits.
package launch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"garboard.local/init/table"
)

// Name is how the init binary is called to be this program.
const Name = "garboard-launch"

// Failed is the exit status if the command was not reached; what was wrong is
// on standard error, which is the service's log.
const Failed = 126

// Needed says whether a service's process needs launching, or can be started as it is.
func Needed(s *table.Service) bool {
	return s.User != "" || s.Group != "" || len(s.Groups) > 0 || s.Capabilities != nil || len(s.Ambient) > 0 || s.NoNewPrivileges || len(s.Limits) > 0 || len(s.Mounts) > 0 || s.Root != nil || s.Seccomp != nil
}

// Argv is the command line by which the init binary launches a service.
func Argv(s *table.Service) ([]string, error) {
	b, err := json.Marshal(table.Service{
		Command: s.Command, User: s.User, Group: s.Group, Groups: s.Groups, Capabilities: s.Capabilities, Ambient: s.Ambient,
		NoNewPrivileges: s.NoNewPrivileges, Limits: s.Limits, Root: s.Root, Mounts: s.Mounts, Dir: s.Dir, Seccomp: s.Seccomp,
	})
	return []string{Name, string(b)}, err
}

// Main is the program. It returns only if it has failed.
func Main(args, env []string, root string, diag io.Writer) int {
	runtime.LockOSThread()
	err := errors.New("one argument is needed; PID 1 runs this")
	var s table.Service
	if len(args) == 1 {
		err = json.Unmarshal([]byte(args[0]), &s)
	}
	if err == nil && len(s.Command) == 0 {
		err = errors.New("no command")
	}
	if err == nil {
		if err = become(&s, root); err == nil {
			err = fmt.Errorf("execute %s: %w", s.Command[0], syscall.Exec(s.Command[0], s.Command, env))
		}
	}
	fmt.Fprintf(diag, "%s: %v\n", Name, err)
	return Failed
}

// become gives the calling thread everything but the command.
func become(s *table.Service, root string) error {
	who, err := lookup(root, s.User, s.Group)
	if err != nil {
		return err
	}
	if len(s.Mounts) > 0 || s.Root != nil {
		if err := mountAll(root, s); err != nil {
			return err
		}
	}
	if s.Root != nil {
		if err := giveOutput(who); err != nil {
			return err
		}
	}
	for _, l := range s.Limits {
		limit := syscall.Rlimit{Cur: l.Soft, Max: l.Hard}
		// syscall's, because Go raises nofile for itself and lowers it again at
		// exec unless it sees that the program has set it.
		if err := syscall.Setrlimit(table.Limit(l.Name), &limit); err != nil {
			return fmt.Errorf("limit %s=%d:%d: %w", l.Name, l.Soft, l.Hard, err)
		}
	}
	if s.Capabilities != nil {
		if err := bound(*s.Capabilities); err != nil {
			return err
		}
	}
	if s.User != "" || s.Group != "" || len(s.Groups) > 0 {
		if err := who.assume(s.Groups, len(s.Ambient) > 0 || filterNeedsRights(s)); err != nil {
			return err
		}
	}
	if len(s.Ambient) > 0 {
		if err := ambient(s.Ambient); err != nil {
			return err
		}
	}
	if s.NoNewPrivileges {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("no_new_privs: %w", err)
		}
	}
	// Last, because what comes after it has to be in the filter's list.
	return filter(s)
}

// bound takes every capability but those named out of the bounding set, also
// ones that this program does not know yet.
func bound(keep []string) error {
	kept := map[int]bool{}
	for _, n := range keep {
		kept[table.Capability(n)] = true
	}
	for c := 0; c < 64; c++ {
		if err := unix.Prctl(unix.PR_CAPBSET_READ, uintptr(c), 0, 0, 0); errors.Is(err, unix.EINVAL) {
			return nil // the kernel has no more
		}
		if kept[c] {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err != nil {
			return fmt.Errorf("take capability %d out of the bounding set: %w", c, err)
		}
	}
	return nil
}

// assume changes groups, group and user of this thread. With keep the permitted
// capabilities stay until ambient picks among them.
func (w identity) assume(groups []uint32, keep bool) error {
	list := append([]uint32{}, groups...)
	var p unsafe.Pointer
	if len(list) > 0 {
		p = unsafe.Pointer(&list[0])
	}
	if keep {
		if err := unix.Prctl(unix.PR_SET_KEEPCAPS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("keep capabilities: %w", err)
		}
	}
	// Raw calls: package syscall would change every thread, which the kernel
	// refuses a thread that has other rights by now.
	if _, _, e := syscall.RawSyscall(syscall.SYS_SETGROUPS, uintptr(len(list)), uintptr(p), 0); e != 0 {
		return fmt.Errorf("groups %d: %w", list, e)
	}
	if _, _, e := syscall.RawSyscall(syscall.SYS_SETRESGID, w.gid, w.gid, w.gid); e != 0 {
		return fmt.Errorf("group %d: %w", w.gid, e)
	}
	if _, _, e := syscall.RawSyscall(syscall.SYS_SETRESUID, w.uid, w.uid, w.uid); e != 0 {
		return fmt.Errorf("user %d: %w", w.uid, e)
	}
	return nil
}

// ambient gives capabilities that outlive executing a program as an ordinary user.
func ambient(names []string) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	for i := range data {
		data[i].Inheritable = 0
	}
	for _, n := range names {
		c := table.Capability(n)
		data[c/32].Inheritable |= 1 << (c % 32)
	}
	for i := range data {
		data[i].Permitted |= data[i].Inheritable
		data[i].Effective = data[i].Permitted
	}
	if err := unix.Capset(&header, &data[0]); err != nil {
		return fmt.Errorf("inheritable capabilities %q: %w", names, err)
	}
	for _, n := range names {
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, uintptr(table.Capability(n)), 0, 0); err != nil {
			return fmt.Errorf("ambient capability %s: %w", n, err)
		}
	}
	return nil
}
