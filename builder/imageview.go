package builder

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"garboard.local/builder/preload"
	"garboard.local/builder/recipe"
	"garboard.local/builder/rootfs"
	"garboard.local/pod"
)

// imageView is what a container sees of a preloaded image.
type imageView struct {
	preload.View
	root  rootfs.Entry // the root directory itself
	files *rootfs.Tree // what is in it
}

func newImageView(name string, v preload.View) (*imageView, error) {
	out := &imageView{View: v, files: rootfs.New()}
	for _, f := range v.Files {
		e, err := storeEntry(f)
		if err != nil {
			return nil, err
		}
		if e.Path == "" {
			out.root = e
			continue
		}
		e.Origin, e.Reason = "image "+name, "image "+name
		if err := out.files.Add(e); err != nil {
			return nil, fmt.Errorf("image %s: %w", name, err)
		}
	}
	return out, nil
}

// openView opens a preloaded image once, however many services have it: that reads
// all of its files.
func (b *build) openView(name string) (*imageView, error) {
	if v := b.images.opened[name]; v != nil {
		return v, nil
	}
	v, err := newImageView(name, b.images.views[name])
	if err != nil {
		return nil, err
	}
	if b.images.opened == nil {
		b.images.opened = map[string]*imageView{}
	}
	b.images.opened[name] = v
	return v, nil
}

// serviceImage finds the image of a service among the recipe's.
func (b *build) serviceImage(name string) (*pod.Image, error) {
	v, ok := b.images.views[name]
	named := func(m recipe.Image) bool { return m.Name == name }
	switch {
	case ok:
	case slices.ContainsFunc(b.recipe.Disk.Images, named):
		return nil, fmt.Errorf("%s lies on the data partition (disk.images of recipe %s), which a node can be without; list it in images", name, b.recipe.File)
	default:
		var has []string
		for _, m := range b.recipe.Images {
			has = append(has, m.Name)
		}
		return nil, fmt.Errorf("%s is no image of recipe %s, which has %s; add it to images (oci: takes it out of a registry, a layout or an archive), or leave image out: then the programs are the root image's",
			name, b.recipe.File, orNone(has))
	}
	opened, err := b.openView(name)
	if err != nil {
		return nil, err
	}
	out := &pod.Image{Config: v.Config, Files: treeFS{opened.files}}
	for _, l := range v.Layers {
		out.Layers = append(out.Layers, path.Join(rootStore, l))
	}
	return out, nil
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

// treeFS is a tree in which symbolic links lead to what a process would find that has
// the tree for its root directory.
type treeFS struct{ tree *rootfs.Tree }

// Open opens a file or a directory; what is in the latter cannot be read.
func (t treeFS) Open(name string) (fs.File, error) {
	p, ok := t.tree.Resolve(name)
	e := t.tree.Get(p)
	if !ok || e == nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	f := &treeFile{entry: e}
	if e.Kind != rootfs.File {
		return f, nil
	}
	r, err := e.Open()
	if err != nil {
		return nil, err
	}
	f.ReadCloser = r
	return f, nil
}

// treeFile is an open entry and what stat(2) says of it.
type treeFile struct {
	io.ReadCloser
	entry *rootfs.Entry
}

func (f *treeFile) Stat() (fs.FileInfo, error) { return f, nil }
func (f *treeFile) Read(p []byte) (int, error) {
	if f.ReadCloser == nil {
		return 0, &fs.PathError{Op: "read", Path: f.entry.Path, Err: fs.ErrInvalid}
	}
	return f.ReadCloser.Read(p)
}
func (f *treeFile) Close() error {
	if f.ReadCloser == nil {
		return nil
	}
	return f.ReadCloser.Close()
}
func (f *treeFile) Name() string       { return path.Base(f.entry.Path) }
func (f *treeFile) Size() int64        { return f.entry.Size }
func (f *treeFile) ModTime() time.Time { return time.Time{} }
func (f *treeFile) IsDir() bool        { return f.entry.Kind == rootfs.Dir }
func (f *treeFile) Sys() any           { return nil }
func (f *treeFile) Mode() fs.FileMode {
	m := fs.FileMode(f.entry.Mode & 0o777)
	if f.IsDir() {
		m |= fs.ModeDir
	}
	return m
}
