package builder

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"garboard.local/builder/image"
	"garboard.local/builder/lock"
	"garboard.local/builder/report"
	"garboard.local/builder/rootfs"
)

// Names of the artefacts for direct kernel boot; OutputName has the others.
const (
	KernelName    = "vmlinuz"
	InitramfsName = "initramfs.img"
	CmdlineName   = "cmdline"
)

// writeArtefacts puts the artefacts under their final names. Each appears whole
// or not at all, and one that is right already is left alone.
func (b *build) writeArtefacts(ctx context.Context) error {
	cmdline := strings.Join(b.kernelWords(), " ") + "\n"
	manifest, sbom, err := b.reports(strings.TrimSpace(cmdline))
	if err != nil {
		return err
	}
	// The lock that was used, which is not the committed one where --gone=update mended it.
	used, err := b.Lock.Marshal()
	if err != nil {
		return err
	}
	return b.locked(ctx, func() error {
		dir := b.outDir()
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("output: %w", err)
		}
		if err := sweepLeftovers(dir); err != nil {
			return fmt.Errorf("output: %w", err)
		}
		for _, f := range b.files {
			if err := b.place(ctx, dir, f.name, f.from); err != nil {
				return fmt.Errorf("output: %w", err)
			}
		}
		for _, f := range []struct {
			name string
			body []byte
		}{{CmdlineName, []byte(cmdline)}, {report.ManifestName, manifest}, {report.SBOMName, sbom}, {lock.FileName, used}} {
			if err := b.placeBytes(dir, f.name, f.body); err != nil {
				return fmt.Errorf("output: %w", err)
			}
		}
		return writeBytes(filepath.Join(dir, report.SumsName), report.Sums(b.artefact))
	})
}

// reports are the manifest and the bill of materials.
func (b *build) reports(cmdline string) (manifest, sbom []byte, err error) {
	c := image.Fast
	if b.Small {
		c = image.Small
	}
	m := report.Manifest{
		Recipe: b.recipe.Name, Arch: b.arch, Compression: c.Name, Kernel: b.kernel.Version, Cmdline: cmdline, Time: b.epoch,
		Packages: b.packages, Programs: b.programs, KernelImage: b.kernelImage, Images: b.listedImages(), Root: b.tree.Entries(), Early: b.earlyEntries(),
	}
	if manifest, err = m.JSON(); err != nil {
		return nil, nil, err
	}
	sbom, err = m.SBOM()
	return manifest, sbom, err
}

// earlyEntries are those of the initramfs beside the root image, microcode included.
func (b *build) earlyEntries() []*rootfs.Entry {
	if b.first == nil {
		return b.early.Entries()
	}
	return slices.Concat(b.first.Entries(), b.early.Entries())
}

func (b *build) placeBytes(dir, name string, body []byte) error {
	sum, size, err := b.Store.Put(strings.NewReader(string(body)))
	if err != nil {
		return err
	}
	b.artefact = append(b.artefact, report.Artefact{Name: name, Size: size, SHA256: sum})
	return writeBytes(filepath.Join(dir, name), body)
}

func writeBytes(to string, body []byte) error {
	return writeAtomic(to, func(w *os.File) error { _, err := w.Write(body); return err })
}

// writeAtomic writes a file beside its final name, flushes it and renames it.
func writeAtomic(to string, fill func(*os.File) error) error {
	f, err := os.CreateTemp(filepath.Dir(to), ".garboard-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if err := errors.Join(fill(f), f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), to)
}

// Size is the bytes of a named artefact, 0 where there is none.
func (r *Result) Size(name string) int64 {
	for _, a := range r.Artefacts {
		if a.Name == name {
			return a.Size
		}
	}
	return 0
}
