package builder

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"garboard.local/builder/component"
	"garboard.local/builder/licence"
	"garboard.local/builder/recipe"
	"garboard.local/builder/report"
	"garboard.local/builder/rootfs"
	"garboard.local/builder/source/debian"
)

// CommonLicences is the package of the licences that Debian's copyright files
// refer to instead of repeating them (Debian Policy 12.5).
const CommonLicences = "base-files"

// Notices adds the licence texts of what a built image holds, by its manifest:
// Debian's copyright files, the licence files of Go modules, and Go's own.
func Notices(ctx context.Context, o Options, r *recipe.Recipe, m *report.Manifest, n *licence.Notices) error {
	r, err := r.For(m.Arch)
	if err != nil {
		return err
	}
	if err := listsAll(m); err != nil {
		return err
	}
	if err := debianNotices(ctx, o, m, n); err != nil {
		return fmt.Errorf("licence texts of %s for %s: %w", m.Recipe, m.Arch, err)
	}
	if err := programNotices(ctx, o, r, m, n); err != nil {
		return fmt.Errorf("licence texts of %s for %s: %w", m.Recipe, m.Arch, err)
	}
	return nil
}

// listsAll says whether a manifest lists every package that a file of it is from:
// what is not listed would be shipped without its licence and its source.
func listsAll(m *report.Manifest) error {
	listed := map[string]bool{}
	for _, p := range m.Packages {
		listed[p.Name] = true
	}
	for _, e := range slices.Concat(m.Root, m.Early) {
		if f := strings.Fields(e.Origin); len(f) > 1 && f[0] == "deb" && e.Kind != rootfs.Dir && !listed[f[1]] {
			return fmt.Errorf("manifest of %s for %s: /%s is from package %s, which it does not list; build it anew", m.Recipe, m.Arch, strings.TrimPrefix(e.Path, "/"), f[1])
		}
	}
	return nil
}

func debianNotices(ctx context.Context, o Options, m *report.Manifest, n *licence.Notices) error {
	lib := &library{ctx: ctx, store: o.Store, debs: map[string]debian.Package{}}
	for _, d := range o.Lock.Debian.Packages[m.Arch] {
		lib.debs[d.Name] = d
	}
	for _, p := range m.Packages {
		if d, ok := lib.debs[p.Name]; !ok || d.SHA256 != p.SHA256 {
			return fmt.Errorf("package %s %s is in the image and not in the lock; build it anew", p.Name, p.Version)
		}
		text, err := lib.copyright(p.Name)
		if err != nil {
			return fmt.Errorf("package %s: %w", p.Name, err)
		}
		n.Add("Debian package "+p.Name+" "+p.Version, string(text))
	}
	return nil
}

func programNotices(ctx context.Context, o Options, r *recipe.Recipe, m *report.Manifest, n *licence.Notices) error {
	b := &build{Options: o}
	vouch := map[string]string{} // directory of the go.mod that a program was built with
	for _, c := range r.Components {
		for name := range c.Files {
			vouch[name] = path.Join(ComponentsDir, c.Name)
		}
	}
	for _, p := range m.Programs {
		var mods []component.Module
		for _, x := range p.Modules {
			mods = append(mods, component.Module{Path: x.Path, Version: x.Version, Sum: x.Sum, Patched: x.Patched, Replace: x.Replace})
		}
		dir, ok := vouch[p.Name]
		if !ok {
			dir = "."
		}
		terms, err := component.Licences(ctx, b.componentOptions(), dir, mods)
		if err != nil {
			return err
		}
		for i, x := range mods {
			files := terms.Of(x).Files
			if len(files) == 0 {
				n.Add("Go module "+p.Modules[i].Key(), "")
			}
			for _, f := range files {
				n.Add("Go module "+p.Modules[i].Key(), terms.Texts[f.Text])
			}
		}
	}
	files, err := component.GoLicences(ctx, b.componentOptions())
	if err != nil {
		return err
	}
	for _, f := range files {
		n.Add("Go "+o.Lock.Go+", library and runtime", f.Text)
	}
	return nil
}

var referred = regexp.MustCompile(`/usr/share/common-licenses/([A-Za-z0-9.+-]*[A-Za-z0-9+])`)

// AddCommonLicences adds the texts that those in n refer to.
func AddCommonLicences(ctx context.Context, o Options, n *licence.Notices) error {
	texts, err := commonLicences(ctx, o)
	if err != nil {
		return err
	}
	return addReferred(n, texts)
}

func addReferred(n *licence.Notices, texts map[string]string) error {
	names := map[string]bool{}
	for _, t := range n.Texts() {
		for _, m := range referred.FindAllStringSubmatch(t, -1) {
			names[m[1]] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if text, ok := texts[name]; ok { // some files name what is not there, such as a version to come
			n.Add("/usr/share/common-licenses/"+name+" of Debian systems", text)
		}
	}
	if len(names) > 0 && len(texts) == 0 {
		return fmt.Errorf("package %s has no licences", CommonLicences)
	}
	return nil
}

// commonLicences are the texts in /usr/share/common-licenses by their names,
// those of links too.
func commonLicences(ctx context.Context, o Options) (map[string]string, error) {
	debs, err := o.Lock.ToolClosure(runtime.GOARCH, []string{CommonLicences})
	if err != nil {
		return nil, err
	}
	if err := o.Archive.FetchAll(ctx, debs); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(debs, func(d debian.Package) bool { return d.Name == CommonLicences })
	c, err := debian.Files(ctx, o.Store, debs[i])
	if err != nil {
		return nil, err
	}
	out, links := map[string]string{}, map[string]string{}
	for _, f := range c.Files {
		name, ok := strings.CutPrefix(f.Path, "usr/share/common-licenses/")
		if !ok {
			continue
		}
		if f.Type == debian.TypeSymlink {
			links[name] = path.Base(f.Link)
		} else if f.SHA256 != "" {
			b, err := os.ReadFile(c.Content(f))
			if err != nil {
				return nil, err
			}
			out[name] = string(b)
		}
	}
	for name, to := range links {
		if text, ok := out[to]; ok {
			out[name] = text
		}
	}
	return out, nil
}
