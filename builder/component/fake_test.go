package component

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	modzip "golang.org/x/mod/zip"

	"garboard.local/builder/store"
)

// fake is a repository with one component, "greet", whose module comes from a
// module proxy made of files: no test here needs a network.
type fake struct {
	t    *testing.T
	root string
	opts Options
}

// upstream is the source of the fake module example.com/greet.
var upstream = map[string]string{
	"go.mod": "module example.com/greet\n\ngo 1.22\n\nrequire example.com/word v1.0.0\n",
	"cmd/greet/main.go": `package main

import (
	"fmt"
	"runtime"

	"example.com/greet/text"
	"example.com/word"
)

var version = "unset"

func main() { fmt.Println(text.Hello(), word.Word, version, runtime.GOARCH) }
`,
	"cmd/part/main.go": "package main\n\nfunc main() { println(\"part\") }\n",
	"text/text.go":     "package text\n\n// Hello greets.\nfunc Hello() string {\n\treturn \"hello\"\n}\n",
	"text/text_test.go": `package text

import "testing"

func TestHello(t *testing.T) {
	if Hello() != "hello" {
		t.Fatalf("said %q", Hello())
	}
}
`,
}

const fakeConfig = `module: example.com/greet
binaries: {greet: ./cmd/greet, part: ./cmd/part}
stamp: {main.version: "{{version}} ({{version-bare}})"}
replace: {example.com/word: word}
copy: {shared: third_party/shared}
tests: [./text/...]
`

func newFake(t *testing.T) *fake {
	t.Helper()
	root := t.TempDir()
	f := &fake{t: t, root: root}
	sums := f.serve("example.com/greet", "v1.2.3", upstream) +
		f.serve("example.com/word", "v1.0.0", map[string]string{
			"go.mod": "module example.com/word\n\ngo 1.22\n", "word.go": "package word\n\nconst Word = \"upstream\"\n",
		})
	f.write("overlays/src/greet/go.mod", "module garboard.local/components/greet\n\ngo 1.22\n\nrequire (\n\texample.com/greet v1.2.3\n\texample.com/word v1.0.0 // indirect\n)\n")
	f.write("overlays/src/greet/go.sum", sums)
	f.write("overlays/src/greet/component.yaml", fakeConfig)
	f.write("overlays/src/greet/word/go.mod", "module example.com/word\n\ngo 1.22\n")
	f.write("overlays/src/greet/word/word.go", "package word\n\nconst Word = \"ours\"\n")
	f.write("overlays/src/greet/word/word_test.go", "package word\n")
	f.write("shared/shared.go", "package shared\n\nconst Name = \"shared\"\n")
	f.write("shared/shared_test.go", "package shared\n")

	s, err := store.Open(filepath.Join(root, "cache"))
	if err != nil {
		t.Fatal(err)
	}
	modcache := filepath.Join(root, "modcache")
	t.Cleanup(func() { makeWritable(t, modcache) })
	env := append(os.Environ(), "GOPROXY=file://"+filepath.Join(root, "proxy"), "GOSUMDB=off",
		"GOMODCACHE="+modcache, "GONOPROXY=", "GOPRIVATE=")
	f.opts = Options{Store: s, RepoRoot: root, GoVersion: localGo(), Environ: env}
	return f
}

// localGo is the version of the toolchain at hand, so that none is fetched.
func localGo() string { return strings.TrimPrefix(strings.Fields(runtime.Version())[0], "go") }

// serve puts a module into the proxy and returns its lines of go.sum.
func (f *fake) serve(path, version string, files map[string]string) string {
	f.t.Helper()
	src := f.t.TempDir()
	for name, data := range files {
		writeFile(f.t, filepath.Join(src, name), data)
	}
	dir := filepath.Join("proxy", path, "@v")
	var zip bytes.Buffer
	if err := modzip.CreateFromDir(&zip, module.Version{Path: path, Version: version}, src); err != nil {
		f.t.Fatal(err)
	}
	f.write(filepath.Join(dir, version+".zip"), zip.String())
	f.write(filepath.Join(dir, version+".mod"), files["go.mod"])
	f.write(filepath.Join(dir, version+".info"), fmt.Sprintf(`{"Version":%q,"Time":"2026-01-02T03:04:05Z"}`, version))
	f.write(filepath.Join(dir, "list"), version+"\n")
	sum, err := dirhash.HashZip(filepath.Join(f.root, dir, version+".zip"), dirhash.Hash1)
	if err != nil {
		f.t.Fatal(err)
	}
	modsum, err := dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(files["go.mod"])), nil
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return fmt.Sprintf("%s %s %s\n%s %s/go.mod %s\n", path, version, sum, path, version, modsum)
}

func (f *fake) write(name, data string) {
	f.t.Helper()
	writeFile(f.t, filepath.Join(f.root, name), data)
}

func (f *fake) build() Result {
	f.t.Helper()
	res, err := Build(context.Background(), f.opts, "greet", runtime.GOARCH)
	if err != nil {
		f.t.Fatal(err)
	}
	return res
}

// buildError builds and wants an error that says all of wants.
func (f *fake) buildError(wants ...string) {
	f.t.Helper()
	_, err := Build(context.Background(), f.opts, "greet", runtime.GOARCH)
	if err == nil {
		f.t.Fatal("the build went well")
	}
	for _, want := range wants {
		if !strings.Contains(err.Error(), want) {
			f.t.Errorf("the error does not say %q:\n%v", want, err)
		}
	}
}

func writeFile(t *testing.T, path, data string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
		t.Fatal(err)
	}
}

// makeWritable lets the test's directory be removed: a module cache is read-only.
func makeWritable(t *testing.T, dir string) {
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			return os.Chmod(p, 0o755)
		}
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Error(err)
	}
}
