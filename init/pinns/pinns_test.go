package pinns

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMain lets the test binary be pinns itself.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "pinns" {
		os.Exit(Main(os.Args[1:], os.Stderr))
	}
	os.Exit(m.Run())
}

func TestParse(t *testing.T) {
	ns := func(names ...string) map[string]bool {
		m := map[string]bool{}
		for _, n := range names {
			m[n] = true
		}
		return m
	}
	for _, tt := range []struct {
		args string
		want options
		err  string
	}{
		// as cri-o calls it
		{args: "-d /var/run -f id -s net.ipv4.x=1 -s kernel.shmmax=2 --ipc --uts --net",
			want: options{dir: "/var/run", file: "id", pin: ns("ipc", "uts", "net"),
				unshare: unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWNET,
				sysctls: [][2]string{{"net.ipv4.x", "1"}, {"kernel.shmmax", "2"}}}},
		{args: "-d d -f f --ipc=host --net",
			want: options{dir: "d", file: "f", pin: ns("ipc", "net"), unshare: unix.CLONE_NEWNET}},
		{args: "-d d -f f --user --uid-mapping=0-100000-65536@ --gid-mapping=0-5-1@1-9-2@",
			want: options{dir: "d", file: "f", pin: ns("user"), unshare: unix.CLONE_NEWUSER,
				uids: []mapping{{0, 100000, 65536}}, gids: []mapping{{0, 5, 1}, {1, 9, 2}}}},
		{args: "-uin -dd -ff -cm",
			want: options{dir: "d", file: "f", pin: ns("uts", "ipc", "net", "cgroup", "mnt"),
				unshare: unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP | unix.CLONE_NEWNS}},
		{args: "--dir=d --filename f --sysctl=a=b=c -u",
			want: options{dir: "d", file: "f", pin: ns("uts"), unshare: unix.CLONE_NEWUTS, sysctls: [][2]string{{"a", "b=c"}}}},
		{args: "-f f -u", err: "no directory"},
		{args: "-d d -u", err: "no file name"},
		{args: "-d d -f ../f -u", err: "holds a '/'"},
		{args: "-d d -f f", err: "no namespace"},
		{args: "-d d -f f -U", err: "needs --uid-mapping"},
		{args: "-d d -f f -u --uid-mapping=0-0-1 --gid-mapping=0-0-1", err: "without a user namespace"},
		{args: "-d d -f f -U --uid-mapping=0-0 --gid-mapping=0-0-1", err: "INSIDE-OUTSIDE-SIZE"},
		{args: "-d d -f f -U --uid-mapping=0-x-1 --gid-mapping=0-0-1", err: "not a number"},
		{args: "-d d -f f -u -s novalue=", err: "key=value"},
		{args: "-d d -f f -u --pid", err: "not known"},
		{args: "-d d -f f -u extra", err: "no option"},
		{args: "-u -d", err: "needs a value"},
	} {
		got, err := parse(strings.Fields(tt.args))
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: error %v, want %q", tt.args, err, tt.err)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(*got, tt.want) {
			t.Errorf("%s:\ngot  %+v, %v\nwant %+v", tt.args, got, err, tt.want)
		}
	}
}

func FuzzParseMapping(f *testing.F) {
	f.Add("0-100000-65536@1-2-3@")
	f.Fuzz(func(t *testing.T, s string) {
		list, err := parseMapping(s)
		if err != nil {
			return
		}
		var b strings.Builder
		for _, m := range list {
			fmt.Fprintf(&b, "%d-%d-%d@", m.inside, m.outside, m.size)
		}
		again, err := parseMapping(b.String())
		if err != nil || !reflect.DeepEqual(list, again) {
			t.Fatalf("%q gives %v, then %v (%v)", s, list, again, err)
		}
	})
}

// onOneCPU runs a command on one processor. A mount namespace can be bound only
// in one that is older, and newer kernels number namespaces in batches per
// processor: a child made on another one may look older than the test's own. A
// node has no such trouble, since its pods are pinned in the first namespace.
func onOneCPU(t *testing.T, c *exec.Cmd) ([]byte, error) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	for cpu := 0; one.Count() == 0; cpu++ {
		if all.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		t.Fatal(err)
	}
	defer unix.SchedSetaffinity(0, &all)
	return c.CombinedOutput()
}

// TestPin makes real namespaces where it may: as root, in a mount namespace of
// its own, so that nothing stays behind. Elsewhere it makes sure that the
// refusal of the kernel is an error with a message.
func TestPin(t *testing.T) {
	if os.Getuid() != 0 {
		var stderr bytes.Buffer
		if Main([]string{"-d", t.TempDir(), "-f", "x", "-n"}, &stderr) == 0 || stderr.Len() == 0 {
			t.Error("namespaces made without the right to")
		}
		return
	}
	if os.Getenv("GARBOARD_PINNS_CHILD") == "" {
		c := exec.Command(os.Args[0], "-test.run=^TestPin$", "-test.v")
		c.Env = append(os.Environ(), "GARBOARD_PINNS_CHILD=1")
		c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
		if out, err := onOneCPU(t, c); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, args string
		fresh      string // namespaces that must be new ones
		host       string // and those that must be ours
	}{
		{"as for a pod", "-s net.ipv4.ip_unprivileged_port_start=7 -u -i -n", "uts ipc net", ""},
		{"host ipc", "--ipc=host --net", "net", "ipc"},
		{"cgroup", "-c", "cgroup", ""},
		{"mount", "-m -u", "mnt uts", ""},
		{"mount again", "-m", "mnt", ""},
		{"user", "-U -n -s net.ipv4.ip_unprivileged_port_start=9 --uid-mapping=0-100000-65536@ --gid-mapping=0-100000-65536@", "user net", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "ns")
			c := exec.Command("/proc/self/exe", append([]string{"-d", dir, "-f", "id"}, strings.Fields(tt.args)...)...)
			c.Args[0] = "pinns"
			if out, err := c.CombinedOutput(); err != nil || len(out) > 0 {
				t.Fatalf("%v: %s", err, out)
			}
			for _, k := range strings.Fields(tt.fresh + " " + tt.host) {
				f := filepath.Join(dir, k+"ns", "id")
				same := inode(t, f) == inode(t, "/proc/self/ns/"+k)
				if same == strings.Contains(tt.fresh, k) {
					t.Errorf("%s: the host's own: %v", k, same)
				}
				var st unix.Statfs_t
				if err := unix.Statfs(f, &st); err != nil || int64(st.Type) != unix.NSFS_MAGIC {
					t.Errorf("%s is no namespace: %v", f, err)
				}
				if err := unix.Unmount(f, 0); err != nil {
					t.Error(err)
				}
				if k == "mnt" {
					if err := unix.Unmount(filepath.Dir(f), 0); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	var stderr bytes.Buffer
	if Main([]string{"-d", t.TempDir(), "-f", "x", "-s", "no.such=1", "-m"}, &stderr) == 0 {
		t.Error("a sysctl that does not exist is no failure")
	}
}

func inode(t *testing.T, p string) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(p, &st); err != nil {
		t.Fatal(err)
	}
	return st.Ino
}
