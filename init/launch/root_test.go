package launch

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"garboard.local/init/table"
)

// rooted is a node's files with a root for a service, whose programs are the
// machine's; it runs a script in it.
type rooted struct{ dir string }

func newRooted(t *testing.T) rooted {
	t.Helper()
	r := rooted{t.TempDir()}
	for path, text := range map[string]string{
		"etc/passwd": "root:x:0:0::/:/x\nalice:x:0:0::/:/x\n", "etc/group": "root:x:0:\n", "secret": "the node's\n",
		table.EtcDir + "/resolv.conf": "nameserver 192.0.2.1\n",
		"volume/sub/file":             "in the volume\n",
		"r/etc/passwd":                "nobody else\n", "r/image": "the image's\n",
	} {
		p := filepath.Join(r.dir, path)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{"proc", "sys", "dev", "v", "usr", "etc", "work", table.EtcTarget} {
		if err := os.MkdirAll(filepath.Join(r.dir, "r", d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	links := map[string]string{"machine": "/usr", "volume/out": "/etc", "volume/up": "../secret", "volume/in": "sub", "r/etc/resolv.conf": table.EtcTarget + "/resolv.conf"}
	for _, d := range []string{"bin", "lib", "lib64"} {
		links["r/"+d] = "usr/" + d
	}
	for p, to := range links {
		if err := os.Symlink(to, filepath.Join(r.dir, p)); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func (r rooted) run(t *testing.T, script string, s table.Service) (string, error) {
	t.Helper()
	s.Mounts = append(s.Mounts, table.Mount{Source: "/machine", Target: "/usr", ReadOnly: true})
	return output(t, r.dir, script, s, "LAUNCH_SHARED="+os.Getenv("LAUNCH_SHARED"), "PATH=/usr/bin")
}

// A service with a root sees that, with what a container has of the kernel, and
// nothing of the node's files.
func TestRoot(t *testing.T) {
	r := newRooted(t)
	own := table.Service{Root: &table.Root{Image: "i", Path: "/r"}, Dir: "/work"}
	privileged := table.Service{Root: &table.Root{Image: "i", Path: "/r", Host: true}}
	volume := own
	volume.Mounts = []table.Mount{{Source: "/volume", Target: "/v", Sub: "in"}}
	named := own
	named.User = "alice" // of the node's /etc/passwd; the image has none of that name
	for _, tt := range []struct {
		name, script string
		s            table.Service
		want         string
	}{
		{"files", "pwd; cat /image /etc/passwd; ls /; test -e /../secret || echo nothing above", own,
			"/work\nthe image's\nnobody else\nbin\ndev\netc\nimage\nlib\nlib64\nproc\nsys\nusr\nv\nwork\nnothing above\n"},
		{"name servers", "cat /etc/resolv.conf; { echo x > /etc/resolv.conf; } 2>/dev/null || echo not to be changed", own, "nameserver 192.0.2.1\nnot to be changed\n"},
		{"devices", "ls /dev; echo x > /dev/null && head -c 3 /dev/zero | wc -c; test -e /dev/pts/ptmx && readlink /dev/ptmx", own,
			"fd\nfull\nnull\nptmx\npts\nrandom\nshm\nstderr\nstdin\nstdout\ntty\nurandom\nzero\n3\npts/ptmx\n"},
		{"kernel", "for f in /proc/sys/kernel/domainname /proc/sysrq-trigger /sys/kernel/profiling; do test -e $f || continue; { echo x > $f; } 2>/dev/null && echo $f is open; done; wc -c < /proc/keys; ls /sys/firmware", own, "0\n"},
		{"privileged", "test -e /dev/mem -o -e /dev/kmsg -o -e /dev/core && echo the machine; grep -c ' /proc/sys \\| /dev/null ' /proc/self/mountinfo", privileged, ""},
		{"part of a volume", "cat /v/file; echo new > /v/new; echo own > /mine", volume, "in the volume\n"},
		{"user of the node", "id -u", named, "0\n"},
	} {
		if tt.s.User != "" && os.Getuid() != 0 {
			continue // the only user of a user namespace cannot give its groups up
		}
		t.Run(tt.name, func(t *testing.T) {
			out, err := r.run(t, tt.script, tt.s)
			if tt.name == "privileged" { // what there is depends on where the test runs
				if strings.HasSuffix(out, "1\n") || !strings.HasSuffix(out, "0\n") {
					t.Errorf("%v: %q", err, out)
				}
				return
			}
			if err != nil || out != tt.want {
				t.Errorf("%v: %q, want %q", err, out, tt.want)
			}
		})
	}
	for p, want := range map[string]string{"volume/sub/new": "new\n", "r/mine": "own\n"} {
		if b, err := os.ReadFile(filepath.Join(r.dir, p)); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v", p, b, err)
		}
	}
	if list, err := os.ReadDir(r.dir + "/r/dev"); err != nil || len(list) != 0 {
		t.Errorf("left in the image's /dev: %v %v", list, err)
	}
}

// What a service has put into a volume does not lead out of it.
func TestSubPathStaysInside(t *testing.T) {
	r := newRooted(t)
	for _, root := range []*table.Root{nil, {Image: "i", Path: "/r"}} {
		for sub, want := range map[string]string{"out": "leads out of", "up": "leads out of", "absent": "no such file"} {
			s := table.Service{Root: root, Mounts: []table.Mount{{Source: "/volume", Target: "/v", Sub: sub}}}
			out, err := r.run(t, "cat /v/passwd", s)
			if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != Failed || !strings.Contains(out, want) {
				t.Errorf("%s: %v: %q, want %q", sub, err, out, want)
			}
		}
	}
}

func TestRootThatIsNotThere(t *testing.T) {
	r := newRooted(t)
	for path, want := range map[string]string{"/absent": "no such file", "/secret": "not a directory"} {
		out, err := r.run(t, "true", table.Service{Root: &table.Root{Image: "the image", Path: path}})
		if err == nil || !strings.Contains(out, want) || !strings.Contains(out, "root of image the image") {
			t.Errorf("%s: %v: %q, want %q", path, err, out, want)
		}
	}
}
