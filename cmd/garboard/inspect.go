package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"garboard.local/builder/report"
	"garboard.local/builder/rootfs"
	"garboard.local/builder/source/debian"
)

func inspectCommand(g *global) *cobra.Command {
	var asJSON, files bool
	var pkg, arch string
	var depth int
	cmd := &cobra.Command{
		Use:   "inspect OUTPUT | inspect FILE | inspect --package NAME",
		Short: "Say what is in an image, from where, and why",
		Long: `Inspect says what an image holds, where each file comes from and why it is there.

Of an output directory, or of the manifest in it, it shows what the manifest says.
Of any other file it shows what is in it, as a tree: initramfs, EROFS root, EFI
program, disk (raw, qcow2), ISO and what lies inside one another, recognised by their content. What the
manifest beside the file knows is added, if the file is the one that was built with it.
With --package it lists the files of a locked Debian package, for writing recipes.`,
		Example: `  garboard inspect out/node-amd64
  garboard inspect out/node-amd64 --files
  garboard inspect out/node-amd64/initramfs.img --depth 2
  garboard inspect out/node-amd64/manifest.json --json | jq '.root[] | select(.kind=="file") | .path'
  garboard inspect --package iptables`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			out := cmd.OutOrStdout()
			if pkg != "" {
				return g.inspectPackage(cmd, out, pkg, arch, asJSON)
			}
			if len(args) == 0 {
				return usageError{errors.New("name an output directory, such as out/node-amd64, or a file in it, or use --package")}
			}
			dir := args[0]
			if fi, err := os.Stat(dir); err == nil && !fi.IsDir() {
				if filepath.Base(dir) != report.ManifestName {
					return inspectFile(cmd.Context(), out, dir, asJSON, depth)
				}
				dir = filepath.Dir(dir)
			}
			m, err := report.ReadManifest(dir)
			switch {
			case err != nil:
				return err
			case asJSON:
				return writeJSON(out, m)
			case files:
				printFiles(out, m)
			default:
				printSummary(out, m)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.BoolVar(&asJSON, "json", false, "print as JSON")
	f.BoolVar(&files, "files", false, "list every file of the manifest with its origin and reason")
	f.IntVar(&depth, "depth", 0, "show no more than this many levels of a file's tree (0: all)")
	f.StringVar(&pkg, "package", "", "list the files of this locked Debian package instead")
	f.StringVar(&arch, "arch", "amd64", "architecture of the package")
	return cmd
}

func printSummary(w io.Writer, m *report.Manifest) {
	fmt.Fprintf(w, "%s %s, Linux %s, %s compression\ncommand line: %s\n\n", m.Recipe, m.Arch, m.Kernel, m.Compression, m.Cmdline)
	var files int
	var total int64
	for _, o := range m.Origins() {
		fmt.Fprintf(w, "%9.1f MB %5d files  %s\n", float64(o.Bytes)/1e6, o.Files, o.Name)
		files += o.Files
		total += o.Bytes
	}
	fmt.Fprintf(w, "%9.1f MB %5d files  in all, before compression\n", float64(total)/1e6, files)
}

func printFiles(w io.Writer, m *report.Manifest) {
	for _, part := range []struct {
		prefix  string
		entries []*rootfs.Entry
	}{{"initramfs:/", m.Early}, {"/", m.Root}} {
		for _, e := range part.entries {
			name := part.prefix + e.Path
			if e.Kind == rootfs.Symlink {
				name += " -> " + e.Link
			}
			if e.Capabilities != "" {
				name += " (capabilities " + e.Capabilities + ")"
			}
			fmt.Fprintf(w, "%-7s %04o %9d  %s  [%s: %s]\n", e.Kind, e.Mode, e.Size, name, e.Origin, e.Reason)
		}
	}
}

func (g *global) inspectPackage(cmd *cobra.Command, w io.Writer, name, arch string, asJSON bool) error {
	o, stop, err := g.options()
	if err != nil {
		return err
	}
	defer stop()
	if o.Lock == nil {
		return errors.New("there is no lock; `garboard lock` makes it")
	}
	debs, err := o.Lock.Closure(arch, []string{name})
	if err != nil {
		return err
	}
	for _, d := range debs {
		if d.Name != name {
			continue
		}
		if _, err := o.Archive.Fetch(cmd.Context(), d); err != nil {
			return err
		}
		c, err := debian.Files(cmd.Context(), o.Store, d)
		if err != nil {
			return err
		}
		if asJSON {
			return writeJSON(w, c.Files)
		}
		for _, f := range c.Files {
			fmt.Fprintf(w, "%-8s %04o %9d  /%s %s\n", f.Type, f.Mode, f.Size, f.Path, f.Link)
		}
	}
	return nil
}
