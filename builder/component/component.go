// Package component compiles Go components: others' programs, from their own
// module's source with our patches and files laid over it, and our own.
//
// A component is a directory overlays/src/<name>/ with
//
//   - go.mod and go.sum, a small module that requires the component's module
//     and pins everything below it;
//   - component.yaml, see [Config];
//   - patches/*.patch, applied in the order of their names, without fuzz;
//   - files/, laid over the patched source. A file that is already there is an
//     error: what exists upstream is changed by a patch, which fails when
//     upstream changes, and never replaced unseen;
//   - directories of patches to modules that the component is built from.
//
// The result is a function of these files and of the Go toolchain's version.
// Path, user, umask, locale and core count do not reach it, nor does anything
// in the environment or in `go env -w` but where modules come from.
package component

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"garboard.local/builder/progress"
	"garboard.local/builder/store"
)

// Options are what every build needs.
type Options struct {
	Store    *store.Store
	Progress progress.Reporter // nil: reports to nobody

	RepoRoot  string // the repository: overlays/src/ and our own module lie below it
	GoVersion string // of the toolchain that compiles, such as "1.26.8"

	Go      string    // the go command; empty: the one in PATH
	Environ []string  // the environment; nil: this process's
	Output  io.Writer // where Test writes what go test says; nil: standard output
}

// Result is a built component.
type Result struct {
	Dir      string            // in the store; holds bin/
	Binaries map[string]string // absolute paths by the names in component.yaml
	Module   string            // the module whose source was built
	Version  string            // its version, such as v1.36.3
	Cached   bool              // nothing was compiled
	Modules  []Module          // what is linked in, by path; the component's own module included
}

var goVersion = regexp.MustCompile(`^1\.[0-9]+(\.[0-9]+|rc[0-9]+)?$`)

// withDefaults checks the options and fills what may be left empty.
func (o Options) withDefaults() (Options, error) {
	if o.Progress == nil {
		o.Progress = progress.Discard
	}
	if o.Go == "" {
		o.Go = "go"
	}
	if o.Environ == nil {
		o.Environ = os.Environ()
	}
	if o.Output == nil {
		o.Output = os.Stdout
	}
	o.GoVersion = strings.TrimPrefix(o.GoVersion, "go")
	if !goVersion.MatchString(o.GoVersion) {
		return o, fmt.Errorf("Go version %q is not one such as 1.26.8; the lock names it", o.GoVersion)
	}
	root, err := filepath.Abs(o.RepoRoot)
	if err != nil {
		return o, fmt.Errorf("repository %s: %w", o.RepoRoot, err)
	}
	o.RepoRoot = root
	return o, nil
}

// Build compiles a component for an architecture, "amd64" or "arm64", or finds
// it in the store. When ctx ends the compiler and all its children are killed.
func Build(ctx context.Context, opts Options, name, arch string) (Result, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return Result{}, fmt.Errorf("component %s: %w", name, err)
	}
	task := opts.Progress.Start("compile", name+" "+arch, 0)
	res, err := build(ctx, opts, name, arch)
	switch {
	case err != nil:
		task.Fail(err)
	case res.Cached:
		task.Cached()
	default:
		task.Done(size(res.Binaries))
	}
	return res, err
}

func build(ctx context.Context, opts Options, name, arch string) (Result, error) {
	c, err := load(opts.RepoRoot, name)
	if err != nil {
		return Result{}, err
	}
	flags, err := c.flags(arch)
	if err != nil {
		return Result{}, fmt.Errorf("component %s: %w", name, err)
	}
	in, err := c.inputs()
	if err != nil {
		return Result{}, fmt.Errorf("component %s: %w", name, err)
	}
	dir, cached, err := opts.Store.Action(ctx, c.key(in, opts.GoVersion, arch, flags), func(ctx context.Context, dir string) error {
		return c.compile(ctx, opts, in, arch, flags, dir)
	})
	if err != nil {
		return Result{}, fmt.Errorf("component %s for %s: %w", name, arch, err)
	}
	res := Result{Dir: dir, Binaries: map[string]string{}, Module: c.Module, Version: c.version, Cached: cached}
	for bin := range c.Binaries {
		res.Binaries[bin] = filepath.Join(dir, "bin", bin)
	}
	if res.Modules, err = c.modules(res.Binaries); err != nil {
		return Result{}, fmt.Errorf("component %s for %s: %w", name, arch, err)
	}
	return res, nil
}

// compile makes the binaries in dir/bin, all with one go build.
func (c *component) compile(ctx context.Context, opts Options, in inputs, arch string, flags []string, dir string) error {
	g, err := newGoCommand(ctx, opts)
	if err != nil {
		return err
	}
	work, err := c.prepare(ctx, g, in)
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)

	bin := filepath.Join(dir, "bin")
	if err := mkdir(bin); err != nil {
		return err
	}
	pkgs := map[string]string{}
	for name, pkg := range c.Binaries {
		pkgs[name] = c.importPath(pkg)
	}
	err = g.build(ctx, work, arch, flags, pkgs, bin, c.Lean)
	if missing := new(buildError); errors.As(err, &missing) && missing.stale() {
		return fmt.Errorf("%w\ngo.mod or go.sum in %s no longer fits; run `go mod tidy` there", err, c.dir)
	}
	return err
}

// Test prepares a component's source as Build does and runs go test, on this
// machine, for the packages that component.yaml lists under tests; then for
// the modules that stand in for others.
func Test(ctx context.Context, opts Options, name string) error {
	opts, err := opts.withDefaults()
	if err == nil {
		err = test(ctx, opts, name)
	}
	if err != nil {
		return fmt.Errorf("tests of component %s: %w", name, err)
	}
	return nil
}

func test(ctx context.Context, opts Options, name string) error {
	c, err := load(opts.RepoRoot, name)
	if err != nil {
		return err
	}
	in, err := c.inputs()
	if err != nil {
		return err
	}
	g, err := newGoCommand(ctx, opts)
	if err != nil {
		return err
	}
	// With the flags of Build, so that what it compiled is not compiled again.
	args := append([]string{"test"}, buildFlags...)
	for _, mod := range slices.Sorted(maps.Keys(in.replaces)) {
		err := g.stream(ctx, in.replaces[mod].root, opts.Output, append(slices.Clone(args), "./...")...)
		if err != nil {
			return fmt.Errorf("%s: %w", in.replaces[mod].root, err)
		}
	}
	if len(c.Tests) == 0 {
		return nil
	}
	work, err := c.prepare(ctx, g, in)
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if len(c.Tags) > 0 {
		args = append(args, "-tags", strings.Join(slices.Sorted(slices.Values(c.Tags)), ","))
	}
	for _, pkg := range c.Tests {
		args = append(args, c.importPath(pkg))
	}
	return g.stream(ctx, work, opts.Output, args...)
}

// size is the note of a finished compilation, such as "84.1 MB".
func size(binaries map[string]string) string {
	var n int64
	for _, p := range binaries {
		if fi, err := os.Stat(p); err == nil {
			n += fi.Size()
		}
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}
