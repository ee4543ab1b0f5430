package recipe

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite golden files")

const minimal = `name: node
kernel: {package: "linux-image-cloud-{arch}"}
outputs: [initramfs]
packages:
  - {name: crun, reason: runs containers, files: [/usr/bin/crun]}
`

func write(t *testing.T, dir, name, body string) string {
	t.Helper()
	p := filepath.Join(dir, name)
	if err := os.WriteFile(p, []byte(body), 0o644); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestErrorsNamePlaceAndCure(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"unknown field", minimal + "pacakges: []\n", `:6: unknown field pacakges; did you mean "packages"?`},
		{"unknown nested field", strings.Replace(minimal, "reason:", "raeson:", 1), `:5: unknown field packages[0].raeson; did you mean "reason"?`},
		{"nothing near", minimal + "zzzzqqqq: 1\n", ":6: unknown field zzzzqqqq"},
		{"twice", minimal + "name: other\n", ":6: name is given twice"},
		{"two documents", minimal + "---\nname: x\n", "more than one document"},
		{"empty", "", "empty"},
		{"comment only", "# nothing\n", "empty"},
		{"list where a mapping is", "name: x\nkernel: [a]\n", ":2: kernel is not a list"},
		{"value where a mapping is", "name: x\nkernel: linux\n", `:2: kernel is a mapping, not the value "linux"`},
		{"mapping where a list is", "name: x\npackages: {a: b}\n", ":2: packages is not a mapping"},
		{"alias", "name: &a x\nhostname: *a\n", "aliases are not used"},
		{"no reason", strings.Replace(minimal, "reason: runs containers, ", "", 1), "packages[0] (crun).reason is missing"},
		{"relative path", strings.Replace(minimal, "/usr/bin/crun", "usr/bin/crun", 1), "clean absolute path"},
		{"climbing path", strings.Replace(minimal, "/usr/bin/crun", "/usr/../bin/crun", 1), "clean absolute path"},
		{"bad name", strings.Replace(minimal, "name: node", "name: ../node", 1), "name \"../node\" must be"},
		{"unknown output", strings.Replace(minimal, "[initramfs]", "[floppy]", 1), `"floppy" is not known`},
		{"bad mode", minimal + "dirs: [{path: /var/x, mode: \"0999\"}]\n", "octal mode"},
		{"wildcard in a name", minimal + "sysctls: [{key: \"net.ipv4.conf.eth*.x\", value: \"0\"}]\n", "alone between two dots"},
		{"not yaml", "name: [\n", "recipe "},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := write(t, t.TempDir(), "r.yaml", c.body)
			_, err := Load(file)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v\nwant one that says %s", err, c.want)
			}
			if err != nil && !strings.Contains(err.Error(), file) {
				t.Errorf("error %v does not name the file", err)
			}
		})
	}
}

func TestExtends(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "base.yaml", minimal+"cmdline: [quiet]\noverlays: [{path: a, reason: r}]\n")
	over := write(t, dir, "test.yaml", "extends: base.yaml\nname: test\ncmdline: [debug]\nkernel: {load: [{name: tun, reason: r}]}\n")
	r, err := Load(over)
	if err != nil {
		t.Fatal(err)
	}
	if r.Name != "test" || strings.Join(r.Cmdline, " ") != "quiet debug" {
		t.Errorf("name %q, cmdline %q: scalars replace, lists are appended", r.Name, r.Cmdline)
	}
	if r.Kernel.Package == "" || len(r.Kernel.Load) != 1 || len(r.Packages) != 1 {
		t.Errorf("kernel %+v, packages %v: what is not set stays", r.Kernel, r.Packages)
	}
	if want := filepath.Join(dir, "a"); r.Overlays[0].Path != want {
		t.Errorf("overlay %q, want %q: paths are relative to the file that states them", r.Overlays[0].Path, want)
	}
	loop := write(t, dir, "loop.yaml", "extends: loop.yaml\nname: x\n")
	if _, err := Load(loop); err == nil || !strings.Contains(err.Error(), "loop") {
		t.Errorf("a recipe that extends itself: %v", err)
	}
}

func TestForArchitecture(t *testing.T) {
	file := write(t, t.TempDir(), "r.yaml", minimal+"cmdline: [\"console={console}\"]\nlinks: [{path: \"/x/{triplet}\", to: y, reason: r}]\n"+
		"kernel2: 1\n")
	if _, err := Load(file); err == nil {
		t.Fatal("kernel2 is not a field")
	}
	file = write(t, t.TempDir(), "r.yaml", strings.Replace(minimal, "{package: \"linux-image-cloud-{arch}\"}",
		"{package: \"linux-image-cloud-{arch}\", load: [{name: button, arch: amd64, reason: r}]}", 1)+"cmdline: [\"console={console}\"]\n")
	r, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	for arch, want := range map[string]struct {
		kernel, console string
		modules         int
	}{"amd64": {"linux-image-cloud-amd64", "console=ttyS0", 1}, "arm64": {"linux-image-cloud-arm64", "console=ttyAMA0", 0}} {
		a, err := r.For(arch)
		if err != nil {
			t.Fatal(err)
		}
		if a.Kernel.Package != want.kernel || a.Cmdline[0] != want.console || len(a.Kernel.Load) != want.modules {
			t.Errorf("%s: %+v %v", arch, a.Kernel, a.Cmdline)
		}
	}
	if _, err := r.For("riscv64"); err == nil {
		t.Error("riscv64 was accepted")
	}
}

// TestRecipesOfTheRepository reads every recipe that is shipped.
func TestRecipesOfTheRepository(t *testing.T) {
	files, _ := filepath.Glob("../../recipes/*.yaml")
	if len(files) == 0 {
		t.Fatal("no recipes found")
	}
	for _, f := range files {
		if _, err := Load(f); err != nil {
			t.Error(err)
		}
	}
}

func TestSchemaIsCommitted(t *testing.T) {
	const golden = "../../docs/recipe.schema.json"
	got, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what the Go types say (%v); go test ./builder/recipe -update writes it", golden, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(minimal))
	f.Add([]byte("a: &b [*b]\n"))
	f.Add([]byte("name: !!binary x\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Parse("r.yaml", b)
		if err != nil && !strings.Contains(err.Error(), "r.yaml") {
			t.Errorf("error %q does not name the file", err)
		}
		if err == nil {
			r.Check()
		}
	})
}

// A recipe's runtime is one line, which an extending recipe replaces.
func TestRuntime(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "runtimes"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "runtimes/one.yaml", "services: [../one-service.yaml]\ndirs: [{path: /run/one}]\n")
	write(t, dir, "runtimes/two.yaml", "services: [../two-service.yaml]\noverlays: [{path: two, reason: r}]\n")
	node := write(t, dir, "node.yaml", minimal+"runtime: runtimes/one.yaml\nservices: [kubelet.yaml]\n")
	over := write(t, dir, "over.yaml", "extends: node.yaml\nname: over\nruntime: runtimes/two.yaml\n")
	for _, c := range []struct{ file, name, services, overlay string }{
		{node, "node", "one-service.yaml kubelet.yaml", ""},
		{over, "over", "two-service.yaml kubelet.yaml", "runtimes/two"},
	} {
		r, err := Load(c.file)
		if err != nil {
			t.Fatal(err)
		}
		var services []string
		for _, s := range r.Services {
			services = append(services, filepath.Base(s))
			if filepath.Dir(s) != dir {
				t.Errorf("%s: service %s: paths are relative to the file that states them", c.name, s)
			}
		}
		if r.Name != c.name || strings.Join(services, " ") != c.services || r.File != node && r.File != over {
			t.Errorf("%s: name %q of %s, services %q; the runtime's come first", c.name, r.Name, r.File, services)
		}
		if n := len(r.Overlays); c.overlay == "" && (n != 0 || len(r.Dirs) != 1) || c.overlay != "" && (n != 1 || r.Overlays[0].Path != filepath.Join(dir, c.overlay) || len(r.Dirs) != 0) {
			t.Errorf("%s: overlays %v, dirs %v: want those of one runtime", c.name, r.Overlays, r.Dirs)
		}
	}
	for _, c := range []struct{ name, part, want string }{
		{"a whole recipe", "name: x\n", "it is the runtime of"},
		{"a chain", "runtime: one.yaml\n", "it is the runtime of"},
		{"unknown field", "servics: []\n", `did you mean "services"?`},
	} {
		t.Run(c.name, func(t *testing.T) {
			write(t, dir, "runtimes/bad.yaml", c.part)
			bad := write(t, dir, "bad.yaml", minimal+"runtime: runtimes/bad.yaml\n")
			if _, err := Load(bad); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one that says %s", err, c.want)
			}
		})
	}
	missing := write(t, dir, "missing.yaml", minimal+"runtime: runtimes/three.yaml\n")
	if _, err := Load(missing); err == nil || !strings.Contains(err.Error(), "three.yaml") {
		t.Errorf("error %v does not name the file that is missing", err)
	}
}
