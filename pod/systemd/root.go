package systemd

import (
	"fmt"
	"path"
	"strings"

	"github.com/coreos/go-systemd/v22/unit"

	"garboard.local/pod"
)

// layered says whether a container has a layer of its own above its image, as under a
// container runtime. One that may not write to its root needs none.
func layered(s *pod.Service) bool { return s.Root != "" && !s.ReadOnly }

// rootOf is the container's root directory on the machine. No volume's name begins with a dot.
func (w *writer) rootOf(s *pod.Service) string {
	if layered(s) {
		return path.Join(pod.RunDir, w.plan.ID(), ".root-"+s.Name)
	}
	return s.Root
}

// layer is the directory of what a container writes to its root.
func (w *writer) layer(s *pod.Service) string {
	return path.Join(pod.StateDir, w.plan.ID(), ".root-"+s.Name)
}

// overlay is the mount of the container's layer above its image: it is there from the
// pod's start to its end.
func (w *writer) overlay(s *pod.Service) (string, error) {
	// A colon separates the directories of an overlay, a comma the options of a mount.
	if strings.ContainsAny(s.Root, ":,\\") {
		return "", fmt.Errorf("container %s: its image is in %q: the path of an overlay's directory has no colon, comma or backslash", s.Name, s.Root)
	}
	where, sandbox := w.rootOf(s), w.name("", ".service")
	f := w.new(unit.UnitNamePathEscape(where)+".mount", "Root of container "+s.Name+" of "+w.title())
	// By default a mount is among what the machine's start waits for, and the sandbox waits for that.
	f.unit("DefaultDependencies", "no")
	f.unit("Requires", sandbox)
	f.unit("After", sandbox)
	f.unit("PartOf", w.name("", ".target"))
	f.unit("Conflicts", "umount.target")
	f.unit("Before", "umount.target")
	f.add("Mount", "What", "overlay")
	f.add("Mount", "Where", raw(where))
	f.add("Mount", "Type", "overlay")
	f.add("Mount", "Options", raw(fmt.Sprintf("lowerdir=%s,upperdir=%s/upper,workdir=%s/work", s.Root, w.layer(s), w.layer(s))))
	return f.name, nil
}
