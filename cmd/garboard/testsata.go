package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"garboard.local/builder"
	"garboard.local/builder/source/debian"
	"garboard.local/qemu/satarom"
)

// sataROM writes OUTPUT/sata.rom, by which the firmware of an arm64 machine boots
// from a SATA drive.
func sataROM(ctx context.Context, o builder.Options, output string) error {
	src, err := satarom.Source()
	if err != nil {
		return err
	}
	archive, err := o.Archive.FetchSource(ctx, src)
	if err != nil {
		return err
	}
	root, key, err := builder.HostTools(ctx, o, satarom.Packages...)
	if err != nil {
		return err
	}
	t := o.Progress.Start("compile", "drivers for SATA", 0)
	rom, err := satarom.Build(ctx, o.Store, archive, satarom.Tools{Key: key, Command: func(ctx context.Context, tool string, args ...string) *exec.Cmd {
		return debian.Command(ctx, root, tool, args...)
	}})
	if err != nil {
		t.Fail(err)
		return fmt.Errorf("an option ROM for SATA: %w", err)
	}
	t.Done("")
	if err := os.MkdirAll(output, 0o755); err != nil {
		return err
	}
	return copyTo(filepath.Join(output, "sata.rom"), rom)
}
