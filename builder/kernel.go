package builder

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"garboard.local/builder/recipe"
	"garboard.local/builder/rootfs"
	"garboard.local/builder/source/debian"
	"garboard.local/builder/source/oci"
	"garboard.local/kernel"
)

func (b *build) prepareKernel(ctx context.Context) error {
	src, err := b.kernelSource(ctx)
	if err != nil {
		return err
	}
	if b.kernel, err = kernel.Prepare(ctx, b.Store, b.run(ctx), b.toolKey, b.arch, src, b.recipe.Kernel); err != nil {
		return err
	}
	for _, note := range b.kernel.Notes {
		b.Progress.Start("warning", "kernel "+b.kernel.Version, 0).Done(note)
	}
	return nil
}

// kernelSource opens the kernel that the recipe names.
func (b *build) kernelSource(ctx context.Context) (*kernel.Source, error) {
	ref := b.recipe.Kernel.OCI
	switch {
	case ref == "":
		var debs []debian.Package
		for _, d := range b.debs {
			debs = append(debs, d)
		}
		deb, err := kernel.Find(debs)
		if err != nil {
			return nil, err
		}
		return kernel.FromDebian(ctx, b.Store, deb)
	case recipe.LocalOCI(ref):
		return KernelFile(ctx, b.Options, ref, b.arch)
	}
	digest, err := b.Lock.Digest(ref, b.arch)
	if err != nil {
		return nil, err
	}
	return kernel.FromOCI(ctx, b.Store, b.arch, ref, digest, func() (*oci.Image, error) { return oci.Pull(ctx, ref, digest, b.arch) })
}

// KernelFile is the kernel of an image laid out as LinuxKit's in a file or directory.
func KernelFile(ctx context.Context, o Options, file, arch string) (*kernel.Source, error) {
	img, err := oci.Open(file, oci.Choice{Arch: arch}, o.Store.Temp(""))
	if err != nil {
		return nil, err
	}
	defer img.Close()
	return kernel.FromOCI(ctx, o.Store, arch, filepath.Base(file), img.Sum, func() (*oci.Image, error) { return img, nil })
}

// addFirmware adds what the image's drivers ask for and the recipe's packages
// have, and the files that the recipe names.
func (b *build) addFirmware(lib *library) error {
	for _, f := range b.recipe.Kernel.Firmware {
		for _, w := range b.kernel.Firmware {
			if err := b.addFirmwareFiles(lib, f.Package, recipe.FirmwareDir+"/"+w.Name, f.Reason+": "+w.Driver); err != nil {
				return err
			}
		}
		for _, pattern := range f.Files {
			files, err := lib.glob(f.Package, pattern)
			if err != nil {
				return err
			}
			if err := b.addNew(files, f.Reason); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *build) addFirmwareFiles(lib *library, pkg, pattern, reason string) error {
	m, err := lib.open(pkg)
	if err != nil {
		return err
	}
	p := strings.TrimPrefix(pattern, "/")
	if _, ok := m[p]; !ok && !strings.ContainsAny(p, "*?[") {
		return nil
	}
	// A driver's word for its files may be no pattern, or name none of this package.
	any := false
	for have, at := range m {
		ok, err := path.Match(p, have)
		any = any || have == p || err == nil && ok && at.file.Type != "dir"
	}
	if !any {
		return nil
	}
	files, err := lib.glob(pkg, pattern)
	if err != nil {
		return err
	}
	return b.addNew(files, reason)
}

// addNew adds entries that no other has brought yet: several drivers use one file.
func (b *build) addNew(entries []rootfs.Entry, reason string) error {
	for _, e := range entries {
		if b.tree.Get(e.Path) != nil {
			continue
		}
		e.Reason = reason
		if err := b.tree.Add(e); err != nil {
			return err
		}
	}
	return nil
}

// microcodes are the files that the kernel looks for in an uncompressed archive at
// the very beginning of the initramfs (Documentation/arch/x86/microcode.rst), and
// the directories in Debian's packages whose files they are made of.
var microcodes = []struct{ file, pattern string }{
	{"kernel/x86/microcode/AuthenticAMD.bin", "usr/lib/firmware/amd-ucode/*.bin"},
	{"kernel/x86/microcode/GenuineIntel.bin", "usr/lib/firmware/intel-ucode/*"},
}

// microcode is the tree of that archive; nil if the recipe names no package.
func (b *build) microcode(ctx context.Context) (*rootfs.Tree, error) {
	if len(b.recipe.Kernel.Microcode) == 0 {
		return nil, nil
	}
	lib := &library{store: b.Store, debs: b.debs, ctx: ctx}
	t := rootfs.New()
	for _, p := range b.recipe.Kernel.Microcode {
		found := false
		m, err := lib.open(p.Package)
		if err != nil {
			return nil, err
		}
		for _, c := range microcodes {
			var all bytes.Buffer
			for _, name := range keys(m) {
				if ok, _ := path.Match(c.pattern, name); !ok || m[name].file.Type != "file" { // links would bring a file twice
					continue
				}
				content, err := os.ReadFile(m[name].dir.Content(m[name].file))
				if err != nil {
					return nil, err
				}
				all.Write(content)
			}
			if all.Len() == 0 {
				continue
			}
			found = true
			deb := b.debs[p.Package]
			if err := t.Add(rootfs.FromBytes(c.file, 0o444, all.Bytes(), "deb "+deb.Name+" "+deb.Version, p.Reason)); err != nil {
				return nil, err
			}
		}
		if !found {
			return nil, fmt.Errorf("kernel.microcode: package %s has no file %s, nor the other vendor's", p.Package, "/"+microcodes[0].pattern)
		}
	}
	return t, nil
}
