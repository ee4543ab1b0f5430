package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"garboard.local/builder"
	"garboard.local/builder/compare"
	"garboard.local/builder/inspect"
	"garboard.local/builder/report"
	"garboard.local/builder/source/debian"
)

// exitTrouble is diff's status when it could not compare, as diff(1) has it.
const exitTrouble = 2

func diffCommand(g *global) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Say in what two images differ: files, versions, sizes",
		Long: `Diff compares two output directories (or their manifests), or two files that a build
wrote, of which it looks at what is inside. It lists versions that changed, files that were added,
removed or changed (size, mode, owner, link, content), and the sources of files that weigh more or less. Of two
directories it also compares the outputs' bytes, and looks into those that differ.

The exit status is that of diff(1): 0 if they are the same, 1 if they differ, 2 if they
could not be compared.`,
		Example: `  garboard diff out/node-amd64 /srv/releases/1.2/node-amd64
  garboard diff old/initramfs.img new/initramfs.img
  garboard diff --json a b | jq -r '.versions[] | "\(.name) \(.a) -> \(.b)"'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usageError{fmt.Errorf("name two images to compare; %d were given", len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := g.compare(cmd.Context(), args[0], args[1])
			if err == nil && asJSON {
				err = writeJSON(cmd.OutOrStdout(), r)
			} else if err == nil {
				printDiff(cmd.OutOrStdout(), r, "")
			}
			switch {
			case err != nil:
				return statusError{exitTrouble, err}
			case !r.Same:
				return statusError{code: 1}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

// manifestDir is the directory of a manifest that an argument names, or "".
func manifestDir(arg string) (string, error) {
	fi, err := os.Stat(arg)
	switch {
	case err != nil:
		return "", err
	case fi.IsDir():
		return arg, nil
	case filepath.Base(arg) == report.ManifestName:
		return filepath.Dir(arg), nil
	}
	return "", nil
}

func (g *global) compare(ctx context.Context, a, b string) (compare.Result, error) {
	da, err := manifestDir(a)
	if err != nil {
		return compare.Result{}, err
	}
	db, err := manifestDir(b)
	if err != nil {
		return compare.Result{}, err
	}
	switch {
	case da != "" && db != "":
		return g.compareDirs(ctx, da, db)
	case da == "" && db == "":
		return g.compareFiles(ctx, a, b)
	}
	return compare.Result{}, fmt.Errorf("%s and %s are an output directory and a file: name two of a kind", a, b)
}

func (g *global) compareDirs(ctx context.Context, a, b string) (compare.Result, error) {
	ma, err := report.ReadManifest(a)
	if err != nil {
		return compare.Result{}, err
	}
	mb, err := report.ReadManifest(b)
	if err != nil {
		return compare.Result{}, err
	}
	r := compare.Manifests(ma, mb)
	sa, err := report.ReadSums(a)
	if err != nil {
		return r, err
	}
	sb, err := report.ReadSums(b)
	if err != nil {
		return r, err
	}
	r.Outputs = compare.Outputs(sa, sb)
	for _, o := range r.Outputs {
		r.Same = false
		if o.Kind != "changed" || o.Path == report.ManifestName || o.Path == report.SBOMName {
			continue
		}
		in, err := g.compareFiles(ctx, filepath.Join(a, o.Path), filepath.Join(b, o.Path))
		if err != nil {
			return r, err
		}
		if r.Inside == nil {
			r.Inside = map[string]compare.Result{}
		}
		r.Inside[o.Path] = in
	}
	return r, nil
}

// compareFiles looks into two files. One of no known format is compared byte by byte.
func (g *global) compareFiles(ctx context.Context, a, b string) (compare.Result, error) {
	at, err := compare.FirstDifference(a, b)
	if err != nil || at == "" {
		return compare.Result{Same: err == nil}, err
	}
	o := inspect.Options{Hash: true, Extract: inspect.ExtractWith(g.fsck)}
	var nodes [2]*inspect.Node
	for i, f := range []string{a, b} {
		nodes[i], err = inspect.Path(ctx, f, o)
		if errors.Is(err, inspect.ErrUnknown) {
			return compare.Result{Bytes: at}, nil
		}
		if err != nil {
			return compare.Result{}, err
		}
		if _, err := annotate(nodes[i], f); err != nil {
			return compare.Result{}, err
		}
	}
	r := compare.Nodes(nodes[0], nodes[1])
	r.Same, r.Bytes = false, at
	return r, nil
}

// fsck runs the pinned fsck.erofs.
func (g *global) fsck(ctx context.Context, args ...string) error {
	o, stop, err := g.options()
	if err != nil {
		return err
	}
	defer stop()
	if o.Lock == nil {
		return errors.New("there is no lock that names erofs-utils; `garboard lock` makes it")
	}
	tools, _, err := builder.HostTools(ctx, o, builder.BuildTools...)
	if err != nil {
		return err
	}
	if out, err := debian.Command(ctx, tools, "fsck.erofs", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("fsck.erofs: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

func printDiff(w io.Writer, r compare.Result, indent string) {
	for _, s := range r.Settings {
		fmt.Fprintf(w, "%s%s: %s -> %s\n", indent, s.Name, s.A, s.B)
	}
	for _, v := range r.Versions {
		switch {
		case v.A == "":
			fmt.Fprintf(w, "%s+ %s %s\n", indent, v.Name, v.B)
		case v.B == "":
			fmt.Fprintf(w, "%s- %s %s\n", indent, v.Name, v.A)
		default:
			fmt.Fprintf(w, "%s* %s %s -> %s\n", indent, v.Name, v.A, v.B)
		}
	}
	for _, c := range r.Files {
		printChange(w, c, indent)
	}
	for _, c := range r.Outputs {
		printChange(w, c, indent)
		if in, ok := r.Inside[c.Path]; ok {
			printDiff(w, in, indent+"    ")
		}
	}
	if r.Bytes != "" {
		fmt.Fprintf(w, "%s%s\n", indent, r.Bytes)
	}
	if len(r.Weights) > 0 {
		fmt.Fprintf(w, "%sbytes by source, before compression:\n", indent)
	}
	for _, g := range r.Weights {
		fmt.Fprintf(w, "%s  %12d -> %12d  %+12d  %s\n", indent, g.A, g.B, g.B-g.A, g.Group)
	}
}

func printChange(w io.Writer, c compare.Change, indent string) {
	switch c.Kind {
	case "added":
		fmt.Fprintf(w, "%s+ %s (%d bytes, %s)\n", indent, c.Path, c.SizeB, c.Group)
		return
	case "removed":
		fmt.Fprintf(w, "%s- %s (%d bytes, %s)\n", indent, c.Path, c.SizeA, c.Group)
		return
	}
	var what []string
	for _, x := range c.What {
		switch x {
		case "size":
			x = fmt.Sprintf("size %d -> %d", c.SizeA, c.SizeB)
		case "mode":
			x = fmt.Sprintf("mode %04o -> %04o", c.ModeA, c.ModeB)
		}
		what = append(what, x)
	}
	fmt.Fprintf(w, "%s* %s: %s\n", indent, c.Path, strings.Join(what, ", "))
}
