package systemd

import (
	"fmt"
	"path"
	"strings"

	"github.com/coreos/go-systemd/v22/unit"

	"garboard.local/pod"
)

// sandbox is the unit that makes what the pod's containers share, holds their
// namespaces, and takes it away again when the pod stops.
func (w *writer) sandbox() {
	p := w.plan
	f := w.new(w.name("", ".service"), "Directories and namespaces of "+w.title())
	f.unit("PartOf", w.name("", ".target"))
	w.after(f)
	for _, v := range p.Volumes {
		switch {
		case v.Kind == pod.Tmpfs:
			m := w.mount(v)
			f.unit("Requires", m)
			f.unit("After", m)
		case v.Kind == pod.HostPath && v.Type == "Directory":
			f.unit("AssertPathIsDirectory", raw(v.Source))
		case v.Kind == pod.HostPath && v.Type != "" && !strings.HasSuffix(v.Type, "OrCreate"):
			f.unit("AssertPathExists", raw(v.Source))
		}
	}
	conf := path.Join(p.DataDir(), "tmpfiles.conf")
	w.extra = append(w.extra, pod.File{Path: conf, Mode: 0o644, Content: w.tmpfiles()})
	f.service("Type", "oneshot")
	f.service("RemainAfterExit", "yes")
	f.service("Slice", w.name("", ".slice"))
	if users := w.users(); len(users) > 0 {
		file := path.Join(p.DataDir(), "sysusers.conf")
		w.extra = append(w.extra, pod.File{Path: file, Mode: 0o644, Content: users})
		f.service("ExecStart", command([]string{sysusers, file}))
	}
	f.service("ExecStart", command([]string{tmpfiles, "--remove", "--create", conf}))
	if len(p.Sysctls) > 0 {
		file := path.Join(p.DataDir(), "sysctl.conf")
		var b strings.Builder
		for _, s := range p.Sysctls {
			fmt.Fprintf(&b, "%s = %s\n", s.Name, s.Value)
		}
		w.extra = append(w.extra, pod.File{Path: file, Mode: 0o644, Content: []byte(b.String())})
		f.service("ExecStart", command([]string{sysctl, "--strict", file}))
	}
	end := path.Join(p.DataDir(), "tmpfiles-end.conf")
	w.extra = append(w.extra, pod.File{Path: end, Mode: 0o644, Content: fmt.Appendf(nil, "R %s\n", Word(path.Join(pod.StateDir, p.ID())))})
	f.service("ExecStopPost", command([]string{tmpfiles, "--remove", end}))
	w.namespaces(f)
}

// namespaces are what the pod has of its own. The sandbox is there for as long
// as any container, and the others join it.
func (w *writer) namespaces(f *file) {
	if sandbox := w.name("", ".service"); f.name != sandbox && (!w.plan.HostNetwork || !w.plan.HostIPC) {
		f.unit("JoinsNamespaceOf", sandbox)
	}
	if !w.plan.HostNetwork {
		f.service("PrivateNetwork", "yes")
	}
	if !w.plan.HostIPC {
		f.service("PrivateIPC", "yes")
	}
}

// after orders the pod behind others: it ends before them, and starts when they
// are ready or its patience has ended.
func (w *writer) after(sandbox *file) {
	if len(w.plan.After) == 0 {
		return
	}
	var targets, ready []string
	for _, ref := range w.plan.After {
		namespace, name, _ := strings.Cut(ref, "/")
		targets = append(targets, base(namespace, name)+".target")
		ready = append(ready, base(namespace, name)+"_ready.target")
	}
	sandbox.unit("After", targets...)
	if w.plan.WaitSeconds == 0 {
		return
	}
	f := w.new(w.name("", "_after.service"), "Waits for what "+w.title()+" comes after")
	f.unit("PartOf", w.name("", ".target"))
	f.service("Type", "oneshot")
	f.service("RemainAfterExit", "yes")
	f.service("ExecStart", command(append([]string{systemctl, "start", "--"}, ready...)))
	f.service("TimeoutStartSec", fmt.Sprintf("%ds", w.plan.WaitSeconds))
	sandbox.unit("Wants", f.name)
	sandbox.unit("After", f.name)
}

// mount is the unit of an emptyDir in memory.
func (w *writer) mount(v pod.Volume) string {
	f := w.new(unit.UnitNamePathEscape(v.Source)+".mount", "emptyDir "+v.Name+" of "+w.title())
	f.unit("PartOf", w.name("", ".target"))
	f.add("Mount", "What", "tmpfs")
	f.add("Mount", "Where", raw(v.Source))
	f.add("Mount", "Type", "tmpfs")
	options := "mode=1777,nosuid,nodev" // the sticky bit, which a kubelet's have too
	if v.Group != nil {
		options = fmt.Sprintf("mode=3777,nosuid,nodev,gid=%d", *v.Group)
	}
	if v.Size > 0 {
		options += fmt.Sprintf(",size=%d", v.Size)
	}
	f.add("Mount", "Options", options)
	return f.name
}

// tmpfiles is what systemd-tmpfiles makes and removes for the pod (tmpfiles.d(5)).
func (w *writer) tmpfiles() []byte {
	var b strings.Builder
	line := func(kind, p, mode, group string) { fmt.Fprintf(&b, "%s %s %s - %s -\n", kind, Word(p), mode, group) }
	line("d", path.Join(pod.StateDir, w.plan.ID()), "0700", "-")
	for _, v := range w.plan.Volumes {
		mode, group := "0777", "-"
		if v.Group != nil {
			mode, group = "2777", fmt.Sprint(*v.Group)
		}
		switch {
		case v.Kind == pod.EmptyDir:
			line("D", v.Source, mode, group)
		case v.Kind == pod.HostPath && v.Type == "DirectoryOrCreate":
			line("d", v.Source, ":0755", "-") // the colon: one that is there stays as it is
		case v.Kind == pod.HostPath && v.Type == "FileOrCreate":
			line("f", v.Source, ":0644", "-")
		}
		if v.Kind == pod.EmptyDir || v.Kind == pod.Tmpfs {
			for _, d := range v.Dirs {
				line("d", d, mode, group)
			}
		}
	}
	for i := range w.plan.Services {
		if s := &w.plan.Services[i]; layered(s) {
			dir := w.layer(s)
			line("D", dir, "0700", "-")
			line("d", dir+"/upper", "0755", "-") // the container's root directory has its mode
			line("d", dir+"/work", "0700", "-")
		}
	}
	for _, f := range w.plan.Files {
		if f.Group != nil {
			line("z", f.Path, fmt.Sprintf("%#04o", f.Mode), fmt.Sprint(*f.Group))
		}
	}
	return []byte(b.String())
}
