package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"garboard.local/builder"
	"garboard.local/kernel"
)

func kernelCommand(g *global) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kernel",
		Short: "Say what a node needs of its kernel, and whether one has it",
		Example: `  garboard kernel check /boot/config-$(uname -r)
  garboard kernel needs`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(kernelCheckCommand(g), kernelNeedsCommand())
	return cmd
}

func kernelCheckCommand(g *global) *cobra.Command {
	var arch string
	var asJSON, image bool
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Compare a kernel's configuration with what a node needs",
		Long: `Check reads a configuration (/boot/config-*, .config, /proc/config.gz), or a
kernel that holds its own (CONFIG_IKCONFIG), or with --image a container image laid
out as LinuxKit's kernels, and says what a node would miss. The exit status is 1 if
the node would not run. Builds check their kernel by themselves.`,
		Example: `  garboard kernel check /boot/config-6.12.0
  garboard kernel check --arch arm64 /proc/config.gz
  garboard kernel check --image ./kernel-layout`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("name a configuration, such as /boot/config-6.12.0, or a kernel")}
			}
			if arch != "amd64" && arch != "arm64" {
				return usageError{fmt.Errorf("--arch %q: known are amd64 and arm64", arch)}
			}
			b, err := checkedConfig(cmd, g, args[0], arch, image)
			if err != nil {
				return err
			}
			config, err := kernel.ReadConfig(b)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			missing, lost, err := kernel.Check(arch, config, nil)
			if err != nil {
				return err
			}
			if asJSON {
				err = writeJSON(cmd.OutOrStdout(), map[string][]kernel.Gap{"missing": missing, "lost": lost})
			} else {
				printGaps(cmd.OutOrStdout(), args[0], missing, lost)
			}
			if err == nil && len(missing) > 0 {
				err = fmt.Errorf("%s: a node does not run on this kernel: %d of the options that it needs are missing", args[0], len(missing))
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&arch, "arch", "amd64", "architecture of the node")
	f.BoolVar(&asJSON, "json", false, "print as JSON")
	f.BoolVar(&image, "image", false, "FILE is an OCI layout, or an archive, with a kernel laid out as LinuxKit's")
	return cmd
}

// checkedConfig is the configuration in the file, or in the image that it is.
func checkedConfig(cmd *cobra.Command, g *global, file, arch string, image bool) ([]byte, error) {
	if !image {
		return os.ReadFile(file)
	}
	o, stop, err := g.options()
	if err != nil {
		return nil, err
	}
	defer stop()
	src, err := builder.KernelFile(cmd.Context(), o, file, arch)
	if err != nil {
		return nil, err
	}
	if src.Config == nil {
		return nil, fmt.Errorf("%s: the configuration of kernel %s cannot be checked: %s", file, src.Version, src.Unknown)
	}
	return src.Config, nil
}

func printGaps(w io.Writer, name string, missing, lost []kernel.Gap) {
	for _, g := range missing {
		fmt.Fprintf(w, "missing: %s\n", g)
	}
	for _, g := range lost {
		fmt.Fprintf(w, "warning: %s\n", g)
	}
	if len(missing)+len(lost) == 0 {
		fmt.Fprintf(w, "%s: a node has all that it needs\n", name)
	}
}

func kernelNeedsCommand() *cobra.Command {
	var arch string
	cmd := &cobra.Command{
		Use:     "needs",
		Short:   "List the options that a node needs, as a fragment of a configuration with the reasons",
		Example: "  garboard kernel needs --arch arm64 > node.config",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := kernel.Requirements(arch)
			if err != nil {
				return err
			}
			for _, r := range list {
				fmt.Fprintf(cmd.OutOrStdout(), "# %s\n%s\n", r.Reason, r.Line())
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&arch, "arch", "amd64", "architecture of the node")
	return cmd
}
