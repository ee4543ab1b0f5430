package component

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"garboard.local/builder/store"
)

// Binary is one of our own programs, built.
type Binary struct {
	Path    string // of the blob in the store
	SHA256  string // of its bytes, in hexadecimal
	Size    int64  // in bytes
	Modules []Module
}

// Own compiles programs of this repository for an architecture: packages maps
// their names to packages below RepoRoot, such as ./init/main. All are built
// by one go build. What they depend on names the result, so an unchanged
// program costs one `go list`.
func Own(ctx context.Context, opts Options, arch string, packages map[string]string) (map[string]Binary, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	task := opts.Progress.Start("compile", strings.Join(slices.Sorted(maps.Keys(packages)), ", ")+" "+arch, 0)
	bins, cached, err := own(ctx, opts, arch, packages)
	switch {
	case err != nil:
		err = fmt.Errorf("our own programs for %s: %w", arch, err)
		task.Fail(err)
	case cached:
		task.Cached()
	default:
		task.Done("")
	}
	return bins, err
}

func own(ctx context.Context, opts Options, arch string, packages map[string]string) (map[string]Binary, bool, error) {
	c := &component{root: opts.RepoRoot}
	flags, err := c.flags(arch)
	if err != nil {
		return nil, false, err
	}
	pkgs := map[string]string{}
	for name, pkg := range packages {
		pkg = "./" + strings.TrimPrefix(pkg, "./")
		if err := checkPackage(pkg); err != nil {
			return nil, false, err
		}
		if !binaryName.MatchString(name) {
			return nil, false, fmt.Errorf("%q is not a name for a program", name)
		}
		pkgs[name] = pkg
	}
	g, err := newGoCommand(ctx, opts)
	if err != nil {
		return nil, false, err
	}
	key, err := ownKey(ctx, g, opts, arch, flags, pkgs)
	if err != nil {
		return nil, false, err
	}
	dir, cached, err := opts.Store.Action(ctx, key, func(ctx context.Context, dir string) error {
		return g.build(ctx, opts.RepoRoot, arch, flags, pkgs, dir, false)
	})
	if err != nil {
		return nil, false, err
	}
	bins := map[string]Binary{}
	for name := range pkgs {
		if bins[name], err = putBinary(opts.Store, filepath.Join(dir, name)); err != nil {
			return nil, false, err
		}
	}
	return bins, cached, nil
}

// putBinary makes a built program a blob.
func putBinary(s *store.Store, path string) (Binary, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return Binary{}, err
	}
	found := map[string]Module{}
	for _, m := range append(slices.Clone(info.Deps), &info.Main) {
		found[m.Path] = plainModule(m)
	}
	sum, err := store.HashFile(path)
	if err != nil {
		return Binary{}, err
	}
	fi, err := os.Stat(path)
	if err != nil {
		return Binary{}, err
	}
	b := Binary{Path: s.Blob(sum), SHA256: sum, Size: fi.Size(), Modules: sortModules(found)}
	if s.Has(sum) {
		return b, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return Binary{}, err
	}
	defer f.Close()
	_, _, err = s.Put(f)
	return b, err
}

// ownKey hashes the source files of the packages and of everything of this
// repository that they import; what lies in other modules is named by go.sum.
func ownKey(ctx context.Context, g *goCommand, opts Options, arch string, flags []string, pkgs map[string]string) (string, error) {
	parts := []string{"own 1", opts.GoVersion, fmt.Sprint(len(flags))}
	parts = append(parts, flags...)
	parts = append(parts, targetEnv(arch)...)
	args := []string{"list", "-deps", "-json=Dir,Standard,Module,GoFiles,SFiles,HFiles,SysoFiles,EmbedFiles", "-mod=readonly"}
	for _, name := range slices.Sorted(maps.Keys(pkgs)) {
		parts = append(parts, name, pkgs[name])
		args = append(args, pkgs[name])
	}
	lister := &goCommand{path: g.path, env: append(slices.Clone(g.env), targetEnv(arch)...)}
	out, err := lister.output(ctx, opts.RepoRoot, args...)
	if err != nil {
		return "", err
	}
	files := []string{filepath.Join(opts.RepoRoot, "go.mod"), filepath.Join(opts.RepoRoot, "go.sum")}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			Dir                                            string
			Standard                                       bool
			Module                                         *struct{ Main bool }
			GoFiles, SFiles, HFiles, SysoFiles, EmbedFiles []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return "", fmt.Errorf("go list: %w", err)
		}
		if p.Standard || p.Module == nil || !p.Module.Main {
			continue
		}
		for _, f := range slices.Concat(p.GoFiles, p.SFiles, p.HFiles, p.SysoFiles, p.EmbedFiles) {
			files = append(files, filepath.Join(p.Dir, f))
		}
	}
	for _, f := range files {
		sum, err := store.HashFile(f)
		if errors.Is(err, os.ErrNotExist) && filepath.Base(f) == "go.sum" {
			continue // a module without dependencies has none
		}
		if err != nil {
			return "", err
		}
		rel, err := filepath.Rel(opts.RepoRoot, f)
		if err != nil {
			return "", err
		}
		parts = append(parts, rel, sum)
	}
	return store.Key(parts...), nil
}
