package systemd

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coreos/go-systemd/v22/unit"

	"garboard.local/builder/source/debian"
	"garboard.local/pod"
)

// toolsEnv names the root of the pinned host tools, among which is systemd.
// `garboard test node` sets it; these tests are part of that.
const toolsEnv = "GARBOARD_TOOLS"

// toolsRoot is where the pinned tools are, or "" in the quick tests.
func toolsRoot(t *testing.T) string {
	t.Helper()
	root := os.Getenv(toolsEnv)
	if root == "" {
		if !testing.Short() {
			t.Fatalf("$%s is not set; run `garboard test node`, or go test -short", toolsEnv)
		}
		t.Log("quick tests: systemd's judgement is part of `garboard test node`")
	}
	return root
}

// machine is a root directory with the units of systemd that ours refer to.
type machine struct {
	t          *testing.T
	tools, dir string
}

func newMachine(t *testing.T, tools string) *machine {
	m := &machine{t, tools, t.TempDir()}
	from := filepath.Join(tools, "usr/lib/systemd/system")
	for _, pattern := range []string{"*.target", "*.slice"} {
		files, err := filepath.Glob(filepath.Join(from, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				continue // a link to what another package has
			}
			m.write("/usr/lib/systemd/system/"+filepath.Base(f), b, 0o644)
		}
	}
	if _, err := os.Stat(filepath.Join(m.dir, "usr/lib/systemd/system/sysinit.target")); err != nil {
		t.Fatalf("the tools have no units of systemd: %v", err)
	}
	return m
}

func (m *machine) write(path string, b []byte, mode os.FileMode) {
	m.t.Helper()
	p := filepath.Join(m.dir, path)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(p, b, mode); err != nil {
		m.t.Fatal(err)
	}
}

// programs puts a stand-in where each unit expects its program: verify looks
// whether it is there.
func (m *machine) programs(plans []*pod.Plan) {
	all := []string{systemctl, tmpfiles, sysctl, sysusers, DefaultProbePath}
	for _, p := range plans {
		for _, s := range p.Services {
			for _, argv := range [][]string{s.Argv, s.PreStop, s.PostStart} {
				if len(argv) > 0 && argv[0] != "" {
					all = append(all, argv[0])
				}
			}
		}
	}
	for _, p := range all {
		if !filepath.IsAbs(p) {
			p = "/usr/bin/" + p
		}
		m.write(p, []byte("#!/bin/false\n"), 0o755)
	}
}

// verify has systemd-analyze check unit files; what it says on standard error
// is a complaint even if its status is 0.
func (m *machine) verify(env []string, units ...string) (stdout string, complaint string) {
	m.t.Helper()
	args := []string{"verify", "--man=no", "--generators=no", "--recursive-errors=yes", "--root=" + m.dir}
	for _, u := range units {
		args = append(args, filepath.Join(m.dir, u))
	}
	cmd := debian.Command(context.Background(), m.tools, "systemd-analyze", args...)
	cmd.Env = append([]string{"PATH=/usr/bin:/bin"}, env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		errs.WriteString(err.Error())
		if _, exited := err.(*exec.ExitError); !exited {
			m.t.Fatal(err)
		}
	}
	return out.String(), errs.String()
}

// systemd-analyze accepts every unit that is generated, and complains of a bad one.
func TestVerify(t *testing.T) {
	tools := toolsRoot(t)
	if tools == "" {
		return
	}
	count := 0
	for _, f := range manifestFiles(t) {
		for _, o := range []pod.Options{{}, {ImagesDir: imagesDir(t, f)}} {
			label := name(f)
			if o.ImagesDir != "" {
				label += " in images"
			}
			t.Run(label, func(t *testing.T) {
				c := convert(t, f, o, Options{})
				m := newMachine(t, tools)
				m.programs(c.plans)
				var units []string
				for _, x := range c.files {
					m.write(x.Path, x.Content, os.FileMode(x.Mode))
					if strings.HasPrefix(x.Path, UnitDir+"/") {
						units = append(units, x.Path)
					}
				}
				if len(c.plans) == 0 {
					if c.refusals == "" {
						t.Error("neither units nor a reason")
					}
					return
				}
				if _, complaint := m.verify(nil, units...); complaint != "" {
					t.Errorf("systemd-analyze verify:\n%s", complaint)
				}
				count += len(units)
			})
		}
	}
	if count < 40 {
		t.Errorf("only %d units were verified", count)
	}
	m := newMachine(t, tools)
	m.write("/bin/true", nil, 0o755)
	for _, bad := range []string{"ExecStart=relative/path", "ExecStart=/bin/true\nNoSuchKey=1", "ExecStart=/bin/absent", "ExecStart=/bin/true\nCPUQuota=much"} {
		m.write(UnitDir+"/bad.service", []byte("[Service]\n"+bad+"\n"), 0o644)
		if _, complaint := m.verify(nil, UnitDir+"/bad.service"); complaint == "" {
			t.Errorf("negative control: a unit with %q is accepted", bad)
		}
	}
}

// imagesDir has a configuration for every image of a manifest.
func imagesDir(t *testing.T, file string) string {
	dir := t.TempDir()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if _, image, ok := strings.Cut(strings.TrimSpace(line), "image: "); ok {
			d := filepath.Join(dir, pod.ImageDir(image))
			if err := os.MkdirAll(filepath.Join(d, "rootfs"), 0o755); err != nil {
				t.Fatal(err)
			}
			config := `{"config": {"Entrypoint": ["/entry point"], "Cmd": ["by", "default"], "Env": ["PATH=/bin:/app", "LANG=C"], "WorkingDir": "/app", "User": "10:20"}}`
			if err := os.WriteFile(filepath.Join(d, "config.json"), []byte(config), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// Unit names are systemd's escaping, and come back by it.
func TestNames(t *testing.T) {
	tools := toolsRoot(t)
	w := &writer{plan: &pod.Plan{Namespace: "a-b", Name: "c.d-e"}}
	got := w.name("f-g", ".service")
	if want := `pod-a\x2db-c.d\x2de-f\x2dg.service`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	parts := strings.Split(strings.TrimSuffix(got, ".service"), "-")
	for i, want := range []string{"pod", "a-b", "c.d-e", "f-g"} {
		if s := unit.UnitNameUnescape(parts[i]); s != want {
			t.Errorf("part %d is %q, want %q", i, s, want)
		}
		if tools == "" || i == 0 {
			continue
		}
		out, err := debian.Command(t.Context(), tools, "systemd-escape", "--", want).Output()
		if err != nil || strings.TrimSpace(string(out)) != parts[i] {
			t.Errorf("systemd-escape %s says %q, %v; want %q", want, out, err, parts[i])
		}
	}
	// What would collide if dashes were not escaped.
	names := []string{}
	for _, x := range [][3]string{{"a", "b-c", "d"}, {"a-b", "c", "d"}, {"a", "b", "c-d"}, {"a", "b-c-d", ""}, {"a-b", "c-d", ""}} {
		w := &writer{plan: &pod.Plan{Namespace: x[0], Name: x[1]}}
		names = append(names, w.name(x[2], ".service"))
	}
	slices.Sort(names)
	if n := len(slices.Compact(slices.Clone(names))); n != len(names) {
		t.Errorf("names collide: %q", names)
	}
}
