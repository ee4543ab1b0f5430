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
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

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

// circumstances are what must not reach the outputs.
type circumstances struct {
	root, cache, output, tmp, home string
	env                            []string
	umask, cpus                    int
	user                           int // in a user namespace; -1: as this process
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
	goEnv, err := exec.CommandContext(ctx, "go", "env", "GOCACHE", "GOMODCACHE", "GOPATH", "GOPROXY", "GOSUMDB").Output()
	if err != nil {
		return first, second, fmt.Errorf("go env: %w; install Go", err)
	}
	v := strings.Split(strings.TrimRight(string(goEnv), "\n"), "\n")
	shared := []string{"GOMODCACHE=" + v[1], "GOPATH=" + v[2], "GOPROXY=" + v[3], "GOSUMDB=" + v[4]}
	first = circumstances{
		root: o.Root, cache: filepath.Join(scratch, "1", "cache"), output: filepath.Join(scratch, "1", "out"), tmp: filepath.Join(scratch, "1", "tmp"),
		home: filepath.Join(scratch, "1", "home"), umask: 0o022, cpus: runtime.NumCPU(), user: -1,
		env: append([]string{"TZ=UTC", "LANG=C", "LC_ALL=C", "USER=alice", "LOGNAME=alice"}, shared...),
	}
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
	goCaches := []string{v[0], v[0]}
	if r.components {
		goCaches = []string{filepath.Join(scratch, "1", "go"), filepath.Join(base, "go")}
	}
	first.env, second.env = append(first.env, "GOCACHE="+goCaches[0]), append(second.env, "GOCACHE="+goCaches[1])

	for _, c := range []circumstances{first, second} {
		for _, d := range []string{c.cache, c.output, c.tmp, c.home} {
			if err := os.MkdirAll(d, 0o755); err != nil {
				return first, second, err
			}
		}
		if err := linkTree(filepath.Join(c.cache, "blobs"), filepath.Join(o.Store.Dir(), "blobs"), func(name string) bool { return lockedBlobs(o)[name] }); err != nil {
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

// lockedBlobs are the packages of the lock, which are downloads and not builds.
func lockedBlobs(o builder.Options) map[string]bool {
	out := map[string]bool{}
	for _, ps := range o.Lock.Debian.Packages {
		for _, p := range ps {
			out[p.SHA256] = true
		}
	}
	for _, ps := range o.Lock.Tools {
		for _, p := range ps {
			out[p.SHA256] = true
		}
	}
	return out
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

// otherUser is a user's number under which a build can run in a user namespace.
func otherUser(ctx context.Context) (int, error) {
	user := 4711
	cmd := exec.CommandContext(ctx, "go", "version")
	inNamespace(cmd, user)
	if err := cmd.Run(); err != nil {
		return -1, fmt.Errorf("no user namespace: %w", err)
	}
	return user, nil
}

func inNamespace(cmd *exec.Cmd, user int) {
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: user, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: user, HostID: os.Getgid(), Size: 1}},
	}
}

func (c circumstances) describe() string {
	s := fmt.Sprintf("the second build: in %s, umask %04o, %d processor(s) of %d, programs from Debian see another day, %s",
		c.root, c.umask, c.cpus, runtime.NumCPU(), strings.Join(c.env[:6], " "))
	if c.user >= 0 {
		s += fmt.Sprintf(", user %d instead of %d", c.user, os.Getuid())
	}
	return s
}

// build runs a build as a process of its own.
func (r *repro) build(ctx context.Context, c circumstances, recipe string) error {
	self, err := os.Executable()
	if err != nil {
		return err
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
	if err := c.start(cmd); err != nil {
		return err
	}
	return cmd.Wait()
}

// start starts a process with the umask and on the processors of c: it inherits
// them from the thread that starts it.
func (c circumstances) start(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, some unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return err
	}
	for i, n := 0, 0; n < c.cpus && i < len(all)*64; i++ {
		if all.IsSet(i) {
			some.Set(i)
			n++
		}
	}
	if err := unix.SchedSetaffinity(0, &some); err != nil {
		return err
	}
	old := unix.Umask(c.umask)
	err := cmd.Start()
	unix.Umask(old)
	return errors.Join(err, unix.SchedSetaffinity(0, &all))
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
