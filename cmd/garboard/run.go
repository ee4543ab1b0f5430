package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"garboard.local/qemu"
)

func runCommand(g *global) *cobra.Command {
	var flags buildFlags
	var duration time.Duration
	var memory, cpus int
	var forwards, extra []string
	var verbose bool
	var boot string
	cmd := &cobra.Command{
		Use:   "run [RECIPE]",
		Short: "Build a recipe and boot it in QEMU with its console on the terminal",
		Long: `Run builds the recipe (default recipes/node.yaml), boots it in QEMU and shows its
console: the phases of the boot, then what the pods write. Ctrl-C, or the end of
--for, presses the machine's power button: the kubelet ends the pods within their
grace and the machine powers off. The exit status is 0 only if that was clean.

--boot says what is booted: kernel (kernel and initramfs, by QEMU itself), uki (the
UKI, by UEFI firmware), disk (the disk image, by UEFI firmware; what is written to
it is thrown away at the end) or iso (the ISO, as a CD).

QEMU is the host's if it is version ` + qemu.MinVersion.String() + ` or newer, else the pinned one.`,
		Example: `  garboard run
  garboard run recipes/node.yaml --for 60s
  garboard run --arch arm64 --memory 2048
  garboard run --boot disk --size 20GiB
  garboard run --forward 8080:80 --append garboard.hostname=edge-7`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: completeRecipes,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{"recipes/node.yaml"}
			}
			if flags.arch == "all" {
				return usageError{errors.New("--arch all: one machine runs one architecture")}
			}
			kind, ok := bootKinds[boot]
			if !ok {
				return usageError{fmt.Errorf("--boot %q: known are kernel, uki, disk and iso", boot)}
			}
			flags.outputs = []string{string(kind)}
			results, err := flags.build(cmd.Context(), g, args)
			if err != nil {
				return err
			}
			printResult(cmd.ErrOrStderr(), results[0])
			o, stop, err := g.options()
			if err != nil {
				return err
			}
			tool, err := emulator(cmd.Context(), o, flags.arch)
			stop()
			if err != nil {
				return err
			}
			console := "garboard.console=pods"
			if verbose {
				console += ",services"
			}
			m, cleanup, err := g.machine(cmd.Context(), results[0], kind, tool, append([]string{console}, extra...))
			if err != nil {
				return err
			}
			defer cleanup()
			m.MemoryMiB, m.CPUs = memory, cpus
			if m.Forwards, err = parseForwards(forwards); err != nil {
				return usageError{err}
			}
			// From here ctrl-C means the power button, not the end of this program.
			signals := make(chan os.Signal, 4)
			signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
			defer signal.Stop(signals)
			return qemu.Run(context.WithoutCancel(cmd.Context()), qemu.RunOptions{
				Machine: m, Out: cmd.OutOrStdout(), For: duration, Signals: signals, Repeats: 2,
			})
		},
	}
	flags.add(cmd)
	f := cmd.Flags()
	f.DurationVar(&duration, "for", 0, "press the power button after this time, such as 60s")
	f.IntVar(&memory, "memory", 4096, "memory of the machine in MiB")
	f.IntVar(&cpus, "cpus", 2, "CPUs of the machine")
	f.StringSliceVar(&forwards, "forward", nil, "HOST:GUEST TCP port of this machine's loopback to the guest (repeatable)")
	f.StringArrayVar(&extra, "append", nil, "further word of the kernel command line (repeatable)")
	f.StringVar(&boot, "boot", "kernel", "what to boot: kernel, uki, disk or iso")
	cmd.RegisterFlagCompletionFunc("boot", cobra.FixedCompletions([]string{"kernel", "uki", "disk", "iso"}, cobra.ShellCompDirectiveNoFileComp))
	f.BoolVar(&verbose, "verbose", false, "the services' own logs on the console too")
	return cmd
}

func parseForwards(in []string) (out []qemu.Forward, err error) {
	for _, s := range in {
		h, gu, ok := strings.Cut(s, ":")
		host, err1 := strconv.Atoi(h)
		guest, err2 := strconv.Atoi(gu)
		if !ok || err1 != nil || err2 != nil || host < 1 || host > 65535 || guest < 1 || guest > 65535 {
			return nil, fmt.Errorf("--forward %q: write HOST:GUEST, such as 8080:80", s)
		}
		out = append(out, qemu.Forward{Host: host, Guest: guest})
	}
	return out, nil
}
