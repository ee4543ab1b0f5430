package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"garboard.local/builder"
	"garboard.local/builder/image"
	"garboard.local/builder/recipe"
	"garboard.local/builder/source/debian"
	"garboard.local/qemu"
)

// bootKinds are what --boot knows, and the output that each needs.
var bootKinds = map[string]recipe.Output{"kernel": recipe.Initramfs, "uki": recipe.UKI, "disk": recipe.Raw}

// machine describes a VM that boots an output, with further words on the kernel
// command line. Call cleanup when the machine has ended.
func (g *global) machine(ctx context.Context, r *builder.Result, boot recipe.Output, tool qemu.Tool, words []string) (m qemu.Machine, cleanup func(), err error) {
	cleanup = func() {}
	if boot == recipe.Initramfs {
		m, err = machineOf(r.Dir, r.Arch, tool, words...)
		return m, cleanup, err
	}
	file := filepath.Join(r.Dir, builder.OutputName(r.Recipe, boot))
	if boot == recipe.UKI { // firmware boots disks
		dir, err := os.MkdirTemp("", "garboard-uki-")
		if err != nil {
			return m, cleanup, err
		}
		cleanup = func() { os.RemoveAll(dir) }
		disk := filepath.Join(dir, "boot.raw")
		if err := g.bootDisk(ctx, disk, []image.ESPFile{{Path: image.BootFile(r.Arch), From: file}}); err != nil {
			return m, cleanup, err
		}
		file = disk
	}
	return qemu.Machine{
		Name: filepath.Base(r.Dir), Arch: r.Arch, Tool: tool, MemoryMiB: 4096, Cmdline: strings.Join(words, " "),
		Disks: []qemu.Disk{{Path: file, Snapshot: true}},
	}, cleanup, nil
}

// bootDisk makes a disk with an ESP and nothing else.
func (g *global) bootDisk(ctx context.Context, file string, files []image.ESPFile) error {
	o, stop, err := g.options()
	if err != nil {
		return err
	}
	defer stop()
	if o.Lock == nil {
		return errors.New("there is no lock to take the tools for a boot disk from")
	}
	root, _, err := builder.HostTools(ctx, o, builder.DiskTools...)
	if err != nil {
		return err
	}
	return image.BootDisk(func(tool string, args ...string) *exec.Cmd { return debian.Command(ctx, root, tool, args...) }, file, files, o.Lock.Time)
}
