package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"garboard.local/builder"
	"garboard.local/builder/image"
	"garboard.local/builder/recipe"
	"garboard.local/builder/source/debian"
	"garboard.local/qemu"
)

// bootKinds are what --boot knows, and the output that each needs.
var bootKinds = map[string]recipe.Output{"kernel": recipe.Initramfs, "uki": recipe.UKI, "disk": recipe.Raw, "iso": recipe.ISO}

// machine describes a VM that boots an output, with further words on the kernel
// command line. Call cleanup when the machine has ended.
func (g *global) machine(ctx context.Context, r *builder.Result, boot recipe.Output, tool qemu.Tool, words []string) (m qemu.Machine, cleanup func(), err error) {
	cleanup = func() {}
	if boot == recipe.Initramfs {
		m, err = machineOf(r.Dir, r.Arch, tool, words...)
		return m, cleanup, err
	}
	if tool.UEFI == "" { // a host with QEMU and without its UEFI firmware
		root, err := g.tools(ctx, machineTools)
		if err != nil {
			return m, cleanup, err
		}
		tool.UEFI = qemu.Firmware(r.Arch, root)
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
	m = qemu.Machine{
		Name: filepath.Base(r.Dir), Arch: r.Arch, Tool: tool, MemoryMiB: 4096, Cmdline: strings.Join(words, " "),
		Disks: []qemu.Disk{{Path: file, Snapshot: true}},
	}
	if boot == recipe.ISO { // in a CD drive
		m.Devices = []string{"virtio-scsi-pci,id=cd"}
		m.Disks = []qemu.Disk{{Path: file, ReadOnly: true, Device: "scsi-cd,bus=cd.0"}}
	}
	return m, cleanup, nil
}

// bootDisk makes a disk with an ESP and nothing else.
func (g *global) bootDisk(ctx context.Context, file string, files []image.ESPFile) error {
	root, err := g.tools(ctx, builder.DiskTools)
	if err != nil {
		return err
	}
	run := func(tool string, args ...string) *exec.Cmd { return debian.Command(ctx, root, tool, args...) }
	return image.BootDisk(run, file, files, time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)) // FAT knows no earlier day
}

// tools unpacks pinned host tools.
func (g *global) tools(ctx context.Context, names []string) (root string, err error) {
	o, stop, err := g.options()
	if err != nil {
		return "", err
	}
	defer stop()
	if o.Lock == nil {
		return "", fmt.Errorf("there is no lock to take %s from", strings.Join(names, ", "))
	}
	root, _, err = builder.HostTools(ctx, o, names...)
	return root, err
}
