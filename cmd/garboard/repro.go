package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"garboard.local/builder"
	"garboard.local/builder/component"
	"garboard.local/builder/recipe"
	"garboard.local/builder/source/debian"
)

func reproCommand(g *global) *cobra.Command {
	var flags buildFlags
	var r repro
	cmd := &cobra.Command{
		Use:   "repro [RECIPE]",
		Short: "Build twice in different circumstances and compare every byte",
		Long: `Repro builds a recipe (default recipes/node.yaml) twice, each time with a cache that holds nothing
but what was downloaded. The second build differs in the path of the repository, of the cache, of the output and of
temporary files, in the times and modes of the sources, in umask, locale, time zone,
home, user name and number of processors, where the kernel allows it in the user's number, and in the day that the programs
from Debian see. It prints in what the outputs differ, as diff does; the exit
status is 0 only if they do not.

Compiled components (kubelet, runtime) are taken from the usual cache, and Go's own cache is used, unless
--components is given: then everything is compiled twice from nothing, which takes
minutes. --against compares with an earlier output as well, of another day or machine.`,
		Example: `  garboard repro
  garboard repro recipes/node.yaml --arch all --components
  garboard repro --against /srv/releases/1.2
  garboard repro --inject overlays/rootfs/base/etc/hosts   # control: must fail`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{fmt.Errorf("name one recipe, not %d", len(args))}
			}
			return nil
		},
		ValidArgsFunction: completeRecipes,
		RunE: func(cmd *cobra.Command, args []string) error {
			r.global, r.buildFlags, r.out = g, flags, cmd.OutOrStdout()
			same, err := r.run(cmd.Context(), args)
			if err == nil && !same {
				err = statusError{code: exitFailed, error: errors.New("the two builds differ")}
			}
			return err
		},
	}
	flags.add(cmd)
	f := cmd.Flags()
	f.Lookup("output").Usage = "keep the two builds below OUTPUT/repro-1 and OUTPUT/repro-2; default: they are removed"
	f.Lookup("output").DefValue = ""
	flags.output = ""
	f.BoolVar(&r.components, "components", false, "compile everything twice, with empty Go caches")
	f.StringVar(&r.inject, "inject", "", "change this file of the second build's sources: shows that a difference is found")
	f.StringVar(&r.against, "against", "", "compare with the outputs below this directory too")
	return cmd
}

// repro is two builds that must not differ.
type repro struct {
	*global
	buildFlags
	components      bool
	inject, against string
	out             io.Writer
}

func (r *repro) run(ctx context.Context, args []string) (same bool, err error) {
	file := "recipes/node.yaml"
	if len(args) == 1 {
		file = args[0]
	}
	as, err := arches(r.arch)
	if err != nil {
		return false, err
	}
	o, stop, err := r.options()
	if err != nil {
		return false, err
	}
	defer stop()
	if _, err := os.Stat(file); err != nil && len(args) == 0 {
		file = filepath.Join(o.Root, file)
	}
	rcp, err := recipe.Load(file)
	if err != nil {
		return false, err
	}
	if o.Lock == nil {
		return false, errors.New("there is no lock; `garboard lock` makes it")
	}
	rel, err := relativeTo(o.Root, file)
	if err != nil {
		return false, err
	}
	scratch, err := o.Store.Scratch("repro")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(scratch)
	first, second, err := r.prepare(ctx, o, scratch)
	if err != nil {
		return false, err
	}
	if !r.components {
		if err := r.seedComponents(ctx, o, rcp, as, first.cache, second.cache); err != nil {
			return false, err
		}
	}
	fmt.Fprintln(r.out, second.describe())
	for i, c := range []circumstances{first, second} {
		began := time.Now()
		if err := r.build(ctx, c, rel); err != nil {
			return false, fmt.Errorf("build %d of 2: %w", i+1, err)
		}
		fmt.Fprintf(r.out, "build %d of 2: %.1f s\n", i+1, time.Since(began).Seconds())
	}
	same = true
	for _, arch := range as {
		name := rcp.Name + "-" + arch
		pairs := [][2]string{{filepath.Join(first.output, name), filepath.Join(second.output, name)}}
		if r.against != "" {
			pairs = append(pairs, [2]string{filepath.Join(r.against, name), filepath.Join(first.output, name)})
		}
		for i, p := range pairs {
			d, err := r.compare(ctx, p[0], p[1])
			if err != nil {
				return false, err
			}
			if what := []string{"the second build", "the one in " + r.against}[i]; d.Same {
				fmt.Fprintf(r.out, "%s: identical to %s, byte for byte: %s\n", name, what, strings.Join(outputs(p[0]), " "))
			} else {
				same = false
				fmt.Fprintf(r.out, "%s: differs from %s:\n", name, what)
				printDiff(r.out, d, "  ")
			}
		}
	}
	return same, nil
}

func outputs(dir string) []string {
	entries, _ := os.ReadDir(dir)
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// relativeTo is a recipe's path in the repository, so that its copy has it too.
func relativeTo(root, file string) (string, error) {
	abs, err := filepath.Abs(file)
	if err != nil {
		return "", err
	}
	rel, err := filepath.Rel(root, abs)
	if err != nil || strings.HasPrefix(rel, "..") {
		return "", usageError{fmt.Errorf("recipe %s is not in the repository %s, of which the second build has a copy", file, root)}
	}
	return rel, nil
}

// prepare makes the places of both builds: one as usual, one as unlike it as can be.
func (r *repro) prepare(ctx context.Context, o builder.Options, scratch string) (first, second circumstances, err error) {
	goCache, shared, err := sharedGo(ctx)
	if err != nil {
		return first, second, err
	}
	first = usual(o, filepath.Join(scratch, "1"), shared)
	base := filepath.Join(scratch, "2", "another place", "of quite another length")
	second = circumstances{
		root: filepath.Join(base, "sources"), cache: filepath.Join(base, "cache"), output: filepath.Join(base, "out"), tmp: filepath.Join(base, "tmp"),
		home: filepath.Join(base, "home"), umask: 0o077, cpus: 1, user: -1,
		env: append([]string{"TZ=Pacific/Kiritimati", "LANG=tr_TR.UTF-8", "LC_ALL=tr_TR.UTF-8", "LANGUAGE=tr", "USER=bob", "LOGNAME=bob",
			"SOURCE_DATE_EPOCH=86400", "GOMAXPROCS=1"}, shared...),
	}
	if r.output != "" {
		if first.output, err = filepath.Abs(filepath.Join(r.output, "repro-1")); err == nil {
			second.output, err = filepath.Abs(filepath.Join(r.output, "repro-2"))
		}
		if err != nil {
			return first, second, err
		}
	}
	goCaches := []string{goCache, goCache}
	if r.components {
		goCaches = []string{filepath.Join(scratch, "1", "go"), filepath.Join(base, "go")}
	}
	first.env, second.env = append(first.env, "GOCACHE="+goCaches[0]), append(second.env, "GOCACHE="+goCaches[1])

	for _, c := range []circumstances{first, second} {
		if err := c.make(o); err != nil {
			return first, second, err
		}
	}
	if err := copySources(second.root, o.Root); err != nil {
		return first, second, fmt.Errorf("copy of the sources: %w", err)
	}
	if r.inject != "" {
		p := filepath.Join(second.root, filepath.FromSlash(r.inject))
		f, err := os.OpenFile(p, os.O_APPEND|os.O_WRONLY, 0)
		if err == nil {
			_, err = f.WriteString("\n")
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return first, second, usageError{fmt.Errorf("--inject: %w", err)}
		}
	}
	if second.user, err = otherUser(ctx); err != nil {
		fmt.Fprintf(r.out, "the user's number is not varied: %v\n", err)
	}
	clock, err := fakeClock(ctx, o)
	if gone := debian.Gone(err); len(gone) > 0 && r.gone == "update" { // as a build does
		if o.Lock, err = repair(ctx, o, gone); err == nil {
			clock, err = fakeClock(ctx, o)
		}
	}
	if err != nil {
		return first, second, err
	}
	second.env = append(second.env, clock...)
	return first, second, nil
}

// fakeClock makes the programs from Debian that a build runs see a day some
// years from now. Our own code reads the clock past the C library; a test keeps it
// from doing so where artefacts are made.
func fakeClock(ctx context.Context, o builder.Options) ([]string, error) {
	root, _, err := builder.HostTools(ctx, o, clockTools...)
	if err != nil {
		return nil, err
	}
	libs, err := filepath.Glob(filepath.Join(root, "usr/lib", recipe.Triplet(runtime.GOARCH), "faketime", "libfaketime.so.1"))
	if err != nil || len(libs) != 1 {
		return nil, fmt.Errorf("libfaketime is not where its package had it below %s (%v)", root, err)
	}
	return []string{debian.PreloadEnv + "=" + libs[0], "FAKETIME=+1000d", "NO_FAKE_STAT=1", "FAKETIME_DONT_FAKE_MONOTONIC=1"}, nil
}

// build runs a build as a process of its own.
func (r *repro) build(ctx context.Context, c circumstances, recipe string) error {
	cmd, err := r.command(ctx, c, recipe)
	if err != nil {
		return err
	}
	if err := c.start(cmd); err != nil {
		return err
	}
	return cmd.Wait()
}

// command is a build as a process of its own.
func (r *repro) command(ctx context.Context, c circumstances, recipe string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{"-C", c.root, "build", filepath.Join(c.root, recipe), "--arch", r.arch, "-o", c.output, "--gone", r.gone}
	for _, m := range r.mirrors {
		args = append(args, "--mirror", m)
	}
	if r.quiet {
		args = append(args, "-q")
	}
	if r.small {
		args = append(args, "--small")
	}
	cmd := exec.CommandContext(ctx, self, args...)
	if c.user >= 0 {
		inNamespace(cmd, c.user)
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.root, io.Discard, os.Stderr
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.home, "TMPDIR=" + c.tmp, "GARBOARD_CACHE=" + c.cache, limitEnv + "=none"}, c.env...)
	for _, name := range []string{"http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "GARBOARD_MIRROR", "SSL_CERT_FILE"} {
		if v, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	return cmd, nil
}

// seedComponents gives both builds the compiled components of the usual cache.
func (r *repro) seedComponents(ctx context.Context, o builder.Options, rcp *recipe.Recipe, arches []string, caches ...string) error {
	for _, arch := range arches {
		one, err := rcp.For(arch)
		if err != nil {
			return err
		}
		for _, c := range one.Components {
			opts := component.Options{Store: o.Store, Progress: o.Progress, RepoRoot: o.Root, GoVersion: o.Lock.Go}
			res, err := component.Build(ctx, opts, c.Name, arch)
			if err != nil {
				return err
			}
			for _, cache := range caches {
				if err := linkTree(filepath.Join(cache, "actions", filepath.Base(res.Dir)), res.Dir, nil); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
