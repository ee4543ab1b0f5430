// Package systemd writes the plan of a pod as systemd unit files, with the files
// that belong to it, and reads back from systemd what became of the pod.
package systemd

import (
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/coreos/go-systemd/v22/unit"

	"garboard.local/pod"
)

// UnitDir is where units lie on the machine.
const UnitDir = "/etc/systemd/system"

// Programs of systemd that units run.
const (
	systemctl = "/usr/bin/systemctl"
	tmpfiles  = "/usr/bin/systemd-tmpfiles"
	sysusers  = "/usr/bin/systemd-sysusers"
	sysctl    = "/usr/lib/systemd/systemd-sysctl"
)

// Options are what the machine is like.
type Options struct {
	Version   int    // of systemd, such as 257
	ProbePath string // of the probe program
}

const (
	defaultVersion = 257
	// DefaultProbePath is where the probe program is if nothing else is said.
	DefaultProbePath = "/usr/lib/garboard/probe"
	// oldest is what Debian 12 has. Before it, commands have no ":" and
	// namespaces cannot be joined for IPC.
	oldest = 252
	// versionDirect is the first with RestartMode= and growing RestartSec=.
	versionDirect = 254
)

// section of units that systemd leaves alone: what the pod's manifest says of itself.
const (
	ownSection = "X-Garboard"
	podKey     = "Pod"
)

// one unit under construction.
type file struct {
	name string
	opts []*unit.UnitOption
}

func (f *file) add(section, name, value string) {
	f.opts = append(f.opts, unit.NewUnitOption(section, name, value))
}

func (f *file) unit(name string, values ...string) {
	if len(values) > 0 {
		f.add("Unit", name, strings.Join(values, " "))
	}
}

func (f *file) service(name, value string) { f.add("Service", name, value) }

// writer makes the units of one plan.
type writer struct {
	Options
	plan  *pod.Plan
	files []*file
	extra []pod.File
}

// Units are the unit files of a pod and the files that they need, sorted by path.
func Units(p *pod.Plan, o Options) ([]pod.File, error) {
	if o.Version == 0 {
		o.Version = defaultVersion
	}
	if o.ProbePath == "" {
		o.ProbePath = DefaultProbePath
	}
	if o.Version < oldest {
		return nil, fmt.Errorf("systemd %d: %d is the oldest that units can be written for", o.Version, oldest)
	}
	w := &writer{Options: o, plan: p, extra: slices.Clone(p.Files)}
	w.target()
	w.slice()
	w.sandbox()
	if err := w.containers(); err != nil {
		return nil, err
	}
	out := w.extra
	for _, f := range w.files {
		own := w.own(f.name == w.name("", ".target"))
		f.opts = append(own.opts, f.opts...)
		b, err := io.ReadAll(unit.Serialize(f.opts))
		if err != nil {
			return nil, err
		}
		out = append(out, pod.File{Path: path.Join(UnitDir, f.name), Mode: 0o644, Content: b})
	}
	slices.SortFunc(out, func(a, b pod.File) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}

func (w *writer) new(name, description string) *file {
	f := &file{name: name}
	f.unit("Description", description)
	w.files = append(w.files, f)
	return f
}

// base is what the names of all units of a pod begin with. A dash separates,
// since systemd's escaping leaves none in a name: no two pods share a unit.
func base(namespace, name string) string {
	return "pod-" + unit.UnitNameEscape(namespace) + "-" + unit.UnitNameEscape(name)
}

// name is a unit of the pod (container "") or of a container.
func (w *writer) name(container, suffix string) string {
	b := base(w.plan.Namespace, w.plan.Name)
	if container != "" {
		b += "-" + unit.UnitNameEscape(container)
	}
	return b + suffix
}

// Target is the unit by which a pod is enabled, started and stopped.
func Target(p *pod.Plan) string { return base(p.Namespace, p.Name) + ".target" }

func (w *writer) title() string { return "pod " + w.plan.Namespace + "/" + w.plan.Name }

// own is the section that says whose unit this is, and of a pod's target what
// else its manifest says. It comes first: who looks for units of pods reads no further.
func (w *writer) own(all bool) file {
	var f file
	f.add(ownSection, podKey, w.plan.Namespace+"/"+w.plan.Name)
	if !all {
		return f
	}
	f.add(ownSection, "UID", Word(w.plan.UID))
	for _, m := range []struct {
		name string
		kv   map[string]string
	}{{"Label", w.plan.Labels}, {"Annotation", w.plan.Annotations}} {
		for _, k := range sorted(m.kv) {
			f.add(ownSection, m.name, Word(k+"="+m.kv[k]))
		}
	}
	for _, s := range w.plan.Services {
		f.add(ownSection, "Container", Word(s.Name+"="+s.Image))
	}
	return f
}

func sorted(m map[string]string) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// target is the pod as a whole, and another one that it is ready.
func (w *writer) target() {
	f := w.new(w.name("", ".target"), "Pod "+w.plan.Namespace+"/"+w.plan.Name)
	var all, gates []string
	for _, s := range w.plan.Services {
		all = append(all, w.name(s.Name, ".service"))
		if s.Readiness != nil {
			gates = append(gates, w.name(s.Name, "_readiness.service"))
		}
		if s.Startup != nil {
			gates = append(gates, w.name(s.Name, "_startup.service"))
		}
	}
	ready := w.name("", "_ready.target")
	f.unit("Wants", append(slices.Clone(all), ready)...)
	if w.Version < versionDirect && w.plan.Services[0].Kind == pod.InitContainer {
		// An init container that succeeds only at a later try has failed those that
		// required it: the target starts them when it can.
		var again []string
		for _, s := range w.plan.Services {
			if s.Restart == "Always" {
				again = append(again, w.name(s.Name, ".service"))
			}
		}
		f.unit("Upholds", again...)
	}
	f.add("Install", "WantedBy", "multi-user.target")

	r := w.new(ready, "Pod "+w.plan.Namespace+"/"+w.plan.Name+" is ready")
	r.unit("Requires", gates...)
	r.unit("After", append([]string{f.name}, gates...)...)
	r.unit("Wants", f.name)
	r.unit("PartOf", f.name)
}

func (w *writer) slice() {
	f := w.new(w.name("", ".slice"), "Cgroup of "+w.title())
	w.resources(f, "Slice", w.plan.Resources)
}

func (w *writer) resources(f *file, section string, r pod.Resources) {
	if r.CPUWeight > 0 {
		f.add(section, "CPUWeight", fmt.Sprint(r.CPUWeight))
	}
	if r.CPUMilli > 0 {
		f.add(section, "CPUQuota", fmt.Sprintf("%d.%d%%", r.CPUMilli/10, r.CPUMilli%10))
	}
	if r.MemoryMin > 0 {
		f.add(section, "MemoryMin", fmt.Sprint(r.MemoryMin))
	}
	if r.MemoryMax > 0 {
		f.add(section, "MemoryMax", fmt.Sprint(r.MemoryMax))
	}
}
