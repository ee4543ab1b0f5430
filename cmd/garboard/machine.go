package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"garboard.local/builder"
	"garboard.local/builder/source/debian"
	"garboard.local/qemu"
)

// emulator is the QEMU for an architecture: the host's if it is recent enough,
// else the one out of the pinned packages.
func emulator(ctx context.Context, o builder.Options, arch string) (qemu.Tool, error) {
	t, err := qemu.HostTool(ctx, arch, qemu.MinVersion)
	if err == nil || !errors.Is(err, qemu.ErrHostTool) {
		return t, err
	}
	if o.Lock == nil {
		return t, fmt.Errorf("%w, and there is no lock to take another from", err)
	}
	root, _, err := builder.HostTools(ctx, o, machineTools...)
	if err != nil {
		return t, err
	}
	return qemu.PinnedTool(ctx, arch, root, func(ctx context.Context, tool string, args ...string) *exec.Cmd {
		return debian.Command(ctx, root, tool, args...)
	})
}

// machineOf describes a VM that boots the artefacts of a direct kernel boot.
func machineOf(dir, arch string, tool qemu.Tool, extra ...string) (qemu.Machine, error) {
	cmdline, err := os.ReadFile(filepath.Join(dir, builder.CmdlineName))
	if err != nil {
		return qemu.Machine{}, fmt.Errorf("%w; `garboard build` writes it", err)
	}
	words := append(strings.Fields(string(cmdline)), extra...)
	return qemu.Machine{
		Name: filepath.Base(dir), Arch: arch, Tool: tool, MemoryMiB: 4096,
		Kernel: filepath.Join(dir, builder.KernelName), Initrd: filepath.Join(dir, builder.InitramfsName),
		Cmdline: strings.Join(words, " "),
	}, nil
}
