package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"garboard.local/builder/report"
	"garboard.local/builder/source/debian"
	"garboard.local/builder/store"
)

func sourcesCommand(g *global) *cobra.Command {
	var output string
	var all, asJSON bool
	cmd := &cobra.Command{
		Use:   "sources OUTPUT|MANIFEST...",
		Short: "List, and fetch, the sources of the Debian packages in images",
		Long: `Sources lists the source packages of what an image holds of Debian packages whose
licence asks for an offer of the source (GPL, LGPL, MPL and their like), by the
manifest in the output directory, or the manifest itself (a release has one per
image). With --output it fetches them: each .dsc and the archives that it names, verified
against the archive's signed index, and a SHA256SUMS.

A source that a point release superseded is in Debian's snapshot archive alone: it is
named, and the exit status is 1.`,
		Example: `  garboard sources out/node-amd64
  garboard sources out/node-amd64 out/node-arm64 --output sources
  garboard sources dist/*.manifest.json --output sources`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("name an output directory, such as out/node-amd64")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := sourcesOf(args, all)
			if err != nil {
				return err
			}
			if asJSON {
				if err := writeJSON(cmd.OutOrStdout(), list); err != nil {
					return err
				}
			} else {
				for _, s := range list {
					fmt.Fprintf(cmd.OutOrStdout(), "%s %s  (%s)\n", s.Name, s.Version, strings.Join(s.Packages, ", "))
				}
			}
			if output == "" {
				return nil
			}
			o, stop, err := g.options()
			if err != nil {
				return err
			}
			defer stop()
			return fetchSources(cmd.Context(), o.Archive, list, output)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&output, "output", "o", "", "fetch them into this directory")
	f.BoolVar(&all, "all", false, "of every package, whatever its licence")
	f.BoolVar(&asJSON, "json", false, "print the list as JSON")
	return cmd
}

// sourcePackage is a source package and what of it is in the images.
type sourcePackage struct {
	Name     string   `json:"name"`
	Version  string   `json:"version"`
	Packages []string `json:"packages"`
}

func sourcesOf(dirs []string, all bool) ([]sourcePackage, error) {
	by := map[debian.SourceID][]string{}
	for _, dir := range dirs {
		file := dir
		if fi, err := os.Stat(dir); err != nil || !fi.Mode().IsRegular() {
			file = filepath.Join(dir, report.ManifestName)
		}
		m, err := report.ReadManifestFile(file)
		if err != nil {
			return nil, err
		}
		if len(m.Packages) == 0 {
			return nil, fmt.Errorf("%s lists no packages; `garboard build` writes one that does", file)
		}
		for _, p := range m.Packages {
			if !p.Copyleft && !all {
				continue
			}
			ids := []debian.SourceID{{Name: p.Source, Version: p.SourceVersion}}
			for _, s := range p.BuiltUsing {
				name, version, _ := strings.Cut(s, " ")
				ids = append(ids, debian.SourceID{Name: name, Version: version})
			}
			for _, id := range ids {
				if !slices.Contains(by[id], p.Name) {
					by[id] = append(by[id], p.Name)
				}
			}
		}
	}
	var out []sourcePackage
	for id, ps := range by {
		slices.Sort(ps)
		out = append(out, sourcePackage{id.Name, id.Version, ps})
	}
	slices.SortFunc(out, func(a, b sourcePackage) int { return strings.Compare(a.Name+" "+a.Version, b.Name+" "+b.Version) })
	return out, nil
}

// fetchSources puts the files of each source into a directory of its own.
func fetchSources(ctx context.Context, a *debian.Archive, list []sourcePackage, output string) error {
	var ids []debian.SourceID
	for _, s := range list {
		ids = append(ids, debian.SourceID{Name: s.Name, Version: s.Version})
	}
	found, err := a.Sources(ctx, ids)
	var missing *debian.NoSourceError
	if err != nil && !errors.As(err, &missing) {
		return err
	}
	var sums []string
	var errs []error
	for _, s := range found {
		dir := strings.ReplaceAll(s.Name+"_"+s.Version, ":", "%")
		if err := os.MkdirAll(filepath.Join(output, dir), 0o755); err != nil {
			return err
		}
		for _, f := range s.Files {
			from, err := a.FetchSource(ctx, f)
			if ctx.Err() != nil {
				return err
			}
			if err != nil { // the others are of use without it
				errs = append(errs, err)
				continue
			}
			to := filepath.Join(output, dir, f.Name)
			if have, err := store.HashFile(to); err != nil || have != f.SHA256 {
				if err := copyWhole(to, from); err != nil {
					return err
				}
			}
			sums = append(sums, f.SHA256+"  "+dir+"/"+f.Name+"\n")
		}
	}
	slices.Sort(sums)
	if err := os.WriteFile(filepath.Join(output, report.SumsName), []byte(strings.Join(sums, "")), 0o644); err != nil {
		return err
	}
	if missing != nil {
		errs = append(errs, missing)
	}
	return errors.Join(errs...)
}

// copyWhole copies a file to its name when it is whole.
func copyWhole(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.CreateTemp(filepath.Dir(to), ".garboard-")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name())
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Chmod(0o644), out.Close()); err != nil {
		return err
	}
	return os.Rename(out.Name(), to)
}
