package builder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"

	"garboard.local/builder/image"
	"garboard.local/builder/recipe"
	"garboard.local/builder/rootfs"
	"garboard.local/builder/source/debian"
	"garboard.local/builder/store"
)

// outputs is every output that a recipe can ask for, with what makes it.
var outputs = map[recipe.Output]func(*build, context.Context) ([]outFile, error){
	recipe.Initramfs: (*build).directBoot,
	recipe.UKI:       (*build).uki,
	recipe.Raw:       (*build).raw,
	recipe.QCOW2:     (*build).qcow2,
	recipe.ISO:       (*build).iso,
}

// outFile is a file of the store and the name under which it is an artefact.
type outFile struct{ name, from string }

// OutputName is the name of a recipe's artefact: the recipe's and the output's.
func OutputName(recipeName string, o recipe.Output) string {
	if o == recipe.UKI {
		return recipeName + ".efi"
	}
	return recipeName + "." + string(o)
}

// makeOutputs makes what the recipe asks for.
func (b *build) makeOutputs(ctx context.Context) error {
	for _, o := range recipe.Outputs {
		if !slices.Contains(b.recipe.Outputs, o) {
			continue
		}
		files, err := outputs[o](b, ctx)
		if err != nil {
			return fmt.Errorf("output %s: %w", o, err)
		}
		b.files = append(b.files, files...)
	}
	return nil
}

func (b *build) directBoot(context.Context) ([]outFile, error) {
	script, err := b.netboot()
	return []outFile{{KernelName, b.kernel.Vmlinuz()}, {InitramfsName, b.initrd}, script}, err
}

func (b *build) uki(ctx context.Context) ([]outFile, error) {
	file, err := b.makeUKI(ctx, b.initrd)
	return []outFile{{OutputName(b.recipe.Name, recipe.UKI), file}}, err
}

func (b *build) raw(ctx context.Context) ([]outFile, error) {
	file, err := b.disk(ctx)
	return []outFile{{OutputName(b.recipe.Name, recipe.Raw), file}}, err
}

func (b *build) qcow2(ctx context.Context) ([]outFile, error) {
	raw, err := b.disk(ctx)
	if err != nil {
		return nil, err
	}
	run, key, err := b.diskTools(ctx)
	if err != nil {
		return nil, err
	}
	t := b.Progress.Start("write", fmt.Sprintf("qcow2 of %s %s", b.recipe.Name, b.arch), 0)
	file, cached, err := image.QCOW2(ctx, b.Store, run, key, raw)
	finish(t, cached, err, file)
	return []outFile{{OutputName(b.recipe.Name, recipe.QCOW2), file}}, err
}

// makeUKI makes a UKI of the kernel, an initramfs, and the recipe's command line
// with further words.
func (b *build) makeUKI(ctx context.Context, initrd string, words ...string) (string, error) {
	stub, err := b.stub(ctx)
	if err != nil {
		return "", err
	}
	e := b.tree.Get("/etc/os-release")
	if e == nil || e.Kind != rootfs.File {
		return "", errors.New("the root image has no file /etc/os-release, which a UKI names itself by; an overlay of the recipe gives it one")
	}
	r, err := e.Open()
	if err != nil {
		return "", err
	}
	defer r.Close()
	release, err := io.ReadAll(r)
	if err != nil {
		return "", err
	}
	t := b.Progress.Start("write", fmt.Sprintf("UKI of %s %s", b.recipe.Name, b.arch), 0)
	file, cached, err := image.UKI(ctx, b.Store, image.UKIInput{
		Stub: stub, Kernel: b.kernel.Vmlinuz(), Initrd: initrd, OSRelease: release, Uname: b.kernel.Version,
		Cmdline: strings.Join(b.kernelWords(words...), " "),
	})
	finish(t, cached, err, file)
	return file, err
}

// stub is systemd-stub for the architecture.
func (b *build) stub(ctx context.Context) (string, error) {
	deb, ok := b.debs[StubPackage]
	if !ok {
		return "", fmt.Errorf("package %s is not in the lock; run `garboard lock`", StubPackage)
	}
	c, err := debian.Files(ctx, b.Store, deb)
	if err != nil {
		return "", err
	}
	want := map[string]string{"amd64": "linuxx64.efi.stub", "arm64": "linuxaa64.efi.stub"}[b.arch]
	for _, f := range c.Files {
		if path.Base(f.Path) == want && f.Type == debian.TypeFile {
			return c.Content(f), nil
		}
	}
	return "", fmt.Errorf("package %s %s holds no %s", deb.Name, deb.Version, want)
}

// diskTools are the host tools that only disk images need.
func (b *build) diskTools(ctx context.Context) (image.Run, string, error) {
	root, key, err := HostTools(ctx, b.Options, DiskTools...)
	return func(tool string, args ...string) *exec.Cmd { return debian.Command(ctx, root, tool, args...) }, key, err
}

// disk makes the disk image; the second time it is in the store.
func (b *build) disk(ctx context.Context) (string, error) {
	in := image.DiskInput{Arch: b.arch, Epoch: b.epoch}
	var err error
	if in.Sizes, err = sizes(b.recipe.Disk); err != nil {
		return "", err
	}
	uki := ""
	if b.recipe.Disk.InMemory() {
		uki, err = b.makeUKI(ctx, b.initrd)
	} else {
		in.Root = b.root
		uki, err = b.diskUKI(ctx)
	}
	if err != nil {
		return "", err
	}
	in.ESP = []image.ESPFile{{Path: image.BootFile(b.arch), From: uki}}
	if in.Data, err = b.dataContent(); err != nil {
		return "", err
	}
	run, key, err := b.diskTools(ctx)
	if err != nil {
		return "", err
	}
	t := b.Progress.Start("write", fmt.Sprintf("disk image of %s %s", b.recipe.Name, b.arch), 0)
	file, cached, err := image.Disk(ctx, b.Store, run, key, in)
	finish(t, cached, err, file)
	return file, err
}

// diskUKI makes a UKI whose initramfs holds PID 1 and drivers, but no root image:
// that lies in a partition, and the command line says in which.
func (b *build) diskUKI(ctx context.Context) (string, error) {
	early, err := b.earlyTree(b.kernel.Disks, b.kernel.DiskFile)
	if err != nil {
		return "", err
	}
	initrd, _, err := image.Initramfs(ctx, b.Store, b.first, "", early, b.epoch)
	if err != nil {
		return "", err
	}
	sum, err := store.HashFile(b.root)
	if err != nil {
		return "", err
	}
	return b.makeUKI(ctx, initrd, image.RootParam(sum)...)
}

func sizes(d recipe.Disk) (s image.Sizes, err error) {
	for _, f := range []struct {
		text string
		to   *int64
	}{{d.Size, &s.Disk}, {d.DataSize, &s.Data}, {d.ESPSize, &s.ESP}, {d.RootSize, &s.Root}} {
		if *f.to, err = recipe.ParseSize(f.text); err != nil {
			return s, err
		}
	}
	return s, nil
}

// etcUpper is where the data partition keeps what a node has written to /etc.
const etcUpper = "lib/garboard/etc/upper"

// dataContent is what lies on the data partition from the start; nil if nothing
// does: then the node makes the file system, with a UUID of its own.
func (b *build) dataContent() (*rootfs.Tree, error) {
	if len(b.recipe.Disk.Content)+len(b.images.data) == 0 {
		return nil, nil
	}
	t := rootfs.New()
	own := rootfs.Entry{Path: "lib/garboard", Kind: rootfs.Dir, Mode: 0o700, Origin: "builder", Reason: "PID 1's own"}
	if err := t.Add(own); err != nil {
		return nil, err
	}
	for _, c := range b.recipe.Disk.Content {
		err := walkOverlay(c, func(e rootfs.Entry) error {
			top, rest, _ := strings.Cut(strings.TrimPrefix(path.Clean("/"+e.Path), "/"), "/")
			switch {
			case top != "var" && top != "etc":
				return fmt.Errorf("/%s: the data partition holds what is in /var and /etc of a node; what else it needs belongs into overlays", strings.TrimPrefix(e.Path, "/"))
			case rest == "":
				return nil
			case top == "etc":
				rest = path.Join(etcUpper, rest)
			}
			e.Path = rest
			return t.Add(e)
		})
		if err != nil {
			return nil, fmt.Errorf("disk.content %s: %w", c.Path, err)
		}
	}
	for _, e := range b.images.data {
		if err := t.Add(e); err != nil {
			return nil, fmt.Errorf("disk.images: %w", err)
		}
	}
	return t, t.Check()
}
