package builder

import (
	"context"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"garboard.local/builder/component"
	"garboard.local/builder/licence"
	"garboard.local/builder/recipe"
	"garboard.local/builder/report"
	"garboard.local/builder/rootfs"
	"garboard.local/builder/source/debian"
	"garboard.local/builder/store"
)

// listIngredients gathers what others made of the image: the Debian packages
// that gave a file, and the modules that the programs themselves say they hold.
func (b *build) listIngredients(ctx context.Context) error {
	if err := b.listPackages(ctx); err != nil {
		return err
	}
	if err := b.listKernelImage(); err != nil {
		return err
	}
	return b.listPrograms(ctx)
}

// listKernelImage lists the OCI image that the kernel came from, if it did.
func (b *build) listKernelImage() error {
	k, ok, err := report.ParseKernelImage(b.kernel.Origin, b.kernel.Version)
	if err != nil || !ok {
		return err
	}
	fi, err := os.Stat(b.kernel.Vmlinuz())
	if err != nil {
		return err
	}
	k.Files, k.Bytes = 1, fi.Size()
	for _, e := range slices.Concat(b.tree.Entries(), b.earlyEntries()) {
		if e.Origin == b.kernel.Origin && e.Kind == rootfs.File {
			k.Files++
			k.Bytes += e.Size
		}
	}
	b.kernelImage = &k
	return nil
}

// share is what a package gave.
type share struct {
	files int
	bytes int64
}

func (b *build) listPackages(ctx context.Context) error {
	shares := map[string]*share{}
	give := func(origin string, e *rootfs.Entry) {
		f := strings.Fields(origin)
		if len(f) != 3 || f[0] != "deb" || e != nil && e.Kind == rootfs.Dir {
			return
		}
		s := shares[f[1]]
		if s == nil {
			s = &share{}
			shares[f[1]] = s
		}
		if s.files++; e != nil {
			s.bytes += e.Size
		}
	}
	for _, e := range slices.Concat(b.tree.Entries(), b.earlyEntries()) {
		give(e.Origin, e)
	}
	if fi, err := os.Stat(b.kernel.Vmlinuz()); err == nil {
		give(b.kernel.Origin, &rootfs.Entry{Kind: rootfs.File, Size: fi.Size()})
	}
	if slices.ContainsFunc(b.recipe.Outputs, func(o recipe.Output) bool { return o != recipe.Initramfs }) {
		stub, err := b.stub(ctx) // it stands before the kernel
		if err != nil {
			return err
		}
		fi, err := os.Stat(stub)
		if err != nil {
			return err
		}
		give("deb "+StubPackage+" -", &rootfs.Entry{Kind: rootfs.File, Size: fi.Size()})
	}
	lib := &library{store: b.Store, debs: b.debs, ctx: ctx}
	for _, name := range keys(shares) {
		d, ok := b.debs[name]
		if !ok {
			return fmt.Errorf("a file comes from package %s, which is not in the recipe's closure of the lock", name)
		}
		c, err := debian.Files(ctx, b.Store, d)
		if err != nil {
			return err
		}
		terms, err := b.cachedTerms(lib, d)
		if err != nil {
			return fmt.Errorf("package %s: %w", name, err)
		}
		p := report.Package{
			Name: d.Name, Version: d.Version, Arch: d.Architecture, Source: d.Source, SourceVersion: d.SourceVersion,
			SHA256: d.SHA256, File: d.File, Archive: d.Archive, Description: c.Description, Homepage: c.Homepage, Maintainer: c.Maintainer,
			Licence: expression(terms), LicenceFrom: string(terms.Source), Copyleft: terms.Copyleft(),
			Files: shares[name].files, Bytes: shares[name].bytes,
		}
		using, err := debian.BuiltUsing(b.Store, d)
		if err != nil {
			return err
		}
		for _, src := range using {
			p.BuiltUsing = append(p.BuiltUsing, src.String())
		}
		for _, on := range d.Depends {
			if shares[on] != nil {
				p.Depends = append(p.Depends, on)
			}
		}
		b.packages = append(b.packages, p)
	}
	return nil
}

func expression(f licence.Finding) string {
	if x := f.Expression(); x != "" {
		return x
	}
	return licence.NoAssertion
}

// cachedTerms keeps what debianTerms finds: telling licences by their text takes
// longer than the rest of a build in which nothing changed.
func (b *build) cachedTerms(lib *library, d debian.Package) (f licence.Finding, err error) {
	parts := []string{"debian-licence 1", d.SHA256}
	for _, on := range d.Depends {
		parts = append(parts, b.debs[on].SHA256)
	}
	dir, _, err := b.Store.Action(lib.ctx, store.Key(parts...), func(_ context.Context, dir string) error {
		f, err := b.debianTerms(lib, d.Name)
		if err != nil {
			return err
		}
		js, err := json.Marshal(f)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, "terms.json"), js, 0o644)
	})
	if err != nil {
		return f, err
	}
	js, err := os.ReadFile(filepath.Join(dir, "terms.json"))
	if err != nil {
		return f, err
	}
	return f, json.Unmarshal(js, &f)
}

func (b *build) debianTerms(lib *library, name string) (licence.Finding, error) {
	text, err := lib.copyright(name)
	if err != nil || text == nil {
		return licence.Finding{Source: licence.Unknown}, err
	}
	return licence.Debian(text), nil
}

// copyright is a package's copyright file, which may lie in another one of the
// same source (Debian Policy 12.5); nil if there is none.
func (l *library) copyright(name string) ([]byte, error) {
	from := name
	for range 4 {
		files, err := l.open(from)
		if err != nil {
			return nil, err
		}
		doc := "usr/share/doc/" + from
		if at := files[doc+"/copyright"]; at != nil && at.file.SHA256 != "" {
			return os.ReadFile(at.dir.Content(at.file))
		} else if at != nil && at.file.Type == debian.TypeSymlink {
			from = path.Base(path.Dir(path.Join(doc, at.file.Link)))
		} else if at := files[doc]; at != nil && at.file.Type == debian.TypeSymlink {
			from = path.Base(at.file.Link)
		} else {
			break
		}
		if _, ok := l.debs[from]; !ok {
			break
		}
	}
	return nil, nil
}

func (b *build) listPrograms(ctx context.Context) error {
	for _, c := range b.recipe.Components {
		part := b.parts[c.Name]
		terms, err := component.Licences(ctx, b.componentOptions(), path.Join(ComponentsDir, c.Name), part.Modules)
		if err != nil {
			return err
		}
		for _, name := range keys(c.Files) {
			mods, err := linked(part.Binaries[name], part.Modules)
			if err != nil {
				return err
			}
			p := b.program(name, b.tree.Get(c.Files[name]), part.Module, mods, terms)
			p.Version = part.Version
			if slices.ContainsFunc(mods, func(m component.Module) bool { return m.Patched }) {
				p.Patched = path.Join(ComponentsDir, c.Name)
			}
			b.programs = append(b.programs, p)
		}
	}
	for _, name := range keys(b.own) {
		o := b.own[name]
		terms, err := component.Licences(ctx, b.componentOptions(), ".", o.Modules)
		if err != nil {
			return err
		}
		info, err := buildinfo.ReadFile(o.Path)
		if err != nil {
			return err
		}
		file := &rootfs.Entry{Size: o.Size, SHA256: o.SHA256}
		b.programs = append(b.programs, b.program(name, file, info.Main.Path, o.Modules, terms))
	}
	slices.SortFunc(b.programs, func(x, y report.Program) int { return strings.Compare(x.Name, y.Name) })
	return nil
}

func (b *build) program(name string, file *rootfs.Entry, module string, mods []component.Module, terms *component.Terms) report.Program {
	p := report.Program{Name: name, Module: module, Go: b.Lock.Go, SHA256: file.SHA256, Size: file.Size}
	for _, m := range mods {
		t := terms.Of(m)
		p.Modules = append(p.Modules, report.Module{
			Path: m.Path, Version: m.Version, Sum: m.Sum, Patched: m.Patched, Replace: filepath.ToSlash(m.Replace),
			Licence: expression(t.Finding), LicenceFrom: string(t.Source),
		})
	}
	return p
}

// linked are those of a component's modules that one of its programs holds.
func linked(program string, mods []component.Module) ([]component.Module, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, err
	}
	in := map[string]bool{info.Main.Path: true}
	for _, d := range info.Deps {
		if in[d.Path] = true; d.Replace != nil {
			in[d.Replace.Path] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(mods), func(m component.Module) bool { return !in[m.Path] }), nil
}
