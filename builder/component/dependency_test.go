package component

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

const (
	patchingConfig = `module: example.com/greet
binaries: {greet: ./cmd/greet}
patch: {example.com/word: deps/word}
`
	wordPatch = `Say what stands here.

diff --git a/word.go b/word.go
--- a/word.go
+++ b/word.go
@@ -1,3 +1,3 @@
 package word

-const Word = "upstream"
+const Word = "patched"
`
)

func newPatching(t *testing.T) *fake {
	f := newFake(t)
	f.write("overlays/src/greet/component.yaml", patchingConfig)
	f.write("overlays/src/greet/deps/word/0001-word.patch", wordPatch)
	return f
}

func TestPatchedDependency(t *testing.T) {
	f := newPatching(t)
	res := f.build()
	out, err := exec.Command(res.Binaries["greet"]).Output()
	if want := "hello patched unset " + runtime.GOARCH + "\n"; string(out) != want || err != nil {
		t.Errorf("greet says %q, %v; want %q", out, err, want)
	}
	c, err := load(f.root, "greet")
	if err != nil {
		t.Fatal(err)
	}
	sum := c.patched["example.com/word"].sum
	if m := res.Modules[1]; !strings.HasPrefix(sum, "h1:") || m != (Module{Path: "example.com/word", Version: "v1.0.0", Sum: sum, Patched: true}) {
		t.Errorf("%+v, %s", m, sum)
	}

	if again := f.build(); !again.Cached {
		t.Error("the same patch is built twice")
	}
	f.write("overlays/src/greet/deps/word/0001-word.patch", strings.Replace(wordPatch, `"patched"`, `"again"`, 1))
	changed := f.build()
	out, err = exec.Command(changed.Binaries["greet"]).Output()
	if changed.Cached || !strings.Contains(string(out), "again") {
		t.Errorf("with another patch greet says %q, %v; cached: %v", out, err, changed.Cached)
	}
}

func TestPatchedDependencyErrors(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(f *fake)
		wants []string
	}{
		{"a hunk that does not fit", func(f *fake) {
			f.write("overlays/src/greet/deps/word/0001-word.patch", strings.Replace(wordPatch, `"upstream"`, `"other"`, 1))
		}, []string{"example.com/word@v1.0.0", "deps/word/0001-word.patch", "does not apply to word.go", "hunk 1 of 1", "line 3"}},
		{"no patch", func(f *fake) {
			f.write("overlays/src/greet/component.yaml", strings.Replace(patchingConfig, "deps/word", "deps", 1))
		}, []string{"patch example.com/word", filepath.Join("greet", "deps") + " has no *.patch file"}},
		{"a module that is not required", func(f *fake) {
			f.write("overlays/src/greet/component.yaml", strings.Replace(patchingConfig, "example.com/word", "example.com/other", 1))
		}, []string{"patch", "go.mod does not require example.com/other"}},
		{"a module that is not linked in", func(f *fake) {
			f.write("overlays/src/greet/component.yaml", strings.Replace(patchingConfig, "greet: ./cmd/greet", "part: ./cmd/part", 1))
		}, []string{"nothing of example.com/word is linked in", "deps/word", "component.yaml"}},
		{"a module that go.mod replaces", func(f *fake) {
			f.write("overlays/src/greet/go.mod", "module x\n\ngo 1.22\n\nrequire (\n\texample.com/greet v1.2.3\n\texample.com/word v1.0.0\n)\n\nreplace example.com/word => ./word\n")
		}, []string{"replaces example.com/word", "remove it from go.mod"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newPatching(t)
			tt.spoil(f)
			f.buildError(tt.wants...)
		})
	}
}
