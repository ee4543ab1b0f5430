package builder

import (
	"context"
	"fmt"
	"os/exec"

	"garboard.local/builder/image"
	"garboard.local/builder/recipe"
	"garboard.local/builder/source/debian"
	"garboard.local/builder/store"
)

// iso makes the image for a CD or a stick, with the root image in its UKI.
func (b *build) iso(ctx context.Context) ([]outFile, error) {
	in := image.ISOInput{Epoch: b.epoch}
	// The UKI names the medium, so the name cannot come from the UKI.
	parts := append([]string{b.arch, b.kernel.Version}, b.recipe.Cmdline...)
	for _, f := range []string{b.kernel.Vmlinuz(), b.initrd} {
		sum, err := store.HashFile(f)
		if err != nil {
			return nil, err
		}
		parts = append(parts, sum)
	}
	in.Medium = image.MediumGUID(parts...)
	uki, err := b.makeUKI(ctx, b.initrd, image.MediumParam(in.Medium))
	if err != nil {
		return nil, err
	}
	in.ESP = []image.ESPFile{{Path: image.BootFile(b.arch), From: uki}}
	root, key, err := HostTools(ctx, b.Options, ISOTools...)
	if err != nil {
		return nil, err
	}
	run := func(tool string, args ...string) *exec.Cmd { return debian.Command(ctx, root, tool, args...) }
	t := b.Progress.Start("write", fmt.Sprintf("ISO of %s %s", b.recipe.Name, b.arch), 0)
	file, cached, err := image.ISO(ctx, b.Store, run, key, in)
	finish(t, cached, err, file)
	return []outFile{{OutputName(b.recipe.Name, recipe.ISO), file}}, err
}
