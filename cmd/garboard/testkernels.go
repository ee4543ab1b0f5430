package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"garboard.local/builder"
	"garboard.local/builder/recipe"
	"garboard.local/builder/source/debian"
	"garboard.local/builder/source/oci/ocitest"
	"garboard.local/kernel"
	"garboard.local/kernel/kerneltest"
)

// kernelTests is how the names of tests begin that boot other kernels than a node's.
const kernelTests = "TestVMKernel"

// testKernels boots nodes with other kernels.
func (g *global) testKernels(ctx context.Context, flags buildFlags, run string) error {
	o, stop, err := g.options()
	if err != nil {
		return err
	}
	defer stop()
	if flags.output, err = filepath.Abs(flags.output); err != nil {
		return err
	}
	if o.Lock == nil {
		return fmt.Errorf("there is no lock; `garboard lock` makes it")
	}
	packed, err := packKernel(ctx, o, flags.output)
	if err != nil {
		return fmt.Errorf("put a kernel image together: %w", err)
	}
	results, err := flags.build(ctx, g, []string{filepath.Join(o.Root, "recipes/test-metal.yaml"), packed})
	if err != nil {
		return err
	}
	for _, r := range results {
		printResult(os.Stderr, r)
	}
	if run == "" {
		run = "^" + kernelTests
	}
	return goTestImages(ctx, o, flags.output, false, "-run", run, "./qemu")
}

// packKernel makes an OCI layout, as LinuxKit's kernels are, of the Debian kernels
// that the node's recipe has, for both architectures, and a recipe that uses it.
func packKernel(ctx context.Context, o builder.Options, output string) (file string, err error) {
	base := filepath.Join(o.Root, "recipes/test.yaml")
	r, err := recipe.Load(base)
	if err != nil {
		return "", err
	}
	var images []v1.Image
	for _, arch := range recipe.Arches {
		a, err := r.For(arch)
		if err != nil {
			return "", err
		}
		debs, err := o.Lock.Closure(arch, []string{a.Kernel.Package})
		if err != nil {
			return "", err
		}
		deb, err := kernel.Find(debs)
		if err != nil {
			return "", err
		}
		if err := o.Archive.FetchAll(ctx, []debian.Package{deb}); err != nil {
			return "", err
		}
		src, err := kernel.FromDebian(ctx, o.Store, deb)
		if err != nil {
			return "", err
		}
		img, err := kerneltest.LinuxKit(src, arch, "garboard.kernel=oci")
		if err != nil {
			return "", err
		}
		images = append(images, img)
	}
	dir := filepath.Join(output, "kernel-oci")
	if err := ocitest.Layout(filepath.Join(dir, "layout"), ocitest.Index(images...)); err != nil {
		return "", err
	}
	extends, err := filepath.Rel(dir, base)
	if err != nil {
		return "", err
	}
	file = filepath.Join(dir, "recipe.yaml")
	if err := packHello(ctx, o, dir); err != nil {
		return "", err
	}
	text := fmt.Sprintf(`# Written by garboard test kernels.
extends: %s
name: test-oci
kernel: {oci: ./layout}
images:
  - {name: registry.example/team/hello:2, oci: ./hello, reason: a container image of others is used in place}
overlays:
  - {path: overlay, reason: pod of that image}
`, filepath.ToSlash(extends))
	return file, os.WriteFile(file, []byte(text), 0o644)
}
