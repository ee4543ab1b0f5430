package component

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/mod/modfile"
)

// prepare makes a work directory in which the component can be compiled:
//
//	go.mod go.sum   the component's, with replacements added
//	src/            the module's source with everything laid over it
//	replace/<n>/    the modules that stand in for others
//	patch/<n>/      the patched source of other modules
//
// All replacements are relative paths, as the binaries record them. The caller
// removes the directory.
func (c *component) prepare(ctx context.Context, g *goCommand, in inputs) (string, error) {
	work, err := os.MkdirTemp("", "garboard-"+c.name+"-")
	if err != nil {
		return "", fmt.Errorf("work directory: %w; set TMPDIR", err)
	}
	if err := c.fill(ctx, g, in, work); err != nil {
		return "", errors.Join(err, os.RemoveAll(work))
	}
	return work, nil
}

func (c *component) fill(ctx context.Context, g *goCommand, in inputs, work string) error {
	for _, f := range []string{"go.mod", "go.sum"} {
		if err := copyFile(filepath.Join(work, f), filepath.Join(c.dir, f)); err != nil {
			return err
		}
	}
	src := filepath.Join(work, "src")
	if err := c.source(ctx, g, work, src, c.Module, c.pin, in.patches); err != nil {
		return err
	}
	if err := c.overlay(src, in); err != nil {
		return err
	}

	mod, err := modfile.Parse("go.mod", modfile.Format(c.mod.Syntax), nil)
	if err != nil {
		return err
	}
	if err := mod.AddReplace(c.Module, "", "./src", ""); err != nil {
		return err
	}
	for i, m := range slices.Sorted(maps.Keys(in.replaces)) {
		dir := path.Join("replace", strconv.Itoa(i))
		if err := in.replaces[m].layOver(filepath.Join(work, dir)); err != nil {
			return err
		}
		if err := mod.AddReplace(m, "", "./"+dir, ""); err != nil {
			return err
		}
	}
	for i, m := range slices.Sorted(maps.Keys(in.patched)) {
		dir := path.Join("patch", strconv.Itoa(i))
		if err := c.source(ctx, g, work, filepath.Join(work, dir), m, c.patched[m], in.patched[m]); err != nil {
			return err
		}
		if err := mod.AddReplace(m, "", "./"+dir, ""); err != nil {
			return err
		}
	}
	data, err := mod.Format()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(work, "go.mod"), data, 0o644)
}

// source makes dir a patched copy of a module's source.
func (c *component) source(ctx context.Context, g *goCommand, work, dir, mod string, at pin, with patches) error {
	upstream, err := c.download(ctx, g, work, mod, at)
	if err != nil {
		return err
	}
	if err := copyTree(ctx, dir, upstream); err != nil {
		return fmt.Errorf("copy the source of %s: %w", mod, err)
	}
	for _, p := range with {
		if err := applyPatch(dir, p); err != nil {
			return fmt.Errorf("%s: %w", mod+"@"+at.version, err)
		}
	}
	return nil
}

// overlay adds files to the patched source.
func (c *component) overlay(src string, in inputs) error {
	if err := in.files.layOver(src); err != nil {
		return err
	}
	for _, to := range slices.Sorted(maps.Keys(in.copies)) {
		if err := in.copies[to].layOver(filepath.Join(src, filepath.FromSlash(to))); err != nil {
			return err
		}
	}
	return nil
}

// download returns the directory of the module cache with a module's source,
// after the go command has checked it against the component's go.sum.
func (c *component) download(ctx context.Context, g *goCommand, work, mod string, at pin) (string, error) {
	id := mod + "@" + at.version
	out, runErr := g.output(ctx, work, "mod", "download", "-json", id)
	var m struct{ Dir, Sum, Error string }
	if err := json.NewDecoder(bytes.NewReader(out)).Decode(&m); err != nil {
		if runErr != nil {
			err = runErr
		}
		return "", fmt.Errorf("download %s: %w", id, err)
	}
	switch {
	case m.Error != "":
		return "", fmt.Errorf("download %s: %s", id, m.Error)
	case runErr != nil:
		return "", fmt.Errorf("download %s: %w", id, runErr)
	case m.Sum != at.sum:
		return "", fmt.Errorf("%s has the hash %s, but go.sum in %s says %s", id, m.Sum, c.dir, at.sum)
	}
	return m.Dir, nil
}
