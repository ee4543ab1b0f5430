package component

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseConfigErrors(t *testing.T) {
	const ok = "module: example.com/greet\nbinaries: {greet: ./cmd/greet}\n"
	if _, err := parseConfig([]byte(ok)); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, yaml, want string }{
		{"empty", "", "empty"},
		{"unknown field", ok + "tagz: [a]\n", "line 3: field tagz not found"},
		{"twice", ok + "module: example.com/other\n", "already defined"},
		{"wrong type", ok + "tags: {a: b}\n", "line 3"},
		{"two documents", ok + "---\nmodule: x\n", "more than one"},
		{"no module", "binaries: {greet: ./cmd/greet}\n", "module"},
		{"no binaries", "module: example.com/greet\n", "binaries: none"},
		{"binary outside", "module: example.com/greet\nbinaries: {greet: ./../x}\n", `"./../x" is not a package`},
		{"binary absolute", "module: example.com/greet\nbinaries: {greet: /x}\n", `"/x" is not a package`},
		{"binary name", "module: example.com/greet\nbinaries: {a/b: ./x}\n", `"a/b"`},
		{"flag for a package", "module: example.com/greet\nbinaries: {a: -o}\n", `"-o" is not a package`},
		{"test outside", ok + "tests: [../x]\n", "tests"},
		{"tags with comma", ok + "tags: ['a,b']\n", "build tag"},
		{"stamp without variable", ok + "stamp: {version: x}\n", "stamp"},
		{"stamp placeholder", ok + "stamp: {a.B: '{{commit}}'}\n", "{{commit}} is neither"},
		{"copy outside", ok + "copy: {../x: y}\n", `copy: "../x"`},
		{"copy to outside", ok + "copy: {x: /y}\n", `"/y"`},
		{"replace outside", ok + "replace: {example.com/x: ../x}\n", `replace: "../x"`},
		{"patch outside", ok + "patch: {example.com/x: ../x}\n", `patch: "../x"`},
		{"patch of itself", ok + "patch: {example.com/greet: x}\n", "patches/"},
		{"patch of a stand-in", ok + "patch: {example.com/x: x}\nreplace: {example.com/x: y}\n", "patch: example.com/x is replaced"},
		{"replace by itself", ok + "replace: {example.com/greet: x}\n", "patch it instead"},
	} {
		if _, err := parseConfig([]byte(tt.yaml)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: the error is %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestLoadNamesTheFile(t *testing.T) {
	f := newFake(t)
	f.write("overlays/src/greet/component.yaml", "module: example.com/greet\nbinary: x\n")
	f.buildError("overlays/src/greet/component.yaml", "line 2", "binary")
	for _, name := range []string{"", "..", "a/b", "A", "-x"} {
		if _, err := load(f.root, name); err == nil {
			t.Errorf("component %q was loaded", name)
		}
	}
}

func TestFlags(t *testing.T) {
	c := component{pin: pin{version: "v1.2.3"}, Config: Config{Tags: []string{"b", "a"}, Stamp: map[string]string{
		"x.Z": "it's", "x.A": "{{version}}", "x.B": "two words",
	}}}
	flags, err := c.flags("amd64")
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(flags, " ")
	want := `-mod=readonly -trimpath -buildvcs=false -tags a,b -ldflags -s -w -buildid= -X x.A=v1.2.3 -X 'x.B=two words' -X "x.Z=it's"`
	if got != want {
		t.Errorf("flags are\n%s, want\n%s", got, want)
	}
	for _, bad := range []string{"a'b\"c", "two\nlines"} {
		c.Stamp = map[string]string{"x.A": bad}
		if flags, err := c.flags("amd64"); err == nil {
			t.Errorf("%q is stamped as %v", bad, flags)
		}
	}
}

func TestBatches(t *testing.T) {
	got := batches(map[string]string{"a": "x/main", "b": "y/main", "c": "z/tool/v2", "d": "tool", "e": "z/other"})
	if len(got) != 2 || strings.Join(got[0], "") != "ace" || strings.Join(got[1], "") != "bd" {
		t.Errorf("%v", got)
	}
}

func TestOptions(t *testing.T) {
	for v, ok := range map[string]bool{"1.26.8": true, "go1.26.8": true, "1.27rc1": true, "1.26": true, "": false, "local": false, "1.26.8+auto": false} {
		if _, err := (Options{GoVersion: v, RepoRoot: "."}).withDefaults(); (err == nil) != ok {
			t.Errorf("Go version %q: %v", v, err)
		}
	}
}

// The components of this repository are whole: each can be described.
func TestOurComponents(t *testing.T) {
	root := filepath.Join("..", "..")
	for _, name := range []string{"crio", "cni"} {
		info, err := Describe(root, name)
		if err != nil {
			t.Fatal(err)
		}
		c, err := load(root, name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.inputs(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !strings.HasPrefix(info.Sum, "h1:") || !strings.HasPrefix(info.Version, "v1.") {
			t.Errorf("%+v", info)
		}
	}
}

func TestTail(t *testing.T) {
	said := &tail{max: 2}
	for _, s := range []string{"one\ntw", "o\ngo: downloading x v1\nthr", "ee\nfour"} {
		if n, err := said.Write([]byte(s)); n != len(s) || err != nil {
			t.Fatal(n, err)
		}
	}
	if got := said.String(); got != "two\nthree\nfour" {
		t.Errorf("%q", got)
	}
}

func TestWalkRefusesLinks(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if set, err := walk(dir, true); err == nil {
		t.Errorf("%v", set.names)
	}
}
