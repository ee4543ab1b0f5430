package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"garboard.local/builder"
	"garboard.local/builder/lock"
	"garboard.local/builder/progress"
	"garboard.local/builder/source/debian"
	"garboard.local/builder/store"
)

// global are the flags every command has.
type global struct {
	dir     string
	mirrors []string
	quiet   bool
}

func newRoot() *cobra.Command {
	g := &global{}
	root := &cobra.Command{
		Use:   "garboard",
		Short: "Build and run bootable Kubernetes node images",
		Long: `Garboard turns a recipe and a lock into a bootable Kubernetes node: a kernel and
an initramfs in which a Go PID 1 starts cri-o and the kubelet, and nothing else.

It needs Go and a network; no root, no container engine.`,
		Example: `  garboard build recipes/node.yaml
  garboard run recipes/node.yaml --for 60s
  garboard inspect out/node-amd64`,
		SilenceErrors: true, SilenceUsage: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("unknown command %q; `garboard --help` lists the commands", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f := root.PersistentFlags()
	f.StringVarP(&g.dir, "directory", "C", "", "the repository; default: the nearest directory upwards with a "+lock.FileName)
	f.StringSliceVar(&g.mirrors, "mirror", nil, "Debian mirror, such as https://mirror.example/debian (repeatable; also $GARBOARD_MIRROR; default: the host's own)")
	f.BoolVarP(&g.quiet, "quiet", "q", false, "no progress")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; `%s --help` shows what it takes", err, cmd.CommandPath())}
	})
	root.AddCommand(buildCommand(g), runCommand(g), testCommand(g), benchCommand(g), chaosCommand(g), lockCommand(g), inspectCommand(g), diffCommand(g), convertCommand(g), reproCommand(g), cacheCommand(g), sourcesCommand(g), releaseCommand(g), kernelCommand(g), schemaCommand(), versionCommand())
	return root
}

// root is the repository's directory.
func (g *global) root() (string, error) {
	if g.dir != "" {
		return filepath.Abs(g.dir)
	}
	wd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for d := wd; ; d = filepath.Dir(d) {
		for _, f := range []string{lock.FileName, "recipes"} {
			if _, err := os.Stat(filepath.Join(d, f)); err == nil {
				return d, nil
			}
		}
		if d == filepath.Dir(d) {
			return "", usageError{fmt.Errorf("neither %s nor a directory above it holds %s or recipes/; go there, or name it with -C", wd, lock.FileName)}
		}
	}
}

// options gathers what builds need; close the returned reporter when done.
func (g *global) options() (builder.Options, func(), error) {
	var o builder.Options
	root, err := g.root()
	if err != nil {
		return o, nil, err
	}
	dir, err := store.DefaultDir()
	if err != nil {
		return o, nil, err
	}
	if o.Store, err = store.Open(dir); err != nil {
		return o, nil, err
	}
	var stop func()
	o.Progress, stop = g.reporter()
	mirrors, err := debian.DefaultMirrors(g.mirrors, os.Getenv("GARBOARD_MIRROR"), "/etc/apt")
	if err != nil {
		return o, nil, usageError{err}
	}
	o.Archive, err = debian.New(debian.Options{Store: o.Store, Mirrors: mirrors, Progress: o.Progress})
	if err != nil {
		return o, nil, err
	}
	o.Root = root
	o.Lock, err = lock.Read(filepath.Join(root, lock.FileName))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // `garboard lock` makes the first one; a build says what is missing
	}
	return o, stop, err
}

// reporter tells of progress on standard error; call stop before anything else is printed.
func (g *global) reporter() (r progress.Reporter, stop func()) {
	switch {
	case g.quiet:
		return progress.Discard, func() {}
	case term.IsTerminal(int(os.Stderr.Fd())) && os.Getenv("TERM") != "dumb":
		return progress.Bars(os.Stderr)
	}
	return progress.Lines(os.Stderr), func() {}
}

// arches reads the --arch flag.
func arches(flag string) ([]string, error) {
	switch flag {
	case "all":
		return []string{"amd64", "arm64"}, nil
	case "amd64", "arm64":
		return []string{flag}, nil
	}
	return nil, usageError{fmt.Errorf("--arch %q: known are amd64, arm64 and all", flag)}
}

// commandName is how the user called a command, for messages.
func commandName(cmd *cobra.Command) string { return strings.TrimSpace(cmd.CommandPath()) }
