package component

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// The flags of every build. Without a build id, symbol table and DWARF the
// binary is smaller; -trimpath and -buildvcs=false keep the path and the
// repository's state out of it.
var (
	buildFlags = []string{"-mod=readonly", "-trimpath", "-buildvcs=false"}
	linkFlags  = "-s -w -buildid="
)

// fetchEnv are the settings of the go command that may come from the user's
// environment or `go env -w`: they say where modules come from and where
// caches lie, and cannot change what is built.
var fetchEnv = []string{
	"GOAUTH", "GOCACHE", "GOINSECURE", "GOMODCACHE", "GONOPROXY", "GONOSUMDB",
	"GOPATH", "GOPRIVATE", "GOPROXY", "GOSUMDB", "GOVCS",
}

// targetEnv are the variables that say for what is compiled.
func targetEnv(arch string) []string {
	return []string{"GOOS=linux", "GOARCH=" + arch, "GOAMD64=v1", "GOARM64=v8.0", "CGO_ENABLED=0"}
}

// goCommand runs the go command of one toolchain in a fixed environment.
type goCommand struct {
	path string
	env  []string
}

func newGoCommand(ctx context.Context, opts Options) (*goCommand, error) {
	p, err := exec.LookPath(opts.Go)
	if err != nil {
		return nil, fmt.Errorf("the go command: %w; install Go %s or later", err, opts.GoVersion)
	}
	if p, err = filepath.Abs(p); err != nil {
		return nil, err
	}

	// Ask for the user's settings first: with GOENV=off they would be lost, and
	// without it an empty variable does not hide what `go env -w` wrote.
	var keep, rest []string
	for _, kv := range opts.Environ {
		name, _, _ := strings.Cut(kv, "=")
		switch {
		case name == "GOENV" || slices.Contains(fetchEnv, name):
			keep = append(keep, kv)
		case !strings.HasPrefix(name, "GO") && !strings.HasPrefix(name, "CGO_"):
			rest = append(rest, kv)
		}
	}
	ask := &goCommand{path: p, env: slices.Concat(rest, keep, []string{"GOTOOLCHAIN=local"})}
	out, err := ask.output(ctx, os.TempDir(), append([]string{"env", "-json"}, fetchEnv...)...)
	if err != nil {
		return nil, err
	}
	var settings map[string]string
	if err := json.Unmarshal(out, &settings); err != nil {
		return nil, fmt.Errorf("go env -json: %w", err)
	}

	g := &goCommand{path: p, env: rest}
	for _, name := range fetchEnv {
		g.env = append(g.env, name+"="+settings[name])
	}
	g.env = append(g.env, "GOENV=off", "GOFLAGS=", "GOWORK=off", "GOTOOLCHAIN=go"+opts.GoVersion, "CGO_ENABLED=0")
	return g, nil
}

// command is the go command in dir, in a process group of its own: when ctx
// ends, the compilers that it started are killed with it.
func (g *goCommand) command(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, g.path, args...)
	cmd.Dir = dir
	cmd.Env = append(slices.Clone(g.env), "PWD="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// output runs the go command and returns its standard output, also when it fails.
func (g *goCommand) output(ctx context.Context, dir string, args ...string) ([]byte, error) {
	var out bytes.Buffer
	said := &tail{max: 30}
	cmd := g.command(ctx, dir, args...)
	cmd.Stdout, cmd.Stderr = &out, said
	err := cmd.Run()
	return out.Bytes(), failure(ctx, err, said, args)
}

// stream runs the go command with all that it says going to w.
func (g *goCommand) stream(ctx context.Context, dir string, w io.Writer, args ...string) error {
	cmd := g.command(ctx, dir, args...)
	cmd.Stdout, cmd.Stderr = w, w
	return failure(ctx, cmd.Run(), &tail{}, args)
}

// build compiles programs, given as import paths by name, into dir. Programs
// whose packages have different last elements are built by one go build. A lean
// build, whose flags make the linker tell what it keeps, may not keep methods
// for code that calls them by name.
func (g *goCommand) build(ctx context.Context, work, arch string, flags []string, pkgs map[string]string, dir string, lean bool) error {
	out, err := os.MkdirTemp(dir, ".out-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(out)
	for _, names := range batches(pkgs) {
		args := append([]string{"build"}, flags...)
		args = append(args, "-o", out+string(filepath.Separator))
		for _, n := range names {
			args = append(args, pkgs[n])
		}
		said := &tail{max: 30}
		cmd := g.command(ctx, work, args...)
		cmd.Env = append(cmd.Env, targetEnv(arch)...)
		dump := &linkDump{rest: said}
		cmd.Stdout, cmd.Stderr = said, said
		if lean {
			cmd.Stdout, cmd.Stderr = dump, dump
		}
		if err := failure(ctx, cmd.Run(), said, args); err != nil {
			return err
		}
		if err := dump.check(); err != nil {
			return err
		}
		for _, n := range names {
			if err := take(filepath.Join(dir, n), filepath.Join(out, programName(pkgs[n])), arch); err != nil {
				return fmt.Errorf("%s from %s: %w", n, pkgs[n], err)
			}
		}
	}
	return nil
}

// take moves a program that go build wrote to its place, if it is one for arch.
func take(dst, src, arch string) error {
	info, err := buildinfo.ReadFile(src)
	if err != nil {
		return err
	}
	for _, s := range info.Settings {
		if s.Key == "GOARCH" && s.Value != arch {
			return fmt.Errorf("it was compiled for %s, not %s", s.Value, arch)
		}
	}
	if err := os.Chmod(src, 0o755); err != nil {
		return err
	}
	return os.Rename(src, dst)
}

var majorVersion = regexp.MustCompile(`^v[0-9]+$`)

// programName is the name that go build gives a program: its import path's
// last element that is not a major version.
func programName(importPath string) string {
	dir, base := path.Split(importPath)
	if dir != "" && majorVersion.MatchString(base) {
		return path.Base(dir)
	}
	return base
}

// batches splits programs so that no two of a batch have one name for go build.
func batches(pkgs map[string]string) (out [][]string) {
	seen := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(pkgs)) {
		p := programName(pkgs[name])
		i := seen[p]
		seen[p]++
		if i == len(out) {
			out = append(out, nil)
		}
		out[i] = append(out[i], name)
	}
	return out
}

// buildError is a go command that failed, with the end of what it said.
type buildError struct {
	verb string
	err  error
	said string
}

func (e *buildError) Error() string {
	if e.said == "" {
		return fmt.Sprintf("go %s: %v", e.verb, e.err)
	}
	return fmt.Sprintf("go %s: %v; its last lines:\n%s", e.verb, e.err, e.said)
}

func (e *buildError) Unwrap() error { return e.err }

// stale says that go.mod and go.sum do not list what is needed.
func (e *buildError) stale() bool {
	return strings.Contains(e.said, "missing go.sum entry") || strings.Contains(e.said, "updates to go.mod needed")
}

func failure(ctx context.Context, err error, said *tail, args []string) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("go %s: %w", args[0], errors.Join(context.Cause(ctx), ctx.Err()))
	}
	return &buildError{verb: args[0], err: err, said: said.String()}
}

// tail keeps the last lines written to it, without the lines in which the go
// command says what it downloads.
type tail struct {
	max   int
	lines []string
	part  string
}

func (t *tail) Write(p []byte) (int, error) {
	lines := strings.Split(t.part+string(p), "\n")
	t.part = lines[len(lines)-1]
	for _, l := range lines[:len(lines)-1] {
		if !strings.HasPrefix(l, "go: downloading ") {
			t.lines = append(t.lines, l)
		}
	}
	if n := len(t.lines) - t.max; n > 0 {
		t.lines = slices.Delete(t.lines, 0, n)
	}
	return len(p), nil
}

func (t *tail) String() string {
	return strings.TrimRight(strings.Join(append(slices.Clone(t.lines), t.part), "\n"), "\n")
}
