package component

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

const helloPatch = `Say it louder.

diff --git a/text/text.go b/text/text.go
--- a/text/text.go
+++ b/text/text.go
@@ -2,5 +2,5 @@

 // Hello greets.
 func Hello() string {
-	return "hello"
+	return "HELLO" + more()
 }
`

func TestBuild(t *testing.T) {
	f := newFake(t)
	f.write("overlays/src/greet/patches/0001-louder.patch", helloPatch)
	f.write("overlays/src/greet/patches/0002-louder-still.patch", strings.NewReplacer(
		`-	return "hello"`, `-	return "HELLO" + more()`,
		`+	return "HELLO" + more()`, `+	return "HELLO!" + more()`).Replace(helloPatch))
	f.write("overlays/src/greet/files/text/more.go", `package text

import "example.com/greet/third_party/shared"

func more() string { return " " + shared.Name }
`)
	res := f.build()
	if res.Module != "example.com/greet" || res.Version != "v1.2.3" || res.Cached {
		t.Errorf("%+v", res)
	}
	out, err := exec.Command(res.Binaries["greet"]).Output()
	if want := "HELLO! shared ours v1.2.3 (1.2.3) " + runtime.GOARCH + "\n"; string(out) != want || err != nil {
		t.Errorf("greet says %q, %v; want %q", out, err, want)
	}
	if err := exec.Command(res.Binaries["part"]).Run(); err != nil {
		t.Error(err)
	}
	for name, p := range res.Binaries {
		if fi, err := os.Stat(p); err != nil || fi.Mode().Perm() != 0o755 {
			t.Errorf("%s: %v, %v", name, fi.Mode(), err)
		}
	}
	if n := len(res.Modules); n != 2 {
		t.Fatalf("%d modules: %+v", n, res.Modules)
	}
	info, err := Describe(f.root, "greet")
	if err != nil || info.Module != "example.com/greet" || info.Version != "v1.2.3" ||
		!strings.HasPrefix(info.Sum, "h1:") || len(info.GoModSHA256) != 64 || len(info.GoSumSHA256) != 64 {
		t.Errorf("%+v, %v", info, err)
	}
	if m := res.Modules[0]; m != (Module{Path: "example.com/greet", Version: "v1.2.3", Sum: info.Sum, Patched: true}) {
		t.Errorf("%+v", m)
	}
	if m := res.Modules[1]; m != (Module{Path: "example.com/word", Version: "v1.0.0", Replace: "overlays/src/greet/word"}) {
		t.Errorf("%+v", m)
	}
	if again := f.build(); !again.Cached || again.Dir != res.Dir || len(again.Modules) != 2 {
		t.Errorf("the second time: %+v", again)
	}
}

// The same bytes in another directory, with another umask, locale and number
// of processors, and whatever the user has set for the go command.
func TestReproducible(t *testing.T) {
	var first []byte
	for i, env := range [][]string{
		nil,
		{"LC_ALL=tr_TR.UTF-8", "LANG=de_DE", "TZ=Asia/Tokyo", "USER=somebody", "GOMAXPROCS=1", "GOFLAGS=-tags=other -mod=mod",
			"GOAMD64=v3", "GOARM64=v9.0", "CGO_ENABLED=1", "GOEXPERIMENT=nosuchthing", "GOWORK=/nowhere", "GOTOOLCHAIN=go1.1", "GODEBUG=x=1"},
	} {
		f := newFake(t)
		if i > 0 {
			tmp := filepath.Join(t.TempDir(), "a longer path, with blanks")
			if err := os.Mkdir(tmp, 0o700); err != nil {
				t.Fatal(err)
			}
			t.Setenv("TMPDIR", tmp)
			defer syscall.Umask(syscall.Umask(0o077))
			f.opts.Environ = append(f.opts.Environ, env...)
			f.opts.Environ = append(f.opts.Environ, "TMPDIR="+tmp)
		}
		data, err := os.ReadFile(f.build().Binaries["greet"])
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = data
			continue
		}
		if !bytes.Equal(first, data) {
			t.Errorf("the bytes differ: %d and %d of them", len(first), len(data))
		}
		for _, leak := range []string{f.root, os.Getenv("TMPDIR"), "garboard-greet-"} {
			if bytes.Contains(data, []byte(leak)) {
				t.Errorf("the program contains the path %s", leak)
			}
		}
	}
}

func TestOtherArchitecture(t *testing.T) {
	f := newFake(t)
	arch := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	// The loop over the standard library for another architecture is what
	// takes long here; a program without imports needs the runtime only.
	f.write("overlays/src/greet/component.yaml", "module: example.com/greet\nbinaries: {part: ./cmd/part}\n")
	res, err := Build(context.Background(), f.opts, "greet", arch)
	if err != nil {
		t.Fatal(err)
	}
	head := make([]byte, 20)
	file, err := os.Open(res.Binaries["part"])
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.Read(head); err != nil {
		t.Fatal(err)
	}
	if want := map[string]byte{"amd64": 62, "arm64": 183}[arch]; head[18] != want { // e_machine
		t.Errorf("e_machine is %d, want %d", head[18], want)
	}
	if _, err := Build(context.Background(), f.opts, "greet", "mips"); err == nil || !strings.Contains(err.Error(), `"mips"`) {
		t.Errorf("mips: %v", err)
	}
}

func TestEveryInputIsInTheKey(t *testing.T) {
	f := newFake(t)
	key := func(goVersion, arch string) string {
		t.Helper()
		c, err := load(f.root, "greet")
		if err != nil {
			t.Fatal(err)
		}
		flags, err := c.flags(arch)
		if err != nil {
			t.Fatal(err)
		}
		in, err := c.inputs()
		if err != nil {
			t.Fatal(err)
		}
		return c.key(in, goVersion, arch, flags)
	}
	seen := map[string]string{key("1.26.8", "amd64"): "the first"}
	add := func(what, k string) {
		t.Helper()
		if before, ok := seen[k]; ok {
			t.Errorf("%s has the key of %s", what, before)
		}
		seen[k] = what
	}
	add("another Go version", key("1.26.9", "amd64"))
	add("another architecture", key("1.26.8", "arm64"))
	for _, file := range []string{
		"overlays/src/greet/go.mod", "overlays/src/greet/go.sum", "overlays/src/greet/component.yaml",
		"overlays/src/greet/patches/0001.patch", "overlays/src/greet/files/new.go",
		"overlays/src/greet/word/word.go", "overlays/src/greet/word/go.mod", "shared/shared.go", "shared/more.go",
	} {
		old, err := os.ReadFile(filepath.Join(f.root, file))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		comment := "// changed\n"
		if strings.HasSuffix(file, ".yaml") {
			comment = "# changed\n"
		}
		f.write(file, string(old)+comment)
		if strings.HasSuffix(file, "go.sum") { // no comments there
			f.write(file, string(old)+"example.com/x v1.0.0 h1:x\n")
		}
		add(file, key("1.26.8", "amd64"))
		if old == nil {
			err = os.Remove(filepath.Join(f.root, file))
		} else {
			err = os.WriteFile(filepath.Join(f.root, file), old, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"shared/shared_test.go", "shared/README.md", "overlays/src/greet/word/word_test.go", "overlays/src/greet/README.md"} {
		f.write(file, "changed")
	}
	if seen[key("1.26.8", "amd64")] != "the first" {
		t.Error("a file that is not an input changed the key")
	}
}

func TestBuildErrors(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(f *fake)
		wants []string
	}{
		{"a file that exists upstream", func(f *fake) {
			f.write("overlays/src/greet/files/text/text.go", "package text\n")
		}, []string{"files/text/text.go cannot be laid over", "change it with a patch"}},
		{"a copy onto an existing file", func(f *fake) {
			f.write("overlays/src/greet/component.yaml", strings.Replace(fakeConfig, "third_party/shared", "text", 1))
			f.write("shared/text.go", "package text\n")
		}, []string{"shared/text.go cannot be laid over"}},
		{"a hunk that does not fit", func(f *fake) {
			f.write("overlays/src/greet/patches/0001-louder.patch", strings.Replace(helloPatch, `-	return "hello"`, `-	return "hi"`, 1))
		}, []string{"patches/0001-louder.patch", "does not apply to text/text.go", "hunk 1 of 1", "line 5"}},
		{"a patch of a file that is gone", func(f *fake) {
			f.write("overlays/src/greet/patches/0001-louder.patch", strings.ReplaceAll(helloPatch, "text/text.go", "text/old.go"))
		}, []string{"patches/0001-louder.patch", "text/old.go", "no such file"}},
		{"a program that does not compile", func(f *fake) {
			f.write("overlays/src/greet/files/text/bad.go", "package text\n\nvar x int = \"no\"\n")
		}, []string{"component greet for " + runtime.GOARCH, "its last lines:", "bad.go:3:13"}},
		{"a wrong hash", func(f *fake) {
			file := filepath.Join(f.root, "overlays/src/greet/go.sum")
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := string(data)
			i := strings.Index(s, "h1:") + 3
			f.write("overlays/src/greet/go.sum", s[:i]+"AAAA"+s[i+4:])
		}, []string{"example.com/greet@v1.2.3", "checksum mismatch"}},
		{"no such component", func(f *fake) {
			if err := os.Remove(filepath.Join(f.root, "overlays/src/greet/component.yaml")); err != nil {
				t.Fatal(err)
			}
		}, []string{"component greet", "component.yaml"}},
		{"a module that is not required", func(f *fake) {
			f.write("overlays/src/greet/go.mod", "module x\n\ngo 1.22\n")
		}, []string{"does not require example.com/greet", "go get"}},
		{"no hash", func(f *fake) { f.write("overlays/src/greet/go.sum", "") }, []string{"no hash of example.com/greet v1.2.3"}},
		{"a stale go.sum", func(f *fake) {
			f.write("overlays/src/greet/component.yaml", strings.Replace(fakeConfig, "replace: {example.com/word: word}\n", "", 1))
			data, err := os.ReadFile(filepath.Join(f.root, "overlays/src/greet/go.sum"))
			if err != nil {
				t.Fatal(err)
			}
			f.write("overlays/src/greet/go.sum", string(data[:bytes.Index(data, []byte("example.com/word"))]))
		}, []string{"go mod tidy"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t)
			tt.spoil(f)
			tmp := t.TempDir()
			t.Setenv("TMPDIR", tmp)
			f.buildError(tt.wants...)
			if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
				t.Errorf("the build left %v, %v", left, err)
			}
			left, err := filepath.Glob(filepath.Join(f.root, "cache", "actions", "*"))
			if err != nil || len(left) > 0 {
				t.Errorf("the store holds %v, %v", left, err)
			}
		})
	}
}

func TestComponentTests(t *testing.T) {
	f := newFake(t)
	var said bytes.Buffer
	f.opts.Output = &said
	if err := Test(context.Background(), f.opts, "greet"); err != nil || !strings.Contains(said.String(), "ok  \texample.com/greet/text") {
		t.Errorf("%v\n%s", err, said.String())
	}
	if !strings.Contains(said.String(), "\texample.com/word") {
		t.Errorf("the stand-in's tests are not run:\n%s", said.String())
	}
	said.Reset()
	f.write("overlays/src/greet/patches/0001.patch", strings.Replace(helloPatch, " + more()", "", 1))
	if err := Test(context.Background(), f.opts, "greet"); err == nil || !strings.Contains(said.String(), `said "HELLO"`) {
		t.Errorf("the patch breaks a test: %v\n%s", err, said.String())
	}
}

// Ending the context kills the go command's children too, not only itself.
func TestCancelKillsTheGroup(t *testing.T) {
	f := newFake(t)
	dir := t.TempDir()
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	pidFile := filepath.Join(dir, "pid")
	script := filepath.Join(dir, "go")
	real, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	// A go command that, asked to build, starts a long-lived child.
	writeFile(t, script, fmt.Sprintf("#!/bin/sh\nif [ \"$1\" = build ]; then sleep 1000 & echo $! > %s.new; mv %s.new %s; wait; fi\nexec %s \"$@\"\n", pidFile, pidFile, pidFile, real))
	if err := os.Chmod(script, 0o755); err != nil {
		t.Fatal(err)
	}
	f.opts.Go = script
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := Build(ctx, f.opts, "greet", runtime.GOARCH)
		done <- err
	}()
	var pid int
	waitFor(t, "the child to start", func() bool {
		data, err := os.ReadFile(pidFile)
		if err != nil {
			return false
		}
		n, err := fmt.Sscan(string(data), &pid)
		return n == 1 && err == nil
	})
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the build's error is %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the build did not end")
	}
	waitFor(t, "the child to be gone", func() bool { return !running(pid) })
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("the build left %v, %v", left, err)
	}
	if left, err := filepath.Glob(filepath.Join(f.root, "cache", "tmp", "action-*")); err != nil || len(left) > 0 {
		t.Errorf("the build left %v, %v", left, err)
	}
}

// running says whether a process exists and is no zombie.
func running(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	return !strings.HasPrefix(rest, "Z")
}

func waitFor(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if cond() {
			return
		}
	}
	t.Fatalf("waited 20 s for %s", what)
}
