package debian

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"garboard.local/builder/store"
)

// toolsFormat names the form of tool roots in the cache.
const toolsFormat = "1"

// Tools unpacks packages, whose .debs are in the store, side by side into one
// directory, from which Command runs programs, and returns that directory. It is
// in the store, whole, and read by everybody: do not write to it.
//
// /bin, /sbin, /lib and /lib64 are links into usr, as on every Debian system.
// Symbolic links are kept; those with an absolute target are made relative, so
// that they do not lead to the host. Owners and setuid bits are dropped.
func Tools(ctx context.Context, st *store.Store, debs []Package) (root string, err error) {
	debs = slices.SortedFunc(slices.Values(debs), comparePackages)
	parts := []string{"debian-tools", toolsFormat}
	for _, p := range debs {
		parts = append(parts, p.SHA256)
	}
	root, _, err = st.Action(ctx, store.Key(parts...), func(ctx context.Context, dir string) error {
		r, err := os.OpenRoot(dir)
		if err != nil {
			return err
		}
		defer r.Close()
		t := &toolRoot{Root: r, owner: map[string]string{}}
		for _, l := range mergedDirs {
			if err := errors.Join(r.MkdirAll("usr/"+l, 0o755), r.Symlink("usr/"+l, l)); err != nil {
				return err
			}
		}
		for _, p := range debs {
			if err := t.unpack(ctx, st.Blob(p.SHA256), p.Name); err != nil {
				return fmt.Errorf("tools: package %s %s (%s): %w", p.Name, p.Version, p.fileName(), err)
			}
		}
		return nil
	})
	return root, err
}

// mergedDirs are the directories that the usr-merge moved.
var mergedDirs = [...]string{"bin", "sbin", "lib", "lib64"}

// merged is the path that a packaged path has under the usr-merge.
func merged(p string) string {
	for _, d := range mergedDirs {
		if p == d || strings.HasPrefix(p, d+"/") {
			return "usr/" + p
		}
	}
	return p
}

// toolRoot writes through an os.Root: no link in a package can lead out of it.
type toolRoot struct {
	*os.Root
	owner map[string]string // path -> package, of what is no directory
}

func (t *toolRoot) unpack(ctx context.Context, blob, name string) error {
	in, err := os.Open(blob)
	if err != nil {
		return fmt.Errorf("not fetched: %w", err)
	}
	defer in.Close()
	_, err = readDeb(in, debLimits, func(f File, content io.Reader) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if slices.Contains(mergedDirs[:], f.Path) && f.Type != TypeFile {
			return nil // base-files' own links, or an old package's directory
		}
		return t.write(f, content, name)
	})
	return err
}

func (t *toolRoot) write(f File, content io.Reader, name string) error {
	p := merged(f.Path)
	if f.Type == TypeDir {
		return t.MkdirAll(p, 0o755)
	}
	if other := t.owner[p]; other != "" {
		return fmt.Errorf("package %s has that file as well", other)
	}
	t.owner[p] = name
	if err := t.MkdirAll(path.Dir(p), 0o755); err != nil {
		return err
	}
	switch f.Type {
	case TypeSymlink:
		return t.Symlink(relative(p, f.Link), p)
	case TypeHardlink:
		return t.Link(merged(f.Link), p)
	}
	mode := fs.FileMode(0o644)
	if f.Mode&0o111 != 0 {
		mode = 0o755
	}
	out, err := t.OpenFile(p, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, content)
	return errors.Join(err, out.Chmod(mode), out.Close()) // Chmod: whatever the umask
}

// relative turns the absolute target of a link at p into one relative to it.
func relative(p, target string) string {
	if !path.IsAbs(target) {
		return target
	}
	rel, err := filepath.Rel("/"+path.Dir(p), "/"+merged(strings.TrimPrefix(path.Clean(target), "/")))
	if err != nil {
		return target
	}
	return rel
}
