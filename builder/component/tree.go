package component

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"garboard.local/builder/store"
)

// inputs are the files of this repository that go into a build.
type inputs struct {
	patches  patches            // of the module itself
	patched  map[string]patches // by module
	files    fileSet            // files/
	copies   map[string]fileSet // by directory in the module's source
	replaces map[string]fileSet // by module
	sums     map[string]string  // sha256 by absolute path
}

// patches are absolute paths of patch files, in the order of application.
type patches []string

// fileSet is files below a directory, by their paths relative to it.
type fileSet struct {
	root  string
	names []string
}

// inputs finds the files and hashes them.
func (c *component) inputs() (inputs, error) {
	in := inputs{patched: map[string]patches{}, copies: map[string]fileSet{}, replaces: map[string]fileSet{}, sums: map[string]string{}}
	var err error
	if in.patches, err = findPatches(filepath.Join(c.dir, "patches")); err != nil {
		return in, err
	}
	for mod, dir := range c.Patch {
		found, err := findPatches(filepath.Join(c.dir, filepath.FromSlash(dir)))
		if err != nil {
			return in, err
		}
		if len(found) == 0 {
			return in, fmt.Errorf("patch %s: %s has no *.patch file", mod, filepath.Join(c.dir, dir))
		}
		in.patched[mod] = found
	}
	if in.files, err = walk(filepath.Join(c.dir, "files"), true); err != nil {
		return in, err
	}
	for from, to := range c.Copy {
		set, err := goFiles(filepath.Join(c.root, filepath.FromSlash(from)))
		if err != nil {
			return in, fmt.Errorf("copy %s: %w", from, err)
		}
		in.copies[to] = set
	}
	for mod, dir := range c.Replace {
		set, err := walk(filepath.Join(c.dir, filepath.FromSlash(dir)), false)
		if err != nil {
			return in, fmt.Errorf("replace %s: %w", mod, err)
		}
		if !slices.Contains(set.names, "go.mod") {
			return in, fmt.Errorf("replace %s: %s has no go.mod", mod, set.root)
		}
		in.replaces[mod] = set
	}
	return in, in.hash(c.dir)
}

// findPatches lists the patches in dir; a missing dir has none.
func findPatches(dir string) (patches, error) {
	found, err := filepath.Glob(filepath.Join(dir, "*.patch"))
	slices.Sort(found)
	return found, err
}

func (in *inputs) hash(dir string) error {
	paths := slices.Concat(slices.Collect(maps.Values(in.patched))...)
	paths = append(paths, in.patches...)
	for _, f := range []string{"go.mod", "go.sum", "component.yaml"} {
		paths = append(paths, filepath.Join(dir, f))
	}
	for _, set := range in.sets() {
		for _, n := range set.names {
			paths = append(paths, filepath.Join(set.root, n))
		}
	}
	for _, p := range paths {
		sum, err := store.HashFile(p)
		if err != nil {
			return err
		}
		in.sums[p] = sum
	}
	return nil
}

func (in *inputs) sets() []fileSet {
	sets := []fileSet{in.files}
	for _, s := range in.copies {
		sets = append(sets, s)
	}
	for _, s := range in.replaces {
		sets = append(sets, s)
	}
	return sets
}

// key names the result of a build.
func (c *component) key(in inputs, goVersion, arch string, flags []string) string {
	// The number changes when this package builds differently from the same inputs.
	parts := []string{"component 1", goVersion, arch, fmt.Sprint(len(flags))}
	parts = append(parts, flags...)
	parts = append(parts, targetEnv(arch)...)
	for p, sum := range in.sums {
		rel, err := filepath.Rel(c.root, p)
		if err != nil {
			rel = p
		}
		parts = append(parts, rel+"\x00"+sum)
	}
	slices.Sort(parts[4+len(flags):])
	return store.Key(parts...)
}

// walk lists the regular files below dir; a missing dir has none. Without
// tests it leaves out _test.go files and testdata directories.
func walk(dir string, tests bool) (fileSet, error) {
	set := fileSet{root: dir}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && p == dir:
			return nil
		case err != nil:
			return err
		case d.IsDir() && !tests && d.Name() == "testdata":
			return fs.SkipDir
		case d.IsDir() || !tests && strings.HasSuffix(d.Name(), "_test.go"):
			return nil
		case !d.Type().IsRegular():
			return fmt.Errorf("%s is neither a regular file nor a directory", p)
		}
		rel, err := filepath.Rel(dir, p)
		set.names = append(set.names, rel)
		return err
	})
	return set, err
}

// goFiles lists the .go files directly in dir that are not tests. None is an error.
func goFiles(dir string) (fileSet, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fileSet{}, err
	}
	set := fileSet{root: dir}
	for _, e := range entries {
		if n := e.Name(); e.Type().IsRegular() && strings.HasSuffix(n, ".go") && !strings.HasSuffix(n, "_test.go") {
			set.names = append(set.names, n)
		}
	}
	if len(set.names) == 0 {
		return set, fmt.Errorf("%s has no .go files", dir)
	}
	return set, nil
}

// layOver copies the files into dir, where none of them may exist yet.
func (s fileSet) layOver(dir string) error {
	for _, n := range s.names {
		err := copyFile(filepath.Join(dir, n), filepath.Join(s.root, n))
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%s cannot be laid over: the source has a %s already; change it with a patch", filepath.Join(s.root, n), n)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// copyTree copies the regular files below src into the new directory dst.
func copyTree(ctx context.Context, dst, src string) error {
	set, err := walk(src, true)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for _, n := range set.names {
		g.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return copyFile(filepath.Join(dst, n), filepath.Join(src, n))
		})
	}
	return g.Wait()
}

// copyFile copies a regular file to a path that must not exist yet, and makes
// the directories above it. The copy can be written to, whatever the original's mode.
func copyFile(dst, src string) error {
	in, err := os.Open(src)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := mkdir(filepath.Dir(dst)); err != nil {
		return err
	}
	out, err := os.OpenFile(dst, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// mkdir makes a directory and those above it that this user can work in and
// others can read, whatever the umask.
func mkdir(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.Chmod(dir, 0o755)
}
