// Package pod defines what Pod manifests mean as host services, so that there
// is one language for everything that runs on a node. The mapping says for every
// field of a Pod what happens to it; Translate makes a Plan; Table writes the
// plan for PID 1, package systemd for systemd. What a Pod has no word for is an
// annotation.
package pod

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"garboard.local/init/table"
	"garboard.local/pod/manifest"
)

// Defaults of the table where a manifest is silent.
const (
	defaultPeriodMillis  = 50 // a node boots in seconds: probing once a second would be felt
	defaultTimeoutMillis = 1000
	kubeletPeriodMillis  = 10_000
	defaultFailures      = 3
)

// Compiled is what services of PID 1 need of a node's image.
type Compiled struct {
	Services []table.Service
	Volumes  []table.Volume // which PID 1 makes
	Files    []File         // of the root image, by their absolute paths
	// Images says where in the manifests a service's image is named, for errors.
	Images map[string]string
}

// Services are the services of every Pod among the documents, in their order.
func Services(docs []*manifest.Document, o Options) (*Compiled, error) {
	o.Target, o.Objects = Init, docs
	var plans []*Plan
	errs := []error{CheckObjects(docs)}
	for _, d := range docs {
		if d.Pod == nil {
			continue
		}
		p, _, err := Translate(d, o)
		plans, errs = append(plans, p), append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(plans) == 0 {
		return nil, docs[0].Errorf(docs[0].Line, "no document of kind Pod")
	}
	return Table(plans)
}

// Table is the services of several pods, which may come after each other.
func Table(plans []*Plan) (*Compiled, error) {
	out := &Compiled{Images: map[string]string{}}
	ResolveRoles(plans)
	of := map[string][]string{} // the services of a pod that stay
	for _, p := range plans {
		services := p.table()
		for i, s := range services {
			var err error
			for _, ref := range p.After {
				if of[ref] == nil {
					return nil, p.Document.Errorf(p.Document.LineOf("metadata.annotations."+AfterAnnotation),
						"metadata.annotations.%s: comes after %q, which is not defined before it", AfterAnnotation, ref)
				}
				s.After = append(s.After, of[ref]...)
			}
			s.WaitSeconds = p.WaitSeconds
			if s.Root != nil {
				if out.Images[s.Name], err = p.whereImage(i, s.Root); err != nil {
					return nil, err
				}
			}
			out.Services = append(out.Services, s)
		}
		out.Volumes = append(out.Volumes, p.volumes()...)
		out.Files = append(out.Files, p.Files...)
		for _, s := range services {
			if !s.Once {
				of[p.Namespace+"/"+p.Name] = append(of[p.Namespace+"/"+p.Name], s.Name)
			}
		}
	}
	t := table.Table{Version: 1, Services: out.Services, Volumes: out.Volumes}
	return out, t.Check()
}

// volumes are the directories that PID 1 makes for a pod.
func (p *Plan) volumes() []table.Volume {
	var out []table.Volume
	for _, v := range p.Volumes {
		if v.Kind == EmptyDir || v.Kind == Tmpfs {
			x := table.Volume{Path: v.Source, Memory: v.Kind == Tmpfs, Size: v.Size, Dirs: v.Dirs}
			if v.Group != nil {
				id := uint32(*v.Group)
				x.Group = &id
			}
			out = append(out, x)
		}
	}
	return out
}

// ResolveRoles puts names of pods in the place of roles in what pods come after,
// where none has the role for its name: the kubelet comes after the runtime,
// whichever that is.
func ResolveRoles(plans []*Plan) {
	called, has := map[string]bool{}, map[string]string{}
	for _, p := range plans {
		name := p.Namespace + "/" + p.Name
		called[name] = true
		if p.Role != "" {
			has[p.Namespace+"/"+p.Role] = name
		}
	}
	for _, p := range plans {
		for i, ref := range p.After {
			if !called[ref] && has[ref] != "" {
				p.After[i] = has[ref]
			}
		}
	}
}

// Compile builds the part of the node table that lists services from manifest
// files in their order, and checks what they say of each other.
func Compile(files []string, node Node, images func(string) (*Image, error)) (*Compiled, error) {
	var docs []*manifest.Document
	for _, f := range files {
		d, err := manifest.ReadFile(f)
		if err != nil {
			return nil, fmt.Errorf("service: %w", err)
		}
		docs = append(docs, d...)
	}
	if len(docs) == 0 {
		return &Compiled{}, nil
	}
	return Services(docs, Options{Node: node, Images: images})
}

// JSON is the node table as it lies in the root image.
func JSON(t *table.Table) ([]byte, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	b, err := json.MarshalIndent(t, "", "  ")
	return append(b, '\n'), err
}

// table is one pod's services. Names are those of pods: a node has few services,
// and two of one name are an error.
func (p *Plan) table() []table.Service {
	var out []table.Service
	var before []string
	role := p.Role
	for i := range p.Services {
		s := &p.Services[i]
		r := table.Service{
			Name: p.Name, Command: s.Argv, Dir: s.Dir, Restart: s.Restart, GraceSeconds: int(p.Grace),
			CPUWeight: s.Resources.CPUWeight, MemoryMin: s.Resources.MemoryMin, MemoryMax: s.Resources.MemoryMax, CPUMilli: s.Resources.CPUMilli,
			User: s.User, Group: s.Group, NoNewPrivileges: s.NoNewPrivs, Ambient: s.Ambient, Seccomp: s.Filter,
			Requires: before, Once: s.Kind == InitContainer,
			Startup: s.Startup.table(kubeletPeriodMillis, defaultFailures), Live: s.Liveness.table(kubeletPeriodMillis, defaultFailures),
			Ready:   s.Readiness.table(defaultPeriodMillis, 0),
			Sidecar: s.Kind == Sidecar, PostStart: hook(s.PostStart), PreStop: hook(s.PreStop), StopSignal: signalNumber(s.StopSignal),
		}
		if s.Caps != nil {
			r.Capabilities = &s.Caps
		}
		if len(p.Services) > 1 {
			r.Name += "-" + s.Name
			r.Pod = p.Namespace + "/" + p.Name
		}
		if s.Kind == Container {
			r.Role, role = role, "" // the first container has it
		}
		env := s.Env
		if s.Root != "" {
			env = append(env[:len(env):len(env)], s.UsualEnv()...)
		}
		for _, e := range env {
			r.Env = append(r.Env, e.Name+"="+e.Value)
		}
		for _, g := range s.Groups {
			r.Groups = append(r.Groups, uint32(g))
		}
		if s.OOMScoreAdj != nil {
			r.OOMScoreAdj = *s.OOMScoreAdj
		}
		for _, m := range s.Mounts {
			r.Mounts = append(r.Mounts, table.Mount{Source: strings.TrimSuffix(m.Source, "/"+m.Sub), Sub: m.Sub, Target: m.Target, ReadOnly: m.ReadOnly, File: m.File, Private: m.Private})
		}
		if s.Root != "" {
			r.Root = p.root(s)
		}
		for _, l := range s.Limits {
			r.Limits = append(r.Limits, table.RLimit{Name: l.Name, Soft: limit(l.Soft), Hard: limit(l.Hard)})
		}
		if r.Once || r.Sidecar {
			before = append(before[:len(before):len(before)], r.Name)
		}
		out = append(out, r)
	}
	return out
}

// whereImage is where the manifest names the image of a service, which can have more
// layers than a mount takes.
func (p *Plan) whereImage(service int, r *table.Root) (string, error) {
	at := p.Services[service].Path + ".image"
	line := p.Document.LineOf(at)
	if err := r.Check(); err != nil {
		return "", p.Document.Errorf(line, "%s: %v", p.Document.Where(at), err)
	}
	return p.Document.Errorf(line, "%s", p.Document.Where(at)).Error(), nil
}

// root is the root directory of a service with an image.
func (p *Plan) root(s *Service) *table.Root {
	r := &table.Root{Image: s.Image, Path: s.Root, Layers: s.Layers, Host: s.Privileged}
	if !s.ReadOnly {
		r.Writes = path.Join(table.VolumeDir, p.ID(), rootsDir, s.Name)
	}
	if len(r.Layers) > 0 {
		r.Layers = append([]string{path.Join(RootDir, p.ID(), rootsDir, s.Name)}, r.Layers...)
	}
	return r
}

// table is a probe for PID 1. failures is the default; 0 is for probes that
// are tried without a limit.
func (p *Probe) table(period, failures int) *table.Probe {
	if p == nil {
		return nil
	}
	out := &table.Probe{
		Exec: p.Exec, TCP: p.TCP, Unix: p.Unix, PeriodMillis: p.Period * 1000, TimeoutMillis: p.Timeout * 1000,
		DelayMillis: p.Delay * 1000, Successes: p.Successes, Failures: failures,
	}
	if out.PeriodMillis == 0 {
		out.PeriodMillis = period
	}
	if out.TimeoutMillis == 0 {
		out.TimeoutMillis = defaultTimeoutMillis
	}
	if p.Failures != 0 && failures != 0 {
		out.Failures = p.Failures
	}
	return out
}

func limit(s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return table.Unlimited
	}
	return n
}
