package launch

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"garboard.local/init/table"
)

// Links of an image, and what a service has put in the place of its directories since it
// was started, lead a later start (of it, of a probe) neither out of the root nor round
// what is closed.
func TestLinksInARoot(t *testing.T) {
	own := func(dir string, mounts ...table.Mount) table.Service {
		return table.Service{Root: &table.Root{Image: "i", Path: "/r"}, Dir: dir, Mounts: mounts}
	}
	volume := func(target string) table.Mount { return table.Mount{Source: "/volume", Target: target} }
	for _, tt := range []struct {
		name, link, to string // a %d is a process with the node's root, %s the node's files there
		s              table.Service
		want           string
	}{
		{"directory of another process", "work", "/proc/%d/root/%s", own("/work"), "working directory /work: "},
		{"directory is one", "", "", own("/proc/%d/root/%s"), "working directory /proc/"},
		{"directory by descriptor", "work", "/proc/self/fd/3", own("/work"), "working directory /work: "},
		{"volume of another process", "v", "/proc/%d/root/%s/r", own("/", volume("/v")), "at /v: /v: "},
		{"volume below one", "v", "/proc/%d/root/%s", own("/", volume("/v/r")), "at /v/r: /v/r: "},
		{"proc elsewhere", "proc", "/work", own("/"), "/proc: not a directory"},
		{"sys elsewhere", "sys", "work", own("/"), "/sys: not a directory"},
		{"dev elsewhere", "dev", "/work", own("/"), "/dev: not a directory"},
		{"names elsewhere", table.EtcTarget, "/work", own("/"), table.EtcTarget + ": not a directory"},
		{"proc nowhere", "proc", "", own("/"), "the image is not mounted"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRooted(t)
			fill := func(s string) string {
				s = strings.ReplaceAll(s, "%d", fmt.Sprint(os.Getpid()))
				return strings.ReplaceAll(s, "%s", strings.TrimPrefix(r.dir, "/"))
			}
			if tt.link != "" {
				p := filepath.Join(r.dir, "r", tt.link)
				if err := os.Remove(p); err != nil {
					t.Fatal(err)
				}
				if tt.to != "" {
					if err := os.Symlink(fill(tt.to), p); err != nil {
						t.Fatal(err)
					}
				}
			}
			tt.s.Dir = fill(tt.s.Dir)
			out, err := r.run(t, "echo started in; /bin/pwd; cat secret", tt.s)
			if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != Failed || !strings.Contains(out, tt.want) {
				t.Errorf("%v: %q, want %q", err, out, tt.want)
			}
		})
	}
}

// Links that stay in the root are followed, as before.
func TestLinksThatStayInARoot(t *testing.T) {
	r := newRooted(t)
	for link, to := range map[string]string{"here": "/work", "var": "v"} {
		if err := os.Symlink(to, filepath.Join(r.dir, "r", link)); err != nil {
			t.Fatal(err)
		}
	}
	out, err := r.run(t, "/bin/pwd; cat /v/sub/file", table.Service{Root: &table.Root{Image: "i", Path: "/r"}, Dir: "/here", Mounts: []table.Mount{{Source: "/volume", Target: "/var"}}})
	if want := "/work\nin the volume\n"; err != nil || out != want {
		t.Errorf("%v: %q, want %q", err, out, want)
	}
}

// What the node mounts later does not arrive in a container's views of the kernel, where
// it would be open. (TestMain makes a node's mounts of the machine's.)
func TestViewsAreCutOff(t *testing.T) {
	r := newRooted(t)
	t.Setenv("LAUNCH_SHARED", "1")
	const script = `while read -r id parent dev root at rest; do case $at in /proc*|/sys*|/dev|/.garboard) case $rest in *\ devtmpfs\ *) ;; *master:*|*shared:*) echo $at $rest;; *) n=$((n+1));; esac;; esac; done < /proc/self/mountinfo; test ${n:-0} -gt 5 && echo looked`
	// A device is a file: nothing arrives below it.
	out, err := r.run(t, script, table.Service{Root: &table.Root{Image: "i", Path: "/r"}})
	if err != nil || out != "looked\n" {
		t.Errorf("%v: %s", err, out)
	}
	out, err = r.run(t, script, table.Service{Root: &table.Root{Image: "i", Path: "/r", Host: true}})
	if !strings.Contains(out, "/sys ") || !strings.Contains(out, "master:") { // the control: it has the node's
		t.Errorf("a privileged one: %v: %s", err, out)
	}
}

// Nor does it arrive in a volume, if the manifest does not ask for that.
func TestVolumesAreCutOff(t *testing.T) {
	r := newRooted(t)
	t.Setenv("LAUNCH_SHARED", "1")
	const script = `while read -r id parent dev root at rest; do case $at in /v) case $rest in *master:*) echo arrives;; *) echo private;; esac;; esac; done < /proc/self/mountinfo`
	for private, want := range map[bool]string{true: "private\n", false: "arrives\n"} {
		out, err := r.run(t, script, table.Service{Root: &table.Root{Image: "i", Path: "/r"}, Mounts: []table.Mount{{Source: "/volume", Target: "/v", Private: private}}})
		if err != nil || out != want {
			t.Errorf("private %v: %v: %q, want %q", private, err, out, want)
		}
	}
}

// Places for volumes in a container's /dev are made as it is; devices that are made there
// do not work.
func TestVolumesInDev(t *testing.T) {
	r := newRooted(t)
	if err := os.Symlink("/dev/null", filepath.Join(r.dir, "nothing")); err != nil {
		t.Fatal(err)
	}
	s := table.Service{Root: &table.Root{Image: "i", Path: "/r"}, Mounts: []table.Mount{
		{Source: "/volume", Target: "/dev/own/dir"}, {Source: "/secret", Target: "/dev/own/file", File: true},
		{Source: "/nothing", Target: "/dev/nothing", File: true}, {Source: "/volume", Target: "/dev/shm"},
	}}
	const script = `cat /dev/own/dir/sub/file /dev/own/file /dev/shm/sub/file && echo x > /dev/nothing; while read -r id parent dev root at how rest; do case $at in /dev|/dev/pts) echo $at $how;; esac; done < /proc/self/mountinfo`
	out, err := r.run(t, script, s)
	want := "in the volume\nthe node's\nin the volume\n/dev rw,nosuid,nodev,noexec,relatime\n/dev/pts rw,nosuid,noexec,relatime\n"
	if err != nil || out != want {
		t.Errorf("%v: %q, want %q", err, out, want)
	}
	if list, err := os.ReadDir(r.dir + "/r/dev"); err != nil || len(list) != 0 {
		t.Errorf("left in the image's /dev: %v %v", list, err)
	}
}

// A program that is no root's opens its output by name, as one does whose log is a link
// to /dev/stdout; and the null device, which is everybody's, stays as it is.
func TestOutputByName(t *testing.T) {
	if os.Getuid() != 0 {
		return // the only user of a user namespace has no other
	}
	r := newRooted(t)
	s := table.Service{Root: &table.Root{Image: "i", Path: "/r"}, User: "4711", Group: "4712"}
	if err := os.Chmod(r.dir+"/r", 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := r.run(t, "echo one > /dev/stdout; echo two > /dev/stderr; ls -ln /dev/null | cut -d' ' -f3", s)
	if want := "one\ntwo\n0\n"; err != nil || out != want {
		t.Errorf("%v: %q, want %q", err, out, want)
	}
}

func TestMatches(t *testing.T) {
	dir := t.TempDir()
	for _, p := range []string{"a/cpu0/x", "a/cpu11", "a/online"} {
		if err := os.MkdirAll(filepath.Join(dir, p), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	fd, err := unix.Open(dir, unix.O_PATH, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for pattern, want := range map[string][]string{"plain/name": {"plain/name"}, "a/cpu*/x": {"a/cpu0/x", "a/cpu11/x"}, "gone/cpu*/x": nil} {
		got, err := matches(fd, pattern)
		slices.Sort(got)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q %v, want %q", pattern, got, err, want)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := matches(fd, "file/*"); err == nil {
		t.Error("a file has names in it")
	}
}
