package builder

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"garboard.local/builder/recipe"
	"garboard.local/builder/rootfs"
	"garboard.local/pod"
)

// writable are the directories of a node on which PID 1 can make what is missing.
var writable = []string{"/run/", "/tmp/", "/var/"}

// addVolumes adds the files of services' volumes to the root image, and a place for
// each mount that has none.
func (b *build) addVolumes(c *pod.Compiled) error {
	for _, f := range c.Files {
		e := rootfs.FromBytes(f.Path, f.Mode, f.Content, "recipe "+b.recipe.Name, "volume of a service")
		if f.Group != nil {
			e.GID = int(*f.Group)
		}
		if err := b.tree.Add(e); err != nil {
			return err
		}
	}
	for _, s := range c.Services {
		if s.Root != nil {
			continue // addServiceRoots
		}
		for _, m := range s.Mounts {
			if err := b.mountPoint(s.Name, m.Target, m.File); err != nil {
				return err
			}
		}
	}
	return nil
}

// mountPoint makes the place for a mount: in the image, or by PID 1 where the node can be written to.
func (b *build) mountPoint(service, target string, file bool) error {
	if slices.ContainsFunc(writable, func(dir string) bool { return strings.HasPrefix(target, dir) }) {
		there := slices.ContainsFunc(b.recipe.Dirs, func(d recipe.Dir) bool { return path.Clean(d.Path) == target })
		switch {
		case there:
		case file:
			return fmt.Errorf("service %s: a file is mounted at %s, where only the running node could make one; mount its directory", service, target)
		default:
			b.recipe.Dirs = append(b.recipe.Dirs, recipe.Dir{Path: target})
		}
		return nil
	}
	if resolved, ok := b.tree.Resolve(target); ok {
		if e := b.tree.Get(resolved); e != nil && (e.Kind == rootfs.Dir) == file {
			return fmt.Errorf("service %s: mount at %s: one is a directory and the other is not", service, target)
		}
		return nil
	}
	const reason = "a volume of a service is mounted there"
	e := rootfs.Entry{Path: target, Kind: rootfs.Dir, Mode: 0o755, Origin: "recipe " + b.recipe.Name, Reason: reason}
	if file {
		e = rootfs.FromBytes(target, 0o644, nil, "recipe "+b.recipe.Name, reason)
	}
	return b.tree.Add(e)
}
