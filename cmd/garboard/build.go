package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"garboard.local/builder"
	"garboard.local/builder/lock"
	"garboard.local/builder/recipe"
	"garboard.local/builder/source/debian"
)

// buildFlags are the flags of commands that build.
type buildFlags struct {
	arch, output, gone string
	small              bool
	outputs            []string // instead of the recipe's
	size, dataSize     string
}

func (b *buildFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&b.arch, "arch", runtime.GOARCH, "architecture: amd64, arm64, or all where several make sense")
	f.StringVarP(&b.output, "output", "o", "out", "artefacts go to OUTPUT/<recipe>-<arch>/")
	f.BoolVar(&b.small, "small", false, "compress hard (minutes instead of seconds; releases use it)")
	f.StringVar(&b.gone, "gone", "error", "a locked package that is gone from all mirrors: error, or update to its successor for this build")
	f.StringVar(&b.size, "size", "", "size of the disk image, such as 8GiB (default: the recipe's, else 4GiB or what --data-size needs)")
	f.StringVar(&b.dataSize, "data-size", "", "size of the data partition in the disk image (default: the recipe's, else what is left)")
	cmd.RegisterFlagCompletionFunc("arch", cobra.FixedCompletions([]string{"amd64", "arm64", "all"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.RegisterFlagCompletionFunc("gone", cobra.FixedCompletions([]string{"error", "update"}, cobra.ShellCompDirectiveNoFileComp))
}

func buildCommand(g *global) *cobra.Command {
	var flags buildFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "build RECIPE...",
		Short: "Build the artefacts of recipes",
		Long: `Build writes the outputs that a recipe names, or those of --outputs, to
OUTPUT/<recipe>-<arch>/, with manifest.json, sbom.cdx.json and SHA256SUMS:

  initramfs  vmlinuz, initramfs.img and cmdline, for direct kernel boot, and boot.ipxe
             for the network
  uki        <recipe>.efi, a Unified Kernel Image: boots from UEFI firmware
  raw        <recipe>.raw, a disk image
  qcow2      <recipe>.qcow2, the same disk in QEMU's format
  iso        <recipe>.iso, for a CD or a stick

What did not change since the last build is reused.`,
		Example: `  garboard build recipes/node.yaml
  garboard build recipes/node.yaml --arch all --small
  garboard build recipes/node.yaml --outputs raw --size 20GiB
  garboard build recipes/node.yaml --json | jq -r '.[].dir'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("name a recipe, such as recipes/node.yaml")}
			}
			return nil
		},
		ValidArgsFunction: completeRecipes,
		RunE: func(cmd *cobra.Command, args []string) error {
			results, err := flags.build(cmd.Context(), g, args)
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), results)
			}
			for _, r := range results {
				printResult(cmd.OutOrStdout(), r)
			}
			return nil
		},
	}
	flags.add(cmd)
	cmd.Flags().StringSliceVar(&flags.outputs, "outputs", nil, "outputs to write instead of the recipe's: initramfs, uki, raw, qcow2, iso")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}

// build makes the artefacts of every recipe for every architecture asked for.
func (b *buildFlags) build(ctx context.Context, g *global, recipes []string) ([]*builder.Result, error) {
	o, stop, err := g.options()
	if err != nil {
		return nil, err
	}
	defer stop()
	o.Output, o.Small = b.output, b.small
	as, err := arches(b.arch)
	if err != nil {
		return nil, err
	}
	if o.Lock == nil {
		return nil, fmt.Errorf("there is no %s in %s; `garboard lock` makes it", lock.FileName, o.Root)
	}
	if _, err := cacheLimit(os.Getenv(limitEnv)); err != nil {
		return nil, err
	}
	if b.gone != "error" && b.gone != "update" {
		return nil, usageError{fmt.Errorf("--gone %q: known are error and update", b.gone)}
	}
	var out []*builder.Result
	for _, file := range recipes {
		r, err := recipe.Load(file)
		if err != nil {
			return nil, err
		}
		if err := b.choose(r); err != nil {
			return nil, err
		}
		for _, a := range as {
			res, err := builder.Build(ctx, o, r, a)
			for tries := 0; err != nil && b.gone == "update" && len(debian.Gone(err)) > 0 && tries < 3; tries++ {
				if o.Lock, err = repair(ctx, o, debian.Gone(err)); err != nil {
					return nil, err
				}
				res, err = builder.Build(ctx, o, r, a)
			}
			if err != nil {
				return nil, err
			}
			out = append(out, res)
		}
	}
	return out, tidy(ctx, o)
}

// choose puts what the flags say in the place of what the recipe says.
func (b *buildFlags) choose(r *recipe.Recipe) (err error) {
	if len(b.outputs) > 0 {
		if r.Outputs, err = recipe.ParseOutputs(b.outputs); err != nil {
			return usageError{fmt.Errorf("--outputs: %w", err)}
		}
	}
	for _, f := range []struct {
		flag, value string
		to          *string
	}{{"--size", b.size, &r.Disk.Size}, {"--data-size", b.dataSize, &r.Disk.DataSize}} {
		if _, err := recipe.ParseSize(f.value); err != nil {
			return usageError{fmt.Errorf("%s: %w", f.flag, err)}
		}
		if f.value != "" {
			*f.to = f.value
		}
	}
	return nil
}

func printResult(w io.Writer, r *builder.Result) {
	state := "built"
	if r.Cached {
		state = "unchanged"
	}
	fmt.Fprintf(w, "%s %s: %s in %.1f s\n", r.Recipe, r.Arch, state, r.Seconds)
	for _, a := range r.Artefacts {
		fmt.Fprintf(w, "  %10.1f MB  %s\n", float64(a.Size)/1e6, filepath.Join(r.Dir, a.Name))
	}
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func completeRecipes(_ *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	if _, err := os.Stat("recipes"); err != nil {
		return []string{"yaml"}, cobra.ShellCompDirectiveFilterFileExt
	}
	files, _ := filepath.Glob("recipes/*.yaml")
	return files, cobra.ShellCompDirectiveDefault
}
