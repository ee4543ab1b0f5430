package launch

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"garboard.local/init/table"
)

// A service sees its volumes, read-only ones so; nobody else sees them, and its
// working directory may be in one.
func TestMounts(t *testing.T) {
	root := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		p := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("etc/passwd", "root:x:0:0::/:/x\n")
	write("etc/group", "root:x:0:\n")
	write("source/sub/file", "from the source\n")
	write("single", "a single file\n")
	write("target/under", "covered\n")
	write("readonly/under", "covered\n")
	write("place", "covered\n")
	run := func(script string, mounts ...table.Mount) (string, error) {
		t.Helper()
		return output(t, root, script, table.Service{Mounts: mounts, Dir: "/target/sub"}, "R="+root, "PATH=/usr/bin:/bin")
	}
	all := []table.Mount{
		{Source: "/source", Target: "/target"}, {Source: "/source", Target: "/readonly", ReadOnly: true}, {Source: "/single", Target: "/place", ReadOnly: true, File: true},
	}
	out, err := run(`cat file $R/readonly/sub/file $R/place; echo written > new; { echo x > $R/readonly/sub/file; } 2>/dev/null || echo read-only; { echo x > $R/place; } 2>/dev/null || echo read-only too`, all...)
	if want := "from the source\nfrom the source\na single file\nread-only\nread-only too\n"; err != nil || out != want {
		t.Errorf("%v: %q, want %q", err, out, want)
	}
	for path, want := range map[string]string{"target/under": "covered\n", "place": "covered\n", "source/sub/new": "written\n", "source/sub/file": "from the source\n"} {
		if b, err := os.ReadFile(filepath.Join(root, path)); err != nil || string(b) != want {
			t.Errorf("%s outside: %q, %v, want %q", path, b, err, want)
		}
	}
	for _, tt := range []struct {
		m    table.Mount
		want string
	}{
		{table.Mount{Source: "/absent", Target: "/target"}, "/absent: no such file or directory"},
		{table.Mount{Source: "/source", Target: "/absent"}, "/absent: no such file or directory"},
		{table.Mount{Source: "/source", Target: "/place"}, "not a directory"},
		{table.Mount{Source: "/single", Target: "/place"}, "working directory /target/sub"},
	} {
		out, err := run("echo not reached", tt.m)
		exit, ok := err.(*exec.ExitError)
		if !ok || exit.ExitCode() != Failed || !strings.Contains(out, tt.want) {
			t.Errorf("%+v: %v: %q, want %q", tt.m, err, out, tt.want)
		}
	}
}
