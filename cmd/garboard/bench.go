package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"garboard.local/builder"
	"garboard.local/builder/recipe"
	"garboard.local/qemu"
)

func benchCommand(g *global) *cobra.Command {
	var flags buildFlags
	var boots int
	var settings, recipes, extra []string
	var boot string
	var memory []string
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure boots, sizes and builds, and print them as tables",
		Long: `Bench builds the node in both compression settings, boots it several times and
prints Markdown tables: uptime at the milestones of the boot, memory and processes
15 s later, bytes, and seconds of a build in which nothing and one file changed.
With --memory it measures instead what builds of recipes/node.yaml need from a cache that
holds nothing but downloads: seconds, and memory at its peak.
The method is in docs/benchmarks.md.`,
		Example: `  garboard bench
  garboard bench --boots 3 --setting fast
  garboard bench --recipe recipes/bench.yaml --recipe recipes/bench-containerd.yaml
  garboard bench --boot disk --append garboard.data=none
  garboard bench --memory fast,small,compile`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, stop, err := g.options()
			if err != nil {
				return err
			}
			defer stop()
			o.Output = flags.output
			for _, s := range settings {
				if s != "fast" && s != "small" {
					return usageError{fmt.Errorf("--setting %q: known are fast and small", s)}
				}
			}
			kind, ok := bootKinds[boot]
			if !ok {
				return usageError{fmt.Errorf("--boot %q: known are kernel, uki, disk and iso", boot)}
			}
			if len(memory) > 0 {
				r := &repro{global: g, buildFlags: flags, out: cmd.OutOrStdout()}
				return r.memory(cmd.Context(), o, memory)
			}
			b := bench{o: o, g: g, arch: flags.arch, boots: boots, settings: settings, recipes: recipes, boot: kind, extra: extra, out: cmd.OutOrStdout()}
			return b.run(cmd.Context())
		},
	}
	flags.add(cmd)
	cmd.Flags().IntVar(&boots, "boots", 5, "boots per image")
	cmd.Flags().StringSliceVar(&recipes, "recipe", []string{"recipes/bench.yaml"}, "recipes to boot; each has a pod that prints figures")
	cmd.Flags().StringSliceVar(&settings, "setting", []string{"fast", "small"}, "compression settings to measure")
	cmd.Flags().StringVar(&boot, "boot", "kernel", "what to boot: kernel, uki, disk or iso")
	cmd.Flags().StringSliceVar(&memory, "memory", nil, "measure builds instead: fast and small (components compiled before), compile (everything)")
	cmd.Flags().StringArrayVar(&extra, "append", nil, "further word of the kernel command line (repeatable)")
	return cmd
}

type bench struct {
	o        builder.Options
	g        *global
	boot     recipe.Output
	extra    []string
	arch     string
	boots    int
	settings []string
	recipes  []string
	out      io.Writer
}

func (b *bench) say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

func (b *bench) run(ctx context.Context) error {
	var recipes []*recipe.Recipe
	for _, file := range b.recipes {
		if !filepath.IsAbs(file) {
			file = filepath.Join(b.o.Root, file)
		}
		r, err := recipe.Load(file)
		if err != nil {
			return err
		}
		r.Outputs = []recipe.Output{b.boot}
		recipes = append(recipes, r)
	}
	node, err := recipe.Load(filepath.Join(b.o.Root, "recipes/node.yaml"))
	if err != nil {
		return err
	}
	node.Outputs = []recipe.Output{recipe.Initramfs}
	fmt.Fprintf(b.out, "%s, %s, %d CPUs\n\n", time.Now().UTC().Format(time.DateOnly), b.arch, runtime.NumCPU())
	if err := b.builds(ctx, node); err != nil {
		return err
	}
	tool, err := emulator(ctx, b.o, b.arch)
	if err != nil {
		return err
	}
	fmt.Fprintln(b.out, qemu.BenchHeader)
	qemuLine := ""
	for _, setting := range b.settings {
		for _, r := range recipes {
			if qemuLine, err = b.image(ctx, r, setting, tool); err != nil {
				return err
			}
		}
	}
	fmt.Fprintln(b.out, qemuLine)
	return nil
}

// image boots a recipe's image and prints its row; it returns what QEMU was.
func (b *bench) image(ctx context.Context, r *recipe.Recipe, setting string, tool qemu.Tool) (string, error) {
	o := b.o
	o.Small = setting == "small"
	o.Output = filepath.Join(b.o.Output, "bench-"+setting)
	res, err := builder.Build(ctx, o, r, b.arch)
	if err != nil {
		return "", err
	}
	m, cleanup, err := b.g.machine(ctx, res, b.boot, tool, append([]string{"garboard.console=pods"}, b.extra...))
	if err != nil {
		return "", err
	}
	defer cleanup()
	m.Log = filepath.Join(res.Dir, "console.log")
	got, err := qemu.Bench(ctx, m, b.boots, true, b.say)
	if err != nil {
		return "", err
	}
	fmt.Fprintln(b.out, got.Row(r.Name+", "+setting))
	return fmt.Sprintf("\n%s; %d boots repeated for the emulator's known fault", got.QEMU, got.Faults), nil
}

// builds prints sizes in both settings and the seconds of warm builds.
func (b *bench) builds(ctx context.Context, node *recipe.Recipe) error {
	fmt.Fprintln(b.out, "| setting | vmlinuz (bytes) | initramfs.img (bytes) | both (MB) | no-change build (s) | one-file-change build (s) |\n|---|---|---|---|---|---|")
	for _, setting := range b.settings {
		o := b.o
		o.Small = setting == "small"
		o.Output = filepath.Join(b.o.Output, "bench-"+setting)
		if _, err := builder.Build(ctx, o, node, b.arch); err != nil {
			return err
		}
		same, err := builder.Build(ctx, o, node, b.arch)
		if err != nil {
			return err
		}
		changed, cleanup, err := b.changed(node)
		if err != nil {
			return err
		}
		other := o
		other.Output = filepath.Join(o.Output, "changed")
		one, err := builder.Build(ctx, other, changed, b.arch)
		cleanup()
		if err != nil {
			return err
		}
		kernel, initrd := same.Size(builder.KernelName), same.Size(builder.InitramfsName)
		fmt.Fprintf(b.out, "| %s | %d | %d | %.1f | %.2f | %.2f |\n", filepath.Base(o.Output), kernel, initrd, float64(kernel+initrd)/1e6, same.Seconds, one.Seconds)
	}
	fmt.Fprintln(b.out)
	return nil
}

// changed is the recipe with one more configuration file, new each time.
func (b *bench) changed(r *recipe.Recipe) (*recipe.Recipe, func(), error) {
	dir, err := os.MkdirTemp("", "garboard-bench-")
	if err != nil {
		return nil, nil, err
	}
	file := filepath.Join(dir, "etc", "bench")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return nil, nil, err
	}
	if err := os.WriteFile(file, []byte(time.Now().String()), 0o644); err != nil {
		return nil, nil, err
	}
	c := *r
	c.Overlays = append(append([]recipe.Overlay{}, r.Overlays...), recipe.Overlay{Path: dir, Reason: "benchmark: one file changed"})
	return &c, func() { os.RemoveAll(dir) }, nil
}
