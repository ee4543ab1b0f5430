package table

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// Root is the root directory of a service whose programs come in a container image:
// the image's layers above each other (overlayfs), which PID 1 mounts before any
// service starts.
type Root struct {
	Image string `json:"image"` // its name, for people
	// Path is where it is mounted, below MemoryVolumeDir.
	Path string `json:"path"`
	// Layers are directories of the root image, the topmost first. There are two at
	// least: above the image's own lies one with the places for mounts that it lacks.
	// None means that no recipe has said yet which they are.
	Layers []string `json:"layers"`
	// Writes is a directory below VolumeDir for what is written to it, empty at each
	// boot; "" = nothing can be written.
	Writes string `json:"writes,omitempty"`
	// Host says that the service has the node's own /dev, /proc and /sys. If not it has
	// devices of its own, and what is in the other two can neither be changed nor tells
	// what container runtimes hide.
	Host bool `json:"host,omitempty"`
}

// EtcDir has copies of the files in /etc that PID 1 writes while the node runs. A
// service with a root of its own has the directory at EtcTarget: a file that is
// replaced could not be followed through a mount of its own, and no volume is mounted there.
const (
	EtcDir    = "/run/garboard/names"
	EtcTarget = "/.garboard"
)

// EtcFiles are the files in EtcDir.
func EtcFiles() []string { return []string{"hosts", "resolv.conf"} }

// MaxRootOptions is the most that the layers' names may take, in bytes with a colon
// between them, beside the other options of the mount in its one page (mount(2)).
const MaxRootOptions = 3584

// Check reports what keeps a root from being mounted; null is none.
func (r *Root) Check() error {
	if r == nil {
		return nil
	}
	under := func(p, dir string) bool { return path.Clean(p) == p && strings.HasPrefix(p, dir+"/") }
	switch {
	case !under(r.Path, MemoryVolumeDir):
		return fmt.Errorf("root: %q is not below %s", r.Path, MemoryVolumeDir)
	case r.Writes != "" && !under(r.Writes, VolumeDir):
		return fmt.Errorf("root: %q is not below %s", r.Writes, VolumeDir)
	case len(r.Layers) == 1:
		return errors.New("root: one layer alone")
	case len(strings.Join(r.Layers, ":")) > MaxRootOptions:
		return fmt.Errorf("root: %d layers are more than one mount takes; use an image with fewer (docker build --squash, or one that copies into an empty stage)", len(r.Layers))
	}
	for _, l := range r.Layers {
		if !path.IsAbs(l) || path.Clean(l) != l || strings.ContainsAny(l, `:,\`) {
			return fmt.Errorf("root: layer %q is not a clean absolute path without : , and \\", l)
		}
	}
	return nil
}

// Resolved demands what only the build of a recipe can know.
func (t *Table) Resolved() error {
	for _, s := range t.Services {
		if s.Root != nil && len(s.Root.Layers) == 0 {
			return fmt.Errorf("service %s: nobody has said where image %s lies", s.Name, s.Root.Image)
		}
	}
	return nil
}
