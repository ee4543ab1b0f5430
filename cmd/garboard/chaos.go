package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"garboard.local/builder"
	"garboard.local/builder/component"
	"garboard.local/builder/source/debian"
	"garboard.local/qemu/chaos"
)

func chaosCommand(g *global) *cobra.Command {
	var flags buildFlags
	var cuts, points int
	var seed uint64
	var lock string
	cmd := &cobra.Command{
		Use:   "chaos",
		Short: "Cut the power of nodes, kill their processes, shut them down, and say what was lost",
		Long: `Chaos builds recipes/chaos.yaml and boots it in QEMU again and again on one disk,
pulling images and running pods. Each boot is ended at a moment that the seed
decides: by a power cut, which takes what the disk had not flushed, by the power
button, or after processes were killed. The next boot says, without a network,
whether all that had been reported is still there and whole. In the end a disk
that lies about its flushes proves that losses are seen.

What was tried and lost is printed as tables. The exit status is 0 only if
nothing was lost and the control lost something. Consoles, and the disks of
rounds with losses, are in OUTPUT/chaos-<arch>/rounds/.`,
		Example: `  garboard chaos
  garboard chaos --cuts 20 --seed 7
  garboard chaos --cuts 2 --arch arm64`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if flags.arch == "all" {
				return usageError{errors.New("--arch all: one run is about one architecture")}
			}
			if cuts < 1 {
				return usageError{fmt.Errorf("--cuts %d: at least one", cuts)}
			}
			if !cmd.Flags().Changed("seed") {
				seed = rand.Uint64N(1e6)
			}
			o, err := flags.chaos(cmd.Context(), g)
			if err != nil {
				return err
			}
			o.Seed, o.Cuts, o.Points = seed, cuts, points
			if lock != "" {
				o.Around = func(context.Context) (func(), error) { return lockFile(lock) }
			}
			report, err := chaos.Run(cmd.Context(), o)
			if report != nil {
				fmt.Fprintln(cmd.OutOrStdout())
				report.Write(cmd.OutOrStdout())
			}
			if err == nil {
				err = report.Err()
			}
			if err != nil {
				return fmt.Errorf("%w\n(seed %d; consoles in %s)", err, seed, o.Dir)
			}
			return nil
		},
	}
	flags.add(cmd)
	cmd.Flags().IntVar(&cuts, "cuts", 20, "power cuts; kills and shutdowns come on top of them")
	cmd.Flags().IntVar(&points, "points", 10, "of each boot, further moments: the disk that a cut then would have left is judged without a boot")
	cmd.Flags().Uint64Var(&seed, "seed", 0, "what decides the moments; default: drawn, and printed")
	cmd.Flags().StringVar(&lock, "lock", "", "hold a lock (flock) on this file during each boot, where other runs share the machine")
	return cmd
}

// chaos builds what a run needs.
func (b *buildFlags) chaos(ctx context.Context, g *global) (chaos.Options, error) {
	var none chaos.Options
	o, stop, err := g.options()
	if err != nil {
		return none, err
	}
	defer stop()
	results, err := b.build(ctx, g, []string{filepath.Join(o.Root, "recipes/chaos.yaml")})
	if err != nil {
		return none, err
	}
	printResult(os.Stderr, results[0])
	tool, err := emulator(ctx, o, b.arch)
	if err != nil {
		return none, err
	}
	tools, _, err := builder.HostTools(ctx, o, hostTools()...)
	if err != nil {
		return none, err
	}
	own, err := component.Own(ctx, component.Options{Store: o.Store, Progress: o.Progress, RepoRoot: o.Root, GoVersion: goVersion(o.Lock)},
		b.arch, map[string]string{"chaosload": "./images/chaosload"})
	if err != nil {
		return none, err
	}
	payload, err := os.ReadFile(own["chaosload"].Path)
	if err != nil {
		return none, err
	}
	m, err := machineOf(results[0].Dir, b.arch, tool)
	if err != nil {
		return none, err
	}
	m.MemoryMiB = 2048
	return chaos.Options{
		Machine: m, Payload: payload, Dir: filepath.Join(results[0].Dir, "rounds"),
		Command: func(ctx context.Context, tool string, args ...string) *exec.Cmd {
			return debian.Command(ctx, tools, tool, args...)
		},
		Say: func(format string, args ...any) { fmt.Fprintf(os.Stderr, "garboard chaos: "+format+"\n", args...) },
	}, nil
}

// lockFile waits for an exclusive lock and returns what gives it back.
func lockFile(path string) (func(), error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return func() { f.Close() }, nil
}
