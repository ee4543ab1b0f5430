package lock

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"garboard.local/builder/source/debian"
	"garboard.local/builder/source/debian/debiantest"
	"garboard.local/builder/store"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func deb(name, version, depends string) debiantest.Deb {
	return debiantest.Deb{Name: name, Version: version, Depends: depends}
}

func arm(d debiantest.Deb) debiantest.Deb { d.Arch = "arm64"; return d }

// repo is an archive with a node's packages for both architectures and a tool.
func repo(t *testing.T) *debiantest.Repo {
	all := deb("tool-data", "1", "")
	all.Arch = "all"
	lib := deb("libyajl2", "2.1", "libc6")
	lib.Source = "yajl (2.1-0)"
	return debiantest.New(t, deb("crun", "1.21-1", "libc6, libyajl2"), lib, deb("libc6", "2.41-1", ""), deb("tool", "3", "libc6, tool-data"), all,
		arm(deb("crun", "1.21-1", "libc6")), arm(deb("libc6", "2.41-1", "")), arm(deb("tool", "3", "tool-data")))
}

func archive(t *testing.T, r *debiantest.Repo) *debian.Archive {
	t.Helper()
	st, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	url := debiantest.Serve(t, r)
	a, err := debian.New(debian.Options{Store: st, Keys: r.Keys(), Now: func() time.Time { return r.Now }, Attempts: 1,
		Mirrors: debian.Mirrors{Base: []string{url + "/debian"}, Security: []string{url + "/debian-security"}}})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func requests() Requests {
	return Requests{Packages: map[string][]string{"amd64": {"crun"}, "arm64": {"crun"}}, Tools: []string{"tool"},
		ComponentsDir: "testdata/components", GoVersion: "1.26.8"}
}

func resolved(t *testing.T, r *debiantest.Repo) *Lock {
	t.Helper()
	l, err := Resolve(context.Background(), archive(t, r), requests())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want one with %q", parts)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q lacks %q", err, p)
		}
	}
}

func TestResolveWriteRead(t *testing.T) {
	l := resolved(t, repo(t))
	path := filepath.Join(t.TempDir(), "garboard.lock")
	if err := l.Write(path); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// The packages' hashes depend on how the test's archive compresses them.
	var lines []string
	for line := range strings.Lines(string(got)) {
		if f := strings.Fields(line); len(f) == 2 && (f[0] == "sha256:" || f[0] == "size:") {
			line = strings.Replace(line, f[1], "X", 1)
		}
		lines = append(lines, line)
	}
	golden := "testdata/garboard.lock.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(strings.Join(lines, "")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Join(lines, "") != string(want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, ""), want)
	}

	back, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := Diff(l, back); len(d) > 0 {
		t.Errorf("read back with changes: %v", d)
	}
	slices.Reverse(back.Debian.Packages["amd64"]) // order in memory must not show
	again, err := back.Marshal()
	if err != nil || !bytes.Equal(again, got) {
		t.Errorf("written again it differs: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".garboard*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestReadRefused(t *testing.T) {
	good, err := resolved(t, repo(t)).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	replace := func(old, new string) string {
		if !strings.Contains(string(good), old) {
			t.Fatalf("the lock lacks %q", old)
		}
		return strings.Replace(string(good), old, new, 1)
	}
	for _, tc := range []struct{ name, text, want string }{
		{"empty", "", "it is empty"},
		{"not YAML", "a: [", "yaml"},
		{"unknown field", replace("suites:", "sweets:"), "sweets"},
		{"field twice", replace("go: ", "go: 1.26.8\ngo: "), "already defined"},
		{"newer form", replace("version: 1", "version: 2"), "version 2 is not 1"},
		{"two documents", string(good) + "---\nversion: 1\n", "more than one"},
		{"Go version", replace("go: 1.26.8", "go: latest"), `"latest" is not a version`},
		{"architecture", replace("    arm64:", "    riscv64:"), `"riscv64" is neither`},
		{"package of another architecture", replace("architecture: amd64", "architecture: arm64"), "is for arm64"},
		{"package twice", replace("name: libc6", "name: crun"), "package crun comes twice"},
		{"hash", replace("sha256: ", "sha256: 0"), "64 lower-case hexadecimal digits"},
		{"no size", replace("size: ", "size: -"), "size -"},
		{"path out of the pool", replace("file: pool/main", "file: pool/../../main"), "is not pool/"},
		{"absolute path", replace("file: pool", "file: /pool"), "is not pool/"},
		{"archive", replace("archive: debian", "archive: ubuntu"), `"ubuntu" is neither`},
		{"package name", replace("name: libc6", "name: ../libc6"), "is malformed"},
		{"component hash", replace("gomod: ", "gomod: x"), "is not a sha256"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "garboard.lock")
			if err := os.WriteFile(path, []byte(tc.text), 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := Read(path)
			wantError(t, err, path, tc.want, "`garboard lock`")
		})
	}
	_, err = Read(filepath.Join(t.TempDir(), "garboard.lock"))
	wantError(t, err, "no such file", "`garboard lock`")
}

func names(ps []debian.Package) string {
	var out []string
	for _, p := range ps {
		out = append(out, p.Name+" "+p.Version)
	}
	return strings.Join(out, ", ")
}

func TestClosure(t *testing.T) {
	l := resolved(t, repo(t))
	ps, err := l.Closure("amd64", []string{"libyajl2"})
	if got := names(ps); err != nil || got != "libc6 2.41-1, libyajl2 2.1" {
		t.Errorf("got %q, %v", got, err)
	}
	ps, err = l.ToolClosure("arm64", []string{"tool"})
	if got := names(ps); err != nil || got != "tool 3, tool-data 1" {
		t.Errorf("got %q, %v", got, err)
	}
	_, err = l.Closure("amd64", []string{"conmon"})
	wantError(t, err, `package "conmon" is not in debian.packages.amd64`, "`garboard lock`")
	_, err = l.ToolClosure("riscv64", []string{"tool"})
	wantError(t, err, "tools.riscv64", "`garboard lock`")
	l.Debian.Packages["amd64"] = l.Debian.Packages["amd64"][:1]
	_, err = l.Closure("amd64", []string{"crun"})
	wantError(t, err, `"libc6", which crun needs,`)
}

func TestDiff(t *testing.T) {
	a, b := resolved(t, repo(t)), resolved(t, repo(t))
	b.Go = "1.26.9"
	p := b.Debian.Packages["amd64"]
	p[0].Version = "1.22-1" // crun
	p[1].Name = "musl"      // was libc6
	b.Tools["arm64"][0].SHA256 = strings.Repeat("0", 64)
	c := b.Components["cni"]
	c.GoSum = strings.Repeat("1", 64)
	b.Components["cni"] = c
	var out bytes.Buffer
	Print(&out, Diff(a, b))
	want := `go:
  ~ go 1.26.8 -> 1.26.9
components:
  ~ cni v1.10.0 -> v1.10.0 (other content)
debian amd64:
  ~ crun 1.21-1 -> 1.22-1
  - libc6 2.41-1
  + musl 2.41-1
tools arm64:
  ~ tool 3 -> 3 (other content)
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	if d := Diff(nil, a); len(d) == 0 || d[0].String() != "+ go 1.26.8" {
		t.Errorf("against nothing: %v", d)
	}
}

// A point release: crun and one library are superseded and gone, libc6 is
// superseded as well but some mirror still has it.
func TestRepair(t *testing.T) {
	ctx := context.Background()
	r := repo(t)
	l := resolved(t, r)
	yajlCommon := deb("libyajl-common", "2.2", "")
	yajlCommon.Source = "yajl"
	r.Debs["trixie"] = []debiantest.Deb{deb("crun", "1.22-1", "libc6, libyajl2 (>= 2.2)"), deb("libyajl2", "2.2", "libc6, libyajl-common"), yajlCommon,
		deb("libc6", "2.42-1", ""), deb("tool", "4", "libc6, tool-data"), r.Debs["trixie"][4],
		arm(deb("crun", "1.22-1", "libc6")), arm(deb("libc6", "2.42-1", "")), arm(deb("tool", "4", "tool-data"))}
	r.Publish()
	for _, d := range []debiantest.Deb{deb("libc6", "2.41-1", ""), arm(deb("libc6", "2.41-1", "")), deb("tool", "3", "libc6, tool-data"), arm(deb("crun", "1.21-1", "libc6"))} {
		r.Files[debiantest.PoolPath("debian", d)] = d.Bytes()
	}
	a := archive(t, r)

	pinned, err := l.Closure("amd64", []string{"crun"})
	if err != nil {
		t.Fatal(err)
	}
	gone := debian.Gone(a.FetchAll(ctx, pinned))
	if names(gone) != "crun 1.21-1, libyajl2 2.1" {
		t.Fatalf("gone: %s", names(gone))
	}
	before, err := l.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	q := requests()
	q.GoVersion, q.ComponentsDir = "1.99", "absent" // a repair looks at neither
	repaired, changes, err := Repair(ctx, a, l, q, gone)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	Print(&out, changes)
	want := `debian amd64:
  ~ crun 1.21-1 -> 1.22-1
  + libyajl-common 2.2
  ~ libyajl2 2.1 -> 2.2
debian arm64:
  ~ crun 1.21-1 -> 1.22-1
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	if after, err := l.Marshal(); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the old lock was changed: %v", err)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		ps, err := repaired.Closure(arch, []string{"crun"})
		if err != nil {
			t.Fatal(err)
		}
		if err := a.FetchAll(ctx, ps); err != nil {
			t.Errorf("%s after the repair: %v", arch, err)
		}
	}
}

func TestComponents(t *testing.T) {
	l := resolved(t, repo(t))
	c := l.Components["cni"]
	if c.Module != "example.org/net/plugins" || c.Version != "v1.10.0" || c.Sum != "h1:main=" {
		t.Errorf("pinned %+v", c)
	}
	if err := l.VerifyComponent("cni", "testdata/components/cni"); err != nil {
		t.Error(err)
	}
	wantError(t, l.VerifyComponent("kubelet", "testdata/components/cni"), `component "kubelet" is not in garboard.lock`, "`garboard lock`")

	gomod, _ := os.ReadFile("testdata/components/cni/go.mod")
	gosum, _ := os.ReadFile("testdata/components/cni/go.sum")
	for _, tc := range []struct{ name, mod, sum, want string }{
		{"comment added", string(gomod) + "\n// x\n", string(gosum), "is not the one that was locked"},
		{"other version", strings.ReplaceAll(string(gomod), "v1.10.0", "v1.11.0"), strings.ReplaceAll(string(gosum), "v1.10.0", "v1.11.0"), "requires example.org/net/plugins v1.11.0, the lock has"},
		{"other sum", string(gomod), strings.ReplaceAll(string(gosum), "h1:main=", "h1:evil="), "has h1:evil= for"},
		{"sum missing", string(gomod), "", "no sum of example.org/net/plugins v1.10.0"},
		{"no tool", "module x\n\ngo 1.26\n", "", "no tool directive"},
		{"two modules", strings.Replace(string(gomod), "example.org/net/plugins/main/loopback", "example.org/net/x", 1), string(gosum), "are of two modules"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			for n, s := range map[string]string{"go.mod": tc.mod, "go.sum": tc.sum} {
				if err := os.WriteFile(filepath.Join(dir, n), []byte(s), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			wantError(t, l.VerifyComponent("cni", dir), "component cni", tc.want)
		})
	}
}

func FuzzParse(f *testing.F) {
	b, err := (&Lock{Version: 1, Go: "1.26.8", Components: map[string]Component{}}).Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(fmt.Sprintf("version: 1\ngo: 1.26.8\ntools:\n  amd64:\n  - {name: a, version: 1, architecture: all, sha256: %064d, size: 1, file: pool/a.deb, archive: debian, source: a, sourceVersion: 1, depends: [b]}\n", 0)))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := Parse(b)
		if err != nil {
			return
		}
		once, err := l.Marshal()
		if err != nil {
			t.Fatalf("accepted but cannot be written: %v", err)
		}
		again, err := Parse(once)
		if err != nil {
			t.Fatalf("written but cannot be read: %v\n%s", err, once)
		}
		if twice, err := again.Marshal(); err != nil || !bytes.Equal(once, twice) {
			t.Errorf("not stable: %v\n%s\n%s", err, once, twice)
		}
	})
}
