package component

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestOwn(t *testing.T) {
	f := newFake(t)
	f.write("go.mod", "module garboard.example\n\ngo 1.22\n")
	f.write("init/main/main.go", "package main\n\nimport \"garboard.example/word\"\n\nfunc main() { print(word.Word) }\n")
	f.write("images/main/main.go", "package main\n\nfunc main() { print(\"image\") }\n")
	f.write("word/word.go", "package word\n\nconst Word = \"one\"\n")
	pkgs := map[string]string{"init": "./init/main", "hello": "images/main"}
	build := func() map[string]Binary {
		t.Helper()
		bins, err := Own(context.Background(), f.opts, runtime.GOARCH, pkgs)
		if err != nil {
			t.Fatal(err)
		}
		return bins
	}
	says := func(b Binary) string {
		t.Helper()
		// A blob is not executable: what it becomes is for its user to say.
		p := filepath.Join(t.TempDir(), "program")
		data, err := os.ReadFile(b.Path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, data, 0o755); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(p).CombinedOutput()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}

	first := build()
	// Both packages are called main; go build would write both to one file.
	if got := says(first["init"]) + " " + says(first["hello"]); got != "one image" {
		t.Errorf("the programs say %q", got)
	}
	for name, b := range first {
		fi, err := os.Stat(b.Path)
		if err != nil || fi.Size() != b.Size || b.Path != f.opts.Store.Blob(b.SHA256) || len(b.Modules) != 1 || b.Modules[0].Path != "garboard.example" {
			t.Errorf("%s: %+v, %v", name, b, err)
		}
	}

	f.write("word/word.go", "package word\n\nconst Word = \"two\"\n")
	second := build()
	if says(second["init"]) != "two" || second["init"].SHA256 == first["init"].SHA256 {
		t.Error("a changed dependency is not built in")
	}
	if second["hello"].SHA256 != first["hello"].SHA256 {
		t.Error("a program that did not change has other bytes")
	}

	f.write("init/main/main.go", "package main\n\nfunc main() { oops }\n")
	if _, err := Own(context.Background(), f.opts, runtime.GOARCH, pkgs); err == nil || !strings.Contains(err.Error(), "main.go:3:15") {
		t.Errorf("a program that does not compile: %v", err)
	}
	for name, pkg := range map[string]string{"x": "../outside", "y/z": "./init/main"} {
		if _, err := Own(context.Background(), f.opts, runtime.GOARCH, map[string]string{name: pkg}); err == nil {
			t.Errorf("%s from %s is built", name, pkg)
		}
	}
}
