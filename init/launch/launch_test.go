package launch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"garboard.local/init/table"
)

// The tests launch this very binary, which then tells what it has become.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == Name {
		if os.Getenv("LAUNCH_SHARED") != "" {
			shareMounts()
		}
		os.Exit(Main(os.Args[1:], os.Environ(), os.Getenv("LAUNCH_ROOT"), os.Stderr))
	}
	if os.Args[len(os.Args)-1] == "tell" {
		tell()
	}
	os.Exit(m.Run())
}

// shareMounts gives this thread mounts that spread, as those of a node do.
func shareMounts() {
	runtime.LockOSThread()
	if err := errors.Join(unix.Unshare(unix.CLONE_NEWNS), unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""), unix.Mount("", "/", "", unix.MS_SHARED|unix.MS_REC, "")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// It is left open, or nothing would keep these mounts and they would spread nowhere.
	if _, err := unix.Open("/proc/thread-self/ns/mnt", unix.O_RDONLY, 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// told is what a process sees of itself.
type told struct {
	Status map[string]string // /proc/self/status
	Limits map[string]string // of /proc/self/limits
	Args   []string
	Env    []string
}

func tell() {
	out := told{Status: map[string]string{}, Limits: map[string]string{}, Args: os.Args[1:], Env: os.Environ()}
	b, err := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(b)) {
		k, v, _ := strings.Cut(line, ":")
		out.Status[k] = strings.Join(strings.Fields(v), " ")
	}
	for _, n := range []string{"nofile", "core", "memlock"} {
		var l unix.Rlimit
		if err == nil {
			err = unix.Prlimit(os.Getpid(), table.Limit(n), nil, &l)
		}
		out.Limits[n] = fmt.Sprint(l.Max)
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// self is this very binary.
func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// launcher is a command that launches a service in root. Where the tests are not root
// they are root of a user namespace, in which there is one user.
func launcher(t *testing.T, root string, s table.Service, env ...string) *exec.Cmd {
	t.Helper()
	argv, err := Argv(&s)
	if err != nil {
		t.Fatal(err)
	}
	cmd := &exec.Cmd{Path: self(t), Args: argv, Env: append(env, "LAUNCH_ROOT="+root)}
	if os.Getuid() != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}}
	}
	return cmd
}

// output is what a service's script prints, and how it ended.
func output(t *testing.T, root, script string, s table.Service, env ...string) (string, error) {
	t.Helper()
	s.Command = []string{"/bin/sh", "-c", script}
	out, err := launcher(t, root, s, env...).CombinedOutput()
	return string(out), err
}

// launch runs a service and returns what it tells.
func launch(t *testing.T, s table.Service) (told, string, error) {
	t.Helper()
	root := t.TempDir()
	if err := os.MkdirAll(root+"/etc", 0o755); err != nil {
		t.Fatal(err)
	}
	for f, text := range map[string]string{"passwd": "root:x:0:0::/:/x\nalice:x:1234:2345::/:/x\nbad:x:many:0::/:/x\n", "group": "root:x:0:\nstaff:x:50:alice\n"} {
		if err := os.WriteFile(root+"/etc/"+f, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.Command) == 0 {
		s.Command = []string{self(t), "a b", "", "$x", "tell"}
	}
	cmd := launcher(t, root, s, "A=b c")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var got told
	if err == nil {
		err = json.Unmarshal(out.Bytes(), &got)
	}
	return got, errs.String(), err
}

func TestCapabilitiesLimitsAndPrivileges(t *testing.T) {
	caps := []string{"CHOWN", "NET_BIND_SERVICE"}
	got, errs, err := launch(t, table.Service{Capabilities: &caps, NoNewPrivileges: true, Limits: []table.RLimit{{Name: "nofile", Soft: 100, Hard: 200}, {Name: "core"}}})
	if err != nil {
		t.Fatalf("%v: %s", err, errs)
	}
	for k, want := range map[string]string{"CapBnd": "0000000000000401", "CapPrm": "0000000000000401", "CapEff": "0000000000000401", "CapAmb": "0000000000000000", "NoNewPrivs": "1"} {
		if got.Status[k] != want {
			t.Errorf("%s is %s, want %s", k, got.Status[k], want)
		}
	}
	if got.Limits["nofile"] != "200" || got.Limits["core"] != "0" {
		t.Errorf("limits %v", got.Limits)
	}
	if want := []string{"a b", "", "$x", "tell"}; fmt.Sprint(got.Args) != fmt.Sprint(want) {
		t.Errorf("arguments %q, want %q", got.Args, want)
	}
	if !strings.Contains(strings.Join(got.Env, "\n"), "A=b c") {
		t.Errorf("environment %q", got.Env)
	}
}

func TestNothingIsTakenThatWasNotAskedFor(t *testing.T) {
	got, errs, err := launch(t, table.Service{Limits: []table.RLimit{{Name: "core"}}})
	if err != nil {
		t.Fatalf("%v: %s", err, errs)
	}
	if got.Status["NoNewPrivs"] != "0" || got.Status["CapEff"] == "0000000000000000" {
		t.Errorf("status %v", got.Status)
	}
}

// Users, in so far as the tests may become one.
func TestUser(t *testing.T) {
	none := []string{}
	if os.Getuid() != 0 {
		got, errs, err := launch(t, table.Service{User: "4711"})
		if err == nil || !strings.Contains(errs, "user 4711") && !strings.Contains(errs, "groups") {
			t.Errorf("a user that cannot be had: %v %v: %s", got.Status["Uid"], err, errs)
		}
		return
	}
	for _, c := range []struct {
		name        string
		s           table.Service
		uid, groups string
		gid, cap    string
	}{
		{"number", table.Service{User: "1000"}, "1000 1000 1000 1000", "", "0 0 0 0", ""},
		{"number and group", table.Service{User: "1000", Group: "7", Groups: []uint32{8, 9}}, "1000 1000 1000 1000", "8 9", "7 7 7 7", ""},
		{"name", table.Service{User: "alice"}, "1234 1234 1234 1234", "", "2345 2345 2345 2345", ""},
		{"name and group by name", table.Service{User: "alice", Group: "staff"}, "1234 1234 1234 1234", "", "50 50 50 50", ""},
		{"ambient", table.Service{User: "alice", Ambient: []string{"NET_BIND_SERVICE"}}, "1234 1234 1234 1234", "", "2345 2345 2345 2345", "0000000000000400"},
		{"no capabilities", table.Service{User: "alice", Capabilities: &none, NoNewPrivileges: true}, "1234 1234 1234 1234", "", "2345 2345 2345 2345", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			// Programs of a test lie where only root may read.
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(self)
			if err != nil {
				t.Fatal(err)
			}
			dir, err := os.MkdirTemp("/tmp", "launch")
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(dir)
			if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(dir+"/p", b, 0o755)); err != nil {
				t.Fatal(err)
			}
			c.s.Command = []string{dir + "/p", "tell"}
			got, errs, err := launch(t, c.s)
			if err != nil {
				t.Fatalf("%v: %s", err, errs)
			}
			if c.cap == "" {
				c.cap = "0000000000000000"
			}
			for k, want := range map[string]string{"Uid": c.uid, "Gid": c.gid, "Groups": c.groups, "CapEff": c.cap, "CapPrm": c.cap, "CapAmb": c.cap} {
				if got.Status[k] != want {
					t.Errorf("%s is %q, want %q", k, got.Status[k], want)
				}
			}
		})
	}
}

func TestFailures(t *testing.T) {
	for _, c := range []struct {
		name string
		s    table.Service
		want string
	}{
		{"no such user", table.Service{User: "bob"}, "bob is not in /etc/passwd"},
		{"no such group", table.Service{Group: "bob"}, "bob is not in /etc/group"},
		{"number that is none", table.Service{User: "bad"}, `"many", is none`},
		{"no such program", table.Service{Command: []string{"/nonexistent"}}, "execute /nonexistent: no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, errs, err := launch(t, c.s)
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != Failed || !strings.Contains(errs, c.want) {
				t.Errorf("%v: %s; want %q", err, errs, c.want)
			}
		})
	}
}

func TestNeeded(t *testing.T) {
	if Needed(&table.Service{Command: []string{"/x"}, Env: []string{"A=b"}, Dir: "/"}) {
		t.Error("a plain service is launched")
	}
	if !Needed(&table.Service{Capabilities: &[]string{}}) {
		t.Error("a service without capabilities is not launched")
	}
}

func FuzzEntry(f *testing.F) {
	f.Add("root:x:0:0::/:/x\n", "root")
	f.Add("::::", "")
	f.Fuzz(func(t *testing.T, file, name string) {
		fields, err := entry(strings.NewReader(file), name)
		if err == nil && fields != nil && (fields[0] != name || len(fields) < 3) {
			t.Errorf("%q in %q is %q", name, file, fields)
		}
	})
}
