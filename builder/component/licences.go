package component

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/module"

	"garboard.local/builder/licence"
	"garboard.local/builder/store"
)

// Terms are the licences of modules, and the texts that state them.
type Terms struct {
	Modules map[string]ModuleTerms `json:"modules"` // by Path@Version, or Path alone for what is ours
	Texts   map[string]string      `json:"texts"`   // by sha256
}

// ModuleTerms are those of one module.
type ModuleTerms struct {
	licence.Finding
	Files []TermsFile `json:"files"`
}

// TermsFile is a licence file of a module.
type TermsFile struct {
	Name string `json:"name"`
	Text string `json:"text"` // key in Texts
}

// termsKey names a module in Terms.
func termsKey(m Module) string {
	if m.Version == "" || m.Replace != "" {
		return m.Path
	}
	return m.Path + "@" + m.Version
}

// Of is what is known of a module.
func (t *Terms) Of(m Module) ModuleTerms { return t.Modules[termsKey(m)] }

// Licences reads the licence files of modules in the module cache, into which
// what is missing is fetched. dir, relative to the repository, holds the go.mod
// and go.sum that vouch for them: a component's, or "." for our own.
func Licences(ctx context.Context, opts Options, dir string, mods []Module) (*Terms, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	parts := []string{"licences 2"}
	for _, m := range mods {
		if m.Version == "" || m.Replace != "" { // ours: its files are small and may change
			files, err := ownFiles(opts.RepoRoot, m)
			if err != nil {
				return nil, err
			}
			parts = append(parts, fmt.Sprint(files))
		}
		parts = append(parts, termsKey(m)+" "+m.Sum)
	}
	out, _, err := opts.Store.Action(ctx, store.Key(parts...), func(ctx context.Context, out string) error {
		t, err := readTerms(ctx, opts, filepath.Join(opts.RepoRoot, dir), mods)
		if err != nil {
			return err
		}
		b, err := json.Marshal(t)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(out, "terms.json"), b, 0o644)
	})
	if err != nil {
		return nil, fmt.Errorf("licences of the modules in %s: %w", dir, err)
	}
	b, err := os.ReadFile(filepath.Join(out, "terms.json"))
	if err != nil {
		return nil, err
	}
	t := &Terms{}
	return t, json.Unmarshal(b, t)
}

func readTerms(ctx context.Context, opts Options, dir string, mods []Module) (*Terms, error) {
	t := &Terms{Modules: map[string]ModuleTerms{}, Texts: map[string]string{}}
	sources, err := moduleSources(ctx, opts, dir, mods)
	if err != nil {
		return nil, err
	}
	for _, m := range mods {
		var files []licence.File
		if src, ok := sources[termsKey(m)]; ok {
			files, err = licence.Files(os.DirFS(src))
		} else {
			files, err = ownFiles(opts.RepoRoot, m)
		}
		if err != nil {
			return nil, fmt.Errorf("module %s: %w", termsKey(m), err)
		}
		mt := ModuleTerms{Finding: licence.Module(files), Files: []TermsFile{}}
		for _, f := range files {
			sum := store.Key(f.Text)
			t.Texts[sum] = f.Text
			mt.Files = append(mt.Files, TermsFile{Name: f.Name, Text: sum})
		}
		t.Modules[termsKey(m)] = mt
	}
	return t, nil
}

// ownFiles are the licence files of what lies in this repository: beside it, or the repository's.
func ownFiles(root string, m Module) ([]licence.File, error) {
	for _, d := range []string{m.Replace, "."} {
		if d == "" {
			continue
		}
		files, err := licence.Files(os.DirFS(filepath.Join(root, filepath.FromSlash(d))))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if len(files) > 0 {
			return files, nil
		}
	}
	return nil, nil
}

// moduleSources are the directories of the module cache with the modules' sources.
func moduleSources(ctx context.Context, opts Options, dir string, mods []Module) (map[string]string, error) {
	g, err := newGoCommand(ctx, opts)
	if err != nil {
		return nil, err
	}
	cache := ""
	for _, kv := range g.env {
		if v, ok := strings.CutPrefix(kv, "GOMODCACHE="); ok {
			cache = v
		}
	}
	out := map[string]string{}
	var missing []string
	for _, m := range mods {
		if m.Version == "" || m.Replace != "" {
			continue
		}
		p, err := module.EscapePath(m.Path)
		if err != nil {
			return nil, err
		}
		v, err := module.EscapeVersion(m.Version)
		if err != nil {
			return nil, err
		}
		src := filepath.Join(cache, filepath.FromSlash(p)+"@"+v)
		out[termsKey(m)] = src
		if _, err := os.Stat(src); err != nil {
			missing = append(missing, m.Path+"@"+m.Version)
		}
	}
	if len(missing) == 0 {
		return out, nil
	}
	// In a copy: the go command may add lines to go.sum.
	work, err := os.MkdirTemp("", "garboard-licences-")
	if err != nil {
		return nil, fmt.Errorf("work directory: %w; set TMPDIR", err)
	}
	defer os.RemoveAll(work)
	for _, f := range []string{"go.mod", "go.sum"} {
		if err := copyFile(filepath.Join(work, f), filepath.Join(dir, f)); err != nil {
			return nil, err
		}
	}
	slices.Sort(missing)
	said, err := g.output(ctx, work, append([]string{"mod", "download", "-json"}, missing...)...)
	for d := json.NewDecoder(bytes.NewReader(said)); err == nil && d.More(); {
		var m struct{ Path, Version, Dir, Error string }
		if err := d.Decode(&m); err != nil {
			return nil, fmt.Errorf("go mod download: %w", err)
		}
		out[m.Path+"@"+m.Version] = m.Dir
	}
	return out, err
}
