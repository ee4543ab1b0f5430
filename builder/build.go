// Package builder turns a recipe and a lock into artefacts.
package builder

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"garboard.local/builder/component"
	"garboard.local/builder/image"
	"garboard.local/builder/lock"
	"garboard.local/builder/progress"
	"garboard.local/builder/recipe"
	"garboard.local/builder/report"
	"garboard.local/builder/rootfs"
	"garboard.local/builder/source/debian"
	"garboard.local/builder/store"
	"garboard.local/init/table"
	"garboard.local/kernel"
)

// Options are the inputs of a build beside the recipe.
type Options struct {
	Root     string // the repository
	Output   string // artefacts go to Output/<recipe>-<arch>
	Small    bool   // compress hard
	Store    *store.Store
	Progress progress.Reporter
	Lock     *lock.Lock
	Archive  *debian.Archive
}

// Result says what a build made.
type Result struct {
	Recipe    string            `json:"recipe"`
	Arch      string            `json:"arch"`
	Dir       string            `json:"dir"`
	Artefacts []report.Artefact `json:"artefacts"`
	Seconds   float64           `json:"seconds"`
	Cached    bool              `json:"cached"` // nothing had to be written again
}

// build is the state of one build: each step reads what earlier ones left.
type build struct {
	Options
	arch   string
	recipe *recipe.Recipe
	epoch  time.Time // every time in the artefacts

	debs     map[string]debian.Package // target packages, by name
	tools    string                    // root of the host tools
	toolKey  string
	kernel   *kernel.Kernel
	parts    map[string]component.Result
	own      map[string]component.Binary
	images   images
	services []table.Service // what PID 1 runs, compiled; set by addTable
	tree     *rootfs.Tree
	accounts map[string]account // who is in the tree's /etc/passwd
	early    *rootfs.Tree
	first    *rootfs.Tree // microcode; nil if there is none
	root     string       // EROFS image
	initrd   string       // initramfs
	files    []outFile    // what the outputs are
	cached   bool         // the root image and the initramfs were there
	artefact []report.Artefact
	packages []report.Package // of which something is in the image
	programs []report.Program // compiled for it

	kernelImage *report.KernelImage // nil: the kernel is a Debian package's
}

// step is a part of the build; those of one stage run at the same time.
type step struct {
	name string
	run  func(*build, context.Context) error
}

// stages is the build, in order.
var stages = [][]step{
	{
		{"check that lock and sources agree", (*build).checkLock},
		{"fetch Debian packages", (*build).fetchPackages},
		{"fetch host tools", (*build).fetchTools},
	},
	{
		{"compile components", (*build).compileComponents},
		{"compile our own programs", (*build).compileOwn},
		{"prepare the kernel", (*build).prepareKernel},
		{"fetch container images", (*build).fetchImages},
	},
	{{"lay out preloaded images", (*build).layImages}},
	{{"assemble the root image", (*build).assemble}},
	{{"write the root image", (*build).writeRoot}},
	{{"write the initramfs", (*build).writeInitramfs}},
	{{"make the outputs", (*build).makeOutputs}},
	{{"list what is in the image", (*build).listIngredients}},
	{{"write the artefacts", (*build).writeArtefacts}},
}

// Build makes the artefacts of a recipe for one architecture.
func Build(ctx context.Context, o Options, r *recipe.Recipe, arch string) (*Result, error) {
	began := time.Now()
	r, err := r.For(arch)
	if err != nil {
		return nil, err
	}
	b := &build{Options: o, arch: arch, recipe: r, epoch: o.Lock.Time}
	for _, stage := range stages {
		g, ctx := errgroup.WithContext(ctx)
		for _, s := range stage {
			g.Go(func() error {
				if err := s.run(b, ctx); err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			return nil, fmt.Errorf("build %s for %s: %w", r.Name, arch, err)
		}
	}
	return &Result{
		Recipe: r.Name, Arch: arch, Dir: b.outDir(), Artefacts: b.artefact,
		Seconds: time.Since(began).Seconds(), Cached: b.cached,
	}, nil
}

func (b *build) outDir() string { return filepath.Join(b.Output, b.recipe.Name+"-"+b.arch) }

// PackageNames are the Debian packages that a recipe, for one architecture, names.
func PackageNames(r *recipe.Recipe) []string {
	names := []string{StubPackage}
	if r.Kernel.Package != "" {
		names = append(names, r.Kernel.Package)
	}
	for _, f := range r.Kernel.Firmware {
		names = append(names, f.Package)
	}
	for _, m := range r.Kernel.Microcode {
		names = append(names, m.Package)
	}
	for _, p := range r.Packages {
		names = append(names, p.Name)
	}
	return names
}

// NotFollowed are packages that are never locked for a node, though others
// depend on them: they serve an installed Debian (making an initramfs,
// questions at installation), and no file of theirs is ever asked for.
var NotFollowed = []string{"initramfs-tools", "linux-initramfs-tool", "dracut", "linux-base", "kmod", "debconf", "debconf-2.0", "openssl", "perl", "perl-base", "iucode-tool"}

func (b *build) checkLock(context.Context) error {
	for _, c := range b.recipe.Components {
		if err := b.Lock.VerifyComponent(c.Name, filepath.Join(b.Root, ComponentsDir, c.Name)); err != nil {
			return err
		}
	}
	return nil
}

func (b *build) fetchPackages(ctx context.Context) error {
	debs, err := b.Lock.Closure(b.arch, PackageNames(b.recipe))
	if err != nil {
		return err
	}
	b.debs = map[string]debian.Package{}
	for _, d := range debs {
		b.debs[d.Name] = d
	}
	return b.Archive.FetchAll(ctx, debs)
}

func (b *build) fetchTools(ctx context.Context) (err error) {
	b.tools, b.toolKey, err = HostTools(ctx, b.Options, BuildTools...)
	return err
}

// BuildTools are the host tools, as Debian packages, that a build runs.
var BuildTools = []string{"erofs-utils", "kmod"}

// DiskTools are the host tools of disk images: for FAT, ext4 (mke2fs reads a tar
// archive with a library that it loads if it is there) and qcow2.
var DiskTools = []string{"dosfstools", "mtools", "e2fsprogs", "libarchive13t64", "qemu-utils"}

// ISOTools are those of an ISO.
var ISOTools = []string{"xorriso", "dosfstools", "mtools"}

// StubPackage holds systemd-stub, which makes a kernel and an initramfs a UKI.
const StubPackage = "systemd-boot-efi"

// HostTools unpacks host tools out of the pinned packages and returns their
// root directory and a key that changes when any of them does.
func HostTools(ctx context.Context, o Options, names ...string) (root, key string, err error) {
	debs, err := o.Lock.ToolClosure(runtime.GOARCH, names)
	if err != nil {
		return "", "", err
	}
	if err := o.Archive.FetchAll(ctx, debs); err != nil {
		return "", "", err
	}
	var sums []string
	for _, d := range debs {
		sums = append(sums, d.SHA256)
	}
	root, err = debian.Tools(ctx, o.Store, debs)
	return root, store.Key(sums...), err
}

func (b *build) compileComponents(ctx context.Context) error {
	b.parts = map[string]component.Result{}
	for _, c := range b.recipe.Components { // one at a time: each uses every core
		r, err := component.Build(ctx, b.componentOptions(), c.Name, b.arch)
		if err != nil {
			return err
		}
		b.parts[c.Name] = r
	}
	return nil
}

func (b *build) componentOptions() component.Options {
	return component.Options{Store: b.Store, Progress: b.Progress, RepoRoot: b.Root, GoVersion: b.Lock.Go}
}

// ComponentsDir holds the components, relative to the repository.
const ComponentsDir = "overlays/src"

// initProgram is the package of PID 1.
const initProgram = "init/main"

func (b *build) compileOwn(ctx context.Context) (err error) {
	programs := map[string]string{"init": "./" + initProgram}
	for _, m := range slices.Concat(b.recipe.Images, b.recipe.Disk.Images) {
		if m.Program != "" {
			programs[programName(m.Program)] = "./" + m.Program
		}
	}
	for _, p := range b.recipe.Programs {
		programs[programName(p.Program)] = "./" + p.Program
	}
	b.own, err = component.Own(ctx, b.componentOptions(), b.arch, programs)
	return err
}

func (b *build) writeRoot(ctx context.Context) (err error) {
	c := image.Fast
	if b.Small {
		c = image.Small
	}
	t := b.Progress.Start("compress", fmt.Sprintf("root image of %s %s (%s)", b.recipe.Name, b.arch, c.Name), 0)
	b.root, b.cached, err = image.EROFS(ctx, b.Store, b.run(ctx), b.toolKey, b.tree, c, b.epoch)
	finish(t, b.cached, err, b.root)
	return err
}

func (b *build) writeInitramfs(ctx context.Context) (err error) {
	if b.early, err = b.earlyTree(b.kernel.Boot, b.kernel.File); err != nil {
		return err
	}
	if b.first, err = b.microcode(ctx); err != nil {
		return err
	}
	t := b.Progress.Start("write", fmt.Sprintf("initramfs of %s %s", b.recipe.Name, b.arch), 0)
	file, cached, err := image.Initramfs(ctx, b.Store, b.first, b.root, b.early, b.epoch)
	b.initrd, b.cached = file, b.cached && cached
	finish(t, cached, err, file)
	return err
}

// earlyTree is what lies in an initramfs beside a root image.
func (b *build) earlyTree(modules []kernel.Module, file func(string) string) (*rootfs.Tree, error) {
	var mods []image.BootModule
	for _, m := range modules {
		mods = append(mods, image.BootModule{Name: m.Name, File: file(m.File), Reason: m.Reason, Needs: m.Needs})
	}
	o := b.own["init"]
	init, err := rootfs.FromFile("/init", 0o755, o.Path, o.SHA256, "garboard "+initProgram, "PID 1; answers as modprobe and pinns too")
	if err != nil {
		return nil, err
	}
	return image.Early(init, mods, b.kernel.Origin)
}

// finish ends a task with the size of what it made.
func finish(t progress.Task, cached bool, err error, file string) {
	switch {
	case err != nil:
		t.Fail(err)
	case cached:
		t.Cached()
	default:
		note := ""
		if fi, err := os.Stat(file); err == nil {
			note = fmt.Sprintf("%.1f MB", float64(fi.Size())/1e6)
		}
		t.Done(note)
	}
}

// locked runs f under the build's own lock of the output directory, so that two
// builds of one recipe do not mix their files.
func (b *build) locked(ctx context.Context, f func() error) error {
	abs, err := filepath.Abs(b.outDir())
	if err != nil {
		return err
	}
	unlock, err := b.Store.Lock(ctx, store.Key("output", abs))
	if err != nil {
		return err
	}
	defer unlock()
	return f()
}
