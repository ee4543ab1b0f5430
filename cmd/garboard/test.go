package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"garboard.local/builder"
	"garboard.local/builder/component"
	"garboard.local/builder/recipe"
)

func testCommand(g *global) *cobra.Command {
	var flags buildFlags
	var run string
	var long bool
	cmd := &cobra.Command{
		Use:   "test [unit] [components] [node] [kernels]",
		Short: "Run the tests: unit, patched components, and nodes in QEMU",
		Long: `Test runs what is named, or the first three:

  unit        go test -race ./...
  components  the unit tests of patched Go components
  node        builds the recipes node, test, test-containerd, test-agent, observed and
              observed-init and a Debian with systemd (which runs converted units),
              boots them in QEMU and has them prove what a node promises
  kernels     boots nodes with other kernels: the one for real machines
              (recipes/test-metal.yaml), and one out of an OCI image`,
		Example: `  garboard test
  garboard test unit
  garboard test node --arch amd64 --run 'TestVMNodeRunsHello/amd64'`,
		ValidArgs: []string{"unit", "components", "node", "kernels"},
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.OnlyValidArgs(cmd, args); err != nil {
				return usageError{fmt.Errorf("%w; known are unit, components, node, kernels", err)}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{"unit", "components", "node"}
			}
			var errs []error
			for _, a := range args {
				var err error
				switch a {
				case "unit":
					err = g.testUnit(cmd.Context())
				case "components":
					err = g.testComponents(cmd.Context())
				case "node":
					err = g.testNode(cmd.Context(), flags, run, long)
				case "kernels":
					err = g.testKernels(cmd.Context(), flags, run)
				}
				if err != nil {
					errs = append(errs, fmt.Errorf("test %s: %w", a, err))
				}
				if cmd.Context().Err() != nil {
					break
				}
			}
			return errors.Join(errs...)
		},
	}
	flags.add(cmd)
	if err := cmd.Flags().Set("arch", "all"); err != nil { // what works on one only does not work
		panic(err)
	}
	cmd.Flags().Lookup("arch").DefValue = "all"
	cmd.Flags().StringVar(&run, "run", "", "only node tests that match this expression (go test -run)")
	cmd.Flags().BoolVar(&long, "long", false, "also the node tests that take long (TestVMLong*)")
	return cmd
}

func (g *global) testUnit(ctx context.Context) error {
	root, err := g.root()
	if err != nil {
		return err
	}
	if err := needCompiler(ctx); err != nil {
		return err
	}
	return goTest(ctx, root, []string{"CGO_ENABLED=1"}, "-race", "-short", "./...")
}

// needCompiler installs a C compiler, which Go's race detector links with,
// where that can be done without asking.
func needCompiler(ctx context.Context) error {
	for _, cc := range []string{os.Getenv("CC"), "gcc", "clang"} {
		if _, err := exec.LookPath(cc); err == nil {
			return nil
		}
	}
	const cure = "the race detector needs a C compiler; install one: apt-get install gcc libc6-dev"
	if os.Getuid() != 0 {
		return errors.New(cure)
	}
	fmt.Fprintln(os.Stderr, "garboard: installing gcc and libc6-dev for the race detector")
	for _, args := range [][]string{{"update", "-qq"}, {"install", "-y", "-qq", "--no-install-recommends", "gcc", "libc6-dev"}} {
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s (apt-get %s: %w)", cure, args[0], err)
		}
	}
	return nil
}

func (g *global) testComponents(ctx context.Context) error {
	o, stop, err := g.options()
	if err != nil {
		return err
	}
	stop()
	for _, name := range []string{"kubelet", "crio", "containerd"} {
		opts := component.Options{Store: o.Store, Progress: o.Progress, RepoRoot: o.Root, GoVersion: goVersion(o.Lock)}
		if err := component.Test(ctx, opts, name); err != nil {
			return err
		}
	}
	return nil
}

// The environment by which node tests learn what to judge and with what.
const (
	imagesEnv = "GARBOARD_IMAGES" // directory with <recipe>-<arch>/
	toolsEnv  = "GARBOARD_TOOLS"  // root of the pinned host tools
	longEnv   = "GARBOARD_LONG"   // set: those that take long, too
)

// testRecipes are what node tests boot.
var testRecipes = []string{"recipes/node.yaml", "recipes/test.yaml", "recipes/test-containerd.yaml"}

func (g *global) testNode(ctx context.Context, flags buildFlags, run string, long bool) error {
	o, stop, err := g.options()
	if err != nil {
		return err
	}
	defer stop()
	var files []string
	for _, r := range testRecipes {
		files = append(files, filepath.Join(o.Root, r))
	}
	if flags.output, err = filepath.Abs(flags.output); err != nil {
		return err
	}
	if !long { // which boot every output that the recipes name
		flags.outputs = []string{string(recipe.Initramfs), string(recipe.Raw), string(recipe.QCOW2), string(recipe.ISO)}
	}
	agent, err := agentRecipe(ctx, o, flags.output)
	if err != nil {
		return err
	}
	results, err := flags.build(ctx, g, append(files, agent))
	if err != nil {
		return err
	}
	for _, r := range results {
		printResult(os.Stderr, r)
	}
	if err := g.observedImages(ctx, o, flags); err != nil {
		return err
	}
	if long && flags.arch != "amd64" {
		if err := sataROM(ctx, o, flags.output); err != nil {
			return err
		}
	}
	args := []string{"-skip", "^" + kernelTests}
	if run != "" {
		args = append(args, "-run", run)
	}
	return goTestImages(ctx, o, flags.output, long, append(args, "./builder/image", "./builder/inspect", "./builder/release", "./builder/report", "./contents", "./init/data", "./pod/systemd", "./qemu")...)
}

// goTestImages runs tests on images that were built.
func goTestImages(ctx context.Context, o builder.Options, output string, long bool, args ...string) error {
	tools, _, err := builder.HostTools(ctx, o, hostTools()...)
	if err != nil {
		return err
	}
	all := []string{"-count=1", "-v", "-p=1", "-timeout=45m"} // -p=1: one at a time, and shown as it comes
	env := []string{imagesEnv + "=" + output, toolsEnv + "=" + tools}
	if long {
		env = append(env, longEnv+"=1")
	}
	return goTest(ctx, o.Root, env, append(all, args...)...)
}

// goTest runs go test; ctrl-C reaches its whole process group.
func goTest(ctx context.Context, dir string, env []string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test"}, args...)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	return cmd.Run()
}
