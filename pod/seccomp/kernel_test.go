package seccomp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"garboard.local/init/launch"
	"garboard.local/init/table"
)

// The tests of this file launch this very binary behind a filter, as PID 1
// launches a service, and it makes system calls then.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == launch.Name {
		os.Exit(launch.Main(os.Args[1:], os.Environ(), "", os.Stderr))
	}
	if os.Args[len(os.Args)-1] == "attempt" {
		attempt(os.Args[1 : len(os.Args)-1])
	}
	os.Exit(m.Run())
}

// seen is what a process sees of itself.
type seen struct {
	Errnos []int
	Status map[string]string // /proc/self/status
}

// attempt makes calls: each argument is a number and its arguments.
func attempt(calls []string) {
	out := seen{Status: status()}
	for _, c := range calls {
		var n [7]uintptr
		for i, f := range strings.Fields(c) {
			v, err := strconv.ParseUint(f, 0, 64)
			if err != nil {
				panic(err)
			}
			n[i] = uintptr(v)
		}
		_, _, e := syscall.RawSyscall6(n[0], n[1], n[2], n[3], n[4], n[5], n[6])
		out.Errnos = append(out.Errnos, int(e))
	}
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		panic(err)
	}
	os.Exit(0)
}

func status() map[string]string {
	out := map[string]string{}
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		panic(err)
	}
	for line := range strings.Lines(string(b)) {
		k, v, _ := strings.Cut(line, ":")
		out[k] = strings.Join(strings.Fields(v), " ")
	}
	return out
}

// behind launches this binary as a service that makes the calls. Where the
// tests are not root they are root of a user namespace, in which there is one user.
func behind(t *testing.T, s table.Service, p *Profile, calls ...string) (seen, error) {
	t.Helper()
	self := readable(t)
	if p != nil {
		target := Target{Arch: runtime.GOARCH}
		if s.Capabilities != nil {
			target.Caps = *s.Capabilities
		}
		var err error
		if s.Seccomp, err = p.Filter(target); err != nil {
			t.Fatal(err)
		}
	}
	s.Command = append(append([]string{self}, calls...), "attempt")
	argv, err := launch.Argv(&s)
	if err != nil {
		t.Fatal(err)
	}
	cmd := &exec.Cmd{Path: self, Args: argv}
	if os.Getuid() != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}}
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	var got seen
	if err := cmd.Run(); err != nil {
		return got, fmt.Errorf("%w: %s", err, errs.Bytes())
	}
	return got, json.Unmarshal(out.Bytes(), &got)
}

// readable is this binary where every user may execute it.
func readable(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/tmp", "seccomp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(dir+"/p", b, 0o755)); err != nil {
		t.Fatal(err)
	}
	return dir + "/p"
}

const custom = `{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
	{"names": ["getpgid"], "action": "SCMP_ACT_ERRNO"},
	{"names": ["sysinfo"], "action": "SCMP_ACT_ERRNO", "errno": "ENOSYS"},
	{"names": ["personality"], "action": "SCMP_ACT_ERRNO", "errno": "EBUSY", "args": [{"index": 0, "value": 4294967295, "op": "SCMP_CMP_EQ"}]},
	{"names": ["getpriority"], "action": "SCMP_ACT_KILL_PROCESS"},
	{"names": ["setresuid", "setresgid", "setgroups", "capset", "prctl"], "action": "SCMP_ACT_ERRNO"}]}`

func number(n ...uintptr) string { return strings.Trim(fmt.Sprint(n), "[]") }

func TestTheKernelDoesWhatTheProgramSays(t *testing.T) {
	p, err := Parse([]byte(custom))
	if err != nil {
		t.Fatal(err)
	}
	calls := []string{number(unix.SYS_GETPGID, 0), number(unix.SYS_SYSINFO, 0), number(unix.SYS_PERSONALITY, 0xffffffff), number(unix.SYS_PERSONALITY, 0x1_ffff_ffff), number(unix.SYS_GETPPID)}
	before := status()
	for _, c := range []struct {
		name    string
		s       table.Service
		profile *Profile
		errnos  []int
		filters int
		root    bool
	}{
		// The control: without a filter the kernel has nothing against these calls.
		{"no filter", table.Service{NoNewPrivileges: true}, nil, []int{0, int(unix.EFAULT), 0, 0, 0}, 0, false},
		{"no_new_privs", table.Service{NoNewPrivileges: true}, p, []int{1, int(unix.ENOSYS), int(unix.EBUSY), 0, 0}, 1, false},
		{"privileges may be gained", table.Service{}, p, []int{1, int(unix.ENOSYS), int(unix.EBUSY), 0, 0}, 1, false},
		// The filter forbids what the launching program still has to do: it comes last.
		{"another user", table.Service{User: "1000", Group: "1000", Groups: []uint32{7}}, p, []int{1, int(unix.ENOSYS), int(unix.EBUSY), 0, 0}, 1, true},
		{"no capabilities", table.Service{User: "1000", Capabilities: &[]string{}, NoNewPrivileges: true}, p, []int{1, int(unix.ENOSYS), int(unix.EBUSY), 0, 0}, 1, true},
		{"ambient", table.Service{User: "1000", Ambient: []string{"KILL"}}, p, []int{1, int(unix.ENOSYS), int(unix.EBUSY), 0, 0}, 1, true},
	} {
		if c.root && os.Getuid() != 0 {
			continue // no other user can be had
		}
		t.Run(c.name, func(t *testing.T) {
			got, err := behind(t, c.s, c.profile, calls...)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got.Errnos, c.errnos) {
				t.Errorf("errors %d, want %d", got.Errnos, c.errnos)
			}
			had, _ := strconv.Atoi(before["Seccomp_filters"])
			if n := strconv.Itoa(had + c.filters); got.Status["Seccomp_filters"] != n {
				t.Errorf("%s filters, want %s", got.Status["Seccomp_filters"], n)
			}
			if c.filters > 0 && got.Status["Seccomp"] != "2" {
				t.Errorf("Seccomp: %s", got.Status["Seccomp"])
			}
			if want := map[bool]string{true: "0000000000000020", false: "0000000000000000"}[len(c.s.Ambient) > 0]; c.root && (got.Status["CapEff"] != want || got.Status["CapPrm"] != want) {
				t.Errorf("capabilities %s of %s, want %s: those for installing the filter must be gone", got.Status["CapEff"], got.Status["CapPrm"], want)
			}
		})
	}
}

func TestAForbiddenCallEndsTheProcess(t *testing.T) {
	p, err := Parse([]byte(custom))
	if err != nil {
		t.Fatal(err)
	}
	_, err = behind(t, table.Service{NoNewPrivileges: true}, p, number(unix.SYS_GETPRIORITY, 0, 0))
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != unix.SIGSYS {
		t.Errorf("%v, want SIGSYS", err)
	}
}

// The runtimes' default lets a Go program run, and keeps it from the rest.
func TestRuntimeDefault(t *testing.T) {
	calls := []string{number(unix.SYS_UNSHARE, unix.CLONE_NEWUTS), number(unix.SYS_BPF, 0, 0, 0), number(unix.SYS_CLONE3, 0, 0), number(unix.SYS_OPEN_BY_HANDLE_AT, 0, 0, 0),
		number(unix.SYS_SOCKET, unix.AF_VSOCK, unix.SOCK_STREAM), number(unix.SYS_INIT_MODULE, 0, 0, 0), number(unix.SYS_PERSONALITY, 0xffffffff), number(unix.SYS_GETPPID)}
	got, err := behind(t, table.Service{NoNewPrivileges: true, Capabilities: &[]string{}}, defaultProfile(t), calls...)
	if err != nil {
		t.Fatal(err)
	}
	if want := []int{int(unix.ENOSYS), 1, int(unix.ENOSYS), 1, 1, 1, 0, 0}; !slices.Equal(got.Errnos, want) {
		t.Errorf("errors %d, want %d", got.Errnos, want)
	}
}

// A program that the kernel does not take is no service without a filter.
func TestNoFilterNoService(t *testing.T) {
	_, err := behind(t, table.Service{NoNewPrivileges: true, Seccomp: &table.Seccomp{Program: make([]byte, 8)}}, nil, number(unix.SYS_GETPPID))
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != launch.Failed || !strings.Contains(err.Error(), "seccomp: install a program of 1 instructions: invalid argument") {
		t.Errorf("%v", err)
	}
}
