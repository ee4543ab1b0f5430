package preload

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path"
	"strings"
)

// Whiteouts in an archive (OCI image spec, layer.md).
const (
	whiteout = ".wh."         // prefix of the name of a file that the layers below lose
	opaque   = ".wh..wh..opq" // of which a directory's loses everything
	metadata = ".wh..wh."     // prefix of what aufs kept for itself
)

// smallFile is the size in bytes up to which a file stays in memory.
const smallFile = 4096

// raw is a layer as its archive describes it.
type raw struct {
	tree       tree
	uids, gids idset
	whiteouts  []string // paths that the layers below lose
	opaques    []string // directories of which the layers below lose the contents
	twice      bool     // one path has two entries
	rooted     bool     // the root directory has an entry
}

// odd says that the layer cannot be a tree above another tree.
func (r *raw) odd() bool { return r.twice || len(r.whiteouts)+len(r.opaques) > 0 }

// readTar reads a layer's archive up to its end mark. Contents go to blobs.
func readTar(in io.Reader, blobs Blobs, w want) (*raw, error) {
	l := &raw{tree: newTree(), uids: idset{}, gids: idset{}}
	seen := map[string]bool{}
	for tr := tar.NewReader(in); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return l, nil
		}
		if err != nil {
			return nil, fmt.Errorf("its tar archive cannot be read: %w", err)
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		p, err := cleanPath(h.Name)
		if err != nil {
			return nil, err
		}
		if err := w.take(h); err != nil {
			return nil, err
		}
		if strings.HasPrefix(path.Base(p), whiteout) {
			if err := l.erase(p); err != nil {
				return nil, err
			}
			continue
		}
		if h.Uid < 0 || h.Gid < 0 || h.Uid > math.MaxUint32 || h.Gid > math.MaxUint32 {
			return nil, fmt.Errorf("%q has the owner %d:%d, outside of what a system has", h.Name, h.Uid, h.Gid)
		}
		l.uids[uint32(h.Uid)], l.gids[uint32(h.Gid)] = true, true
		e, err := l.entry(tr, h, p, blobs, w)
		if err != nil {
			return nil, err
		}
		if seen[p] {
			l.twice = true
			if e.Type != TypeDir && l.tree[p].Type == TypeDir {
				l.tree.removeBelow(p)
			}
		}
		seen[p] = true
		l.tree[p], l.rooted = e, l.rooted || p == ""
	}
}

func (l *raw) erase(p string) error {
	dir, base := parent(p), path.Base(p)
	switch name := strings.TrimPrefix(base, whiteout); {
	case base == opaque:
		l.opaques = append(l.opaques, dir)
	case strings.HasPrefix(base, metadata):
		l.twice = true // the tar holds a path that the tree does not
	case name == "" || name == "." || name == "..":
		return fmt.Errorf("%q is a whiteout of nothing", p)
	default:
		l.whiteouts = append(l.whiteouts, path.Join(dir, name))
	}
	return nil
}

func (l *raw) entry(r io.Reader, h *tar.Header, p string, blobs Blobs, w want) (Entry, error) {
	caps := ""
	if !w.all {
		var err error
		if caps, err = attributes(h); err != nil {
			return Entry{}, err
		}
	}
	e := Entry{Capabilities: caps, Path: p, Mode: fileMode(h.Mode), UID: h.Uid, GID: h.Gid, Extra: w.extra(h)}
	switch h.Typeflag {
	case tar.TypeDir:
		e.Type = TypeDir
	case tar.TypeSymlink:
		e.Type, e.Link, e.Mode = TypeSymlink, h.Linkname, 0o777
		if h.Linkname == "" || strings.ContainsRune(h.Linkname, 0) {
			return Entry{}, fmt.Errorf("symlink %q has the target %q", h.Name, h.Linkname)
		}
	case tar.TypeLink:
		to, err := cleanPath(h.Linkname)
		if err != nil {
			return Entry{}, fmt.Errorf("hard link %q: %w", h.Name, err)
		}
		target, ok := l.tree[to]
		if !ok || target.Type == TypeDir {
			return Entry{}, fmt.Errorf("hard link %q points to %q, which is no file before it in its layer", h.Name, h.Linkname)
		}
		e, e.Path = target, p
	case tar.TypeReg:
		e.Type = TypeFile
		err := content(&e, r, h.Size, blobs, w)
		return e, err
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		if e.Type = TypeDevice; h.Typeflag == tar.TypeFifo {
			e.Type = TypeFifo
		}
		if w.all {
			break
		}
		fallthrough
	default:
		return Entry{}, fmt.Errorf("%q is of tar type %q (a device or a fifo?), which a root image cannot hold; rebuild the image without it", h.Name, h.Typeflag)
	}
	if p == "" && e.Type != TypeDir {
		return Entry{}, fmt.Errorf("the root directory is a %s", e.Type)
	}
	return e, nil
}

func content(e *Entry, r io.Reader, size int64, blobs Blobs, w want) error {
	if e.Path == "" {
		return errors.New("the root directory is a file")
	}
	var err error
	if size <= smallFile && !w.all {
		e.Content, err = io.ReadAll(r)
		return err
	}
	sum, n, err := blobs.Put(r)
	if err != nil {
		return fmt.Errorf("%q: %w", e.Path, err)
	}
	if n != size {
		return fmt.Errorf("%q: %d bytes of %d", e.Path, n, size)
	}
	e.ContentPath = blobs.Blob(sum)
	return nil
}

// flatten is what a container sees of layers, bottom first.
func flatten(layers []*raw) (tree, error) {
	out := newTree()
	for _, l := range layers {
		out.hide(l)
		if err := l.tree.complete(out); err != nil {
			return nil, err
		}
		root := out[""]
		if maps.Copy(out, l.tree); !l.rooted {
			out[""] = root
		}
	}
	return out, nil
}

// hide takes out of a tree what a layer above it hides: what it erases, and what is in
// directories that it empties or has something else in the place of.
func (t tree) hide(l *raw) {
	gone, emptied := map[string]bool{}, map[string]bool{}
	for _, p := range l.whiteouts {
		gone[p], emptied[p] = true, true
	}
	for _, d := range l.opaques {
		emptied[d] = true
	}
	for p, e := range l.tree {
		if e.Type != TypeDir && t[p].Type == TypeDir {
			emptied[p] = true
		}
	}
	if len(emptied) == 0 {
		return
	}
	for p := range t {
		below := false
		for d := p; d != "" && !below; {
			d = parent(d)
			below = emptied[d]
		}
		if below || gone[p] {
			delete(t, p)
		}
	}
}
