package builder

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"garboard.local/builder/rootfs"
	"garboard.local/init/table"
	"garboard.local/pod"
)

// addServiceRoots adds, for each service with an image, a layer above the image's own:
// the places for mounts that the image lacks, and its /etc/hosts and /etc/resolv.conf.
// Nothing has to be made when the node starts, and a root can be read-only.
func (b *build) addServiceRoots(c *pod.Compiled) error {
	for _, s := range c.Services {
		if s.Root == nil {
			continue
		}
		if err := b.addServiceRoot(s); err != nil {
			err = fmt.Errorf("service %s: image %s: %w", s.Name, s.Root.Image, err)
			if at := c.Images[s.Name]; at != "" {
				err = fmt.Errorf("%s: %w", at, err)
			}
			return err
		}
	}
	return nil
}

func (b *build) addServiceRoot(s table.Service) error {
	v, err := b.openView(s.Root.Image)
	if err != nil {
		return err
	}
	cfg, err := v1.ParseConfigFile(bytes.NewReader(v.Config))
	if err != nil {
		return fmt.Errorf("its configuration: %w", err)
	}
	top := newTopLayer(v, "recipe "+b.recipe.Name, "root directory of service "+s.Name)
	for _, d := range append(views[:len(views):len(views)], table.EtcTarget) {
		// PID 1 follows no link there: a service could exchange it.
		if e := v.files.Get(d); e != nil && e.Kind == rootfs.Symlink {
			return fmt.Errorf("its %s is a link to %s; use an image in which it is a directory, or is not", d, e.Link)
		}
		if err := top.place(d, false); err != nil {
			return err
		}
	}
	for _, f := range table.EtcFiles() {
		if err := top.etc(f); err != nil {
			return err
		}
	}
	for _, m := range s.Mounts {
		if inMount(s, path.Dir(m.Target)) || slices.ContainsFunc(views, func(d string) bool { return strings.HasPrefix(m.Target, d+"/") }) {
			continue // its place is in what is mounted there
		}
		if err := top.place(m.Target, m.File); err != nil {
			return fmt.Errorf("mount at %s: %w", m.Target, err)
		}
	}
	// As runtimes do: the working directory, and where the image wants volumes.
	for _, d := range append(keys(cfg.Config.Volumes), s.Dir) {
		if !inMount(s, path.Clean("/"+d)) {
			if err := top.place(path.Clean("/"+d), false); err != nil {
				return fmt.Errorf("directory %s: %w", d, err)
			}
		}
	}
	for _, p := range s.Programs() {
		if inMount(s, p) {
			continue // an init container may put it there
		}
		if err := runnable(v.files, p); err != nil {
			return err
		}
	}
	return top.into(b.tree, s.Root.Layers[0])
}

// views are what is mounted in every root, of the kernel's.
var views = []string{"/proc", "/sys", "/dev"}

func inMount(s table.Service, p string) bool {
	for _, m := range s.Mounts {
		if p == m.Target || strings.HasPrefix(p, m.Target+"/") {
			return true
		}
	}
	return false
}

// runnable demands that a program is there.
func runnable(t *rootfs.Tree, program string) error {
	p, ok := t.Resolve(program)
	switch e := t.Get(p); {
	case !ok:
		return fmt.Errorf("%s is not in it", program)
	case e == nil || e.Kind != rootfs.File || e.Mode&0o111 == 0:
		return fmt.Errorf("%s is no program in it", program)
	}
	return nil
}

// topLayer is a layer in the making above an image.
type topLayer struct {
	all            *rootfs.Tree // the image with the layer
	root           rootfs.Entry
	origin, reason string
	added          []string
}

func newTopLayer(v *imageView, origin, reason string) *topLayer {
	t := &topLayer{all: rootfs.New(), root: v.root, origin: origin, reason: reason}
	for _, e := range v.files.Entries() {
		t.all.Put(*e)
	}
	return t
}

func (t *topLayer) put(e rootfs.Entry) {
	e.Origin, e.Reason = t.origin, t.reason
	t.all.Put(e)
	t.added = append(t.added, e.Path)
}

// longest is how many directories a path can lack.
const longest = 64

// real is where a path's last element is or belongs, through whatever links there are
// on the way; directories that are missing are made.
func (t *topLayer) real(p string) (string, error) {
	p = path.Clean("/" + p)
	dir := path.Dir(p)
	for range longest {
		at, ok := t.all.Resolve(dir)
		if !ok {
			if e := t.all.Get(at); e != nil {
				return "", fmt.Errorf("/%s leads nowhere", at)
			}
			if e := t.all.Get(path.Dir(at)); e != nil && e.Kind != rootfs.Dir {
				return "", fmt.Errorf("/%s is no directory", e.Path)
			}
			t.put(rootfs.Entry{Path: at, Kind: rootfs.Dir, Mode: 0o755})
			continue
		}
		if e := t.all.Get(at); at != "" && e.Kind != rootfs.Dir {
			return "", fmt.Errorf("/%s is no directory", at)
		}
		return path.Join(at, path.Base(p)), nil
	}
	return "", fmt.Errorf("%s is too deep", p)
}

// place sees to it that there is something to mount over.
func (t *topLayer) place(p string, file bool) error {
	if path.Clean("/"+p) == "/" {
		return nil
	}
	at, err := t.real(p)
	if err != nil {
		return err
	}
	if e := t.all.Get(at); e != nil {
		end, ok := t.all.Resolve(at)
		switch {
		case !ok:
			return fmt.Errorf("/%s is a link to %s, which leads nowhere", at, e.Link)
		case end != "" && (t.all.Get(end).Kind == rootfs.Dir) == file:
			return fmt.Errorf("/%s: one is a directory and the other is not", end)
		}
		return nil
	}
	e := rootfs.Entry{Path: at, Kind: rootfs.Dir, Mode: 0o755}
	if file {
		e = rootfs.FromBytes(at, 0o644, nil, "", "")
	}
	t.put(e)
	return nil
}

// etc makes a file of /etc that of the node. PID 1 replaces those; a link to the copy
// that it keeps for services shows what there is at any time.
func (t *topLayer) etc(name string) error {
	at, err := t.real("/etc/" + name)
	if err != nil {
		return err
	}
	if e := t.all.Get(at); e != nil && e.Kind == rootfs.Dir {
		return fmt.Errorf("/%s is a directory", at)
	}
	t.put(rootfs.Entry{Path: at, Kind: rootfs.Symlink, Mode: 0o777, Link: path.Join(table.EtcTarget, name)})
	return nil
}

// into adds the layer to the root image, with the directories that it shares with the
// image as they are there: of merged directories the topmost one's owner and mode count.
func (t *topLayer) into(tree *rootfs.Tree, at string) error {
	list := map[string]bool{}
	for _, p := range t.added {
		for ; p != "." && p != ""; p = path.Dir(p) {
			list[p] = true
		}
	}
	top := t.root
	top.Path, top.Origin, top.Reason, top.Inner = at, t.origin, t.reason, true
	if err := tree.Add(top); err != nil {
		return err
	}
	for _, p := range keys(list) {
		e := *t.all.Get(p)
		e.Path, e.Origin, e.Reason, e.Inner = path.Join(at, p), t.origin, t.reason, true
		if err := tree.Add(e); err != nil {
			return err
		}
	}
	return nil
}
