package pod

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/agext/levenshtein"

	"garboard.local/init/table"
)

// Annotations for what Pods have no field for.
const (
	prefix = "garboard.local/"
	// RoleAnnotation is "runtime" or "kubelet": which of the socket's restart
	// commands means this service, and whose connection may delay a shutdown.
	RoleAnnotation = prefix + "role"
	// AfterAnnotation is a comma-separated list of services that must be ready first.
	AfterAnnotation = prefix + "after"
	// WaitAnnotation is how many seconds to wait for them at most (default 30);
	// then the service is started all the same, with a warning.
	WaitAnnotation = prefix + "wait-seconds"
	// SocketAnnotation is a unix socket whose accepting a connection means ready.
	SocketAnnotation = prefix + "ready-socket"
	// OOMAnnotation is the process's oom_score_adj, -1000 to 1000.
	OOMAnnotation = prefix + "oom-score-adj"
	// UserAnnotation and GroupAnnotation are names; Pods know numbers only.
	UserAnnotation  = prefix + "user"
	GroupAnnotation = prefix + "group"
	// AmbientAnnotation lists capabilities that a user other than root keeps.
	AmbientAnnotation = prefix + "ambient-capabilities"
	// LimitsAnnotation lists resource limits: nofile=1048576, memlock=unlimited.
	LimitsAnnotation = prefix + "limits"
)

// Annotation is an annotation of Garboard's.
type Annotation struct {
	Name         string
	Text         string
	PerContainer bool
	Init         Rule
	Systemd      Rule
}

func knownAnnotations() []Annotation {
	return []Annotation{
		{RoleAnnotation, "`runtime` or `kubelet`", false, yes("what the socket's restart commands mean, and whose connection may delay a shutdown"), off("only PID 1 has such a socket")},
		{AfterAnnotation, "pods, separated by commas (`NAME` or `NAMESPACE/NAME`), that must be ready first; a role stands for the pod that has it", false, yes("waited for"), yes("`_after.service` waits for their `_ready.target`; After= their target, so that they end later")},
		{WaitAnnotation, "seconds to wait for them at most, 0 to 3600, default 30; then it is started all the same", false, yes("with a warning"), yes("TimeoutStartSec= of `_after.service`")},
		{SocketAnnotation, "absolute path of a unix socket; accepting a connection means ready", true, yes("readiness; of a service with an image the socket is in a volume"), yes("as a readinessProbe")},
		{OOMAnnotation, "-1000 to 1000", true, yes("oom_score_adj"), yes("OOMScoreAdjust=")},
		{UserAnnotation, "a user's name, where runAsUser would have its number", true, yes("looked up in the node's /etc/passwd at each start"), yes("User=")},
		{GroupAnnotation, "a group's name, where runAsGroup would have its number", true, yes("looked up in the node's /etc/group at each start"), yes("Group=")},
		{AmbientAnnotation, "capabilities, separated by commas, that a user other than root has", true, yes("ambient set"), yes("AmbientCapabilities=")},
		{LimitsAnnotation, "resource limits, separated by commas: `nofile=1048576`, `core=0:unlimited`, `memlock=unlimited`", true, yes("setrlimit(2)"), yes("LimitNOFILE= and so on")},
	}
}

// split takes an annotation apart: the known one and the container it is for.
func splitAnnotation(key string) (a Annotation, container string, err error) {
	all := knownAnnotations()
	for _, a := range all {
		if key == a.Name {
			return a, "", nil
		}
		if c, ok := strings.CutPrefix(key, a.Name+"."); ok && a.PerContainer && c != "" {
			return a, c, nil
		}
	}
	best := slices.MaxFunc(all, func(a, b Annotation) int {
		x, y := levenshtein.Similarity(key, a.Name, nil), levenshtein.Similarity(key, b.Name, nil)
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	return Annotation{}, "", fmt.Errorf("annotation %s is not known; did you mean %s?", key, best.Name)
}

// annotated is the value of a per-container annotation.
func annotated(annotations map[string]string, name, container string) (value, path string, ok bool) {
	for _, k := range []string{name + "." + container, name} {
		if v, ok := annotations[k]; ok {
			return v, "metadata.annotations." + k, true
		}
	}
	return "", "", false
}

// annotate checks the annotations and applies those of the whole pod.
func (t *translation) annotate() {
	for _, k := range sortedKeys(t.pod.Annotations) {
		v, at := t.pod.Annotations[k], "metadata.annotations."+k
		if !strings.HasPrefix(k, prefix) {
			continue
		}
		a, container, err := splitAnnotation(k)
		if err == nil && container != "" && !slices.Contains(t.containerNames(), container) {
			err = fmt.Errorf("the pod has no container %q", container)
		}
		switch {
		case err != nil:
		case a.Name == RoleAnnotation:
			if v != table.RoleRuntime && v != table.RoleKubelet {
				err = fmt.Errorf("%q is neither %q nor %q", v, table.RoleRuntime, table.RoleKubelet)
			}
			t.plan.Role = v
		case a.Name == AfterAnnotation:
			for _, n := range strings.Split(v, ",") {
				var ref string
				if ref, err = t.podReference(strings.TrimSpace(n)); err != nil {
					break
				}
				t.plan.After = append(t.plan.After, ref)
			}
		case a.Name == WaitAnnotation:
			t.plan.WaitSeconds, err = number(v, 0, maxGraceSeconds)
		}
		if err != nil {
			t.refuse(at, "%v", err)
		}
	}
	if len(t.plan.After) > 0 && t.pod.Annotations[WaitAnnotation] == "" {
		t.plan.WaitSeconds = defaultWaitSeconds
	}
}

// podReference completes the name of a pod with the namespace.
func (t *translation) podReference(name string) (string, error) {
	ns, n, ok := strings.Cut(name, "/")
	if !ok {
		ns, n = t.plan.Namespace, name
	}
	if !isName(ns) || !isName(n) {
		return "", fmt.Errorf("%q is not the name of a pod", name)
	}
	return ns + "/" + n, nil
}

func number(v string, low, high int) (int, error) {
	n, err := strconv.Atoi(v)
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("%q is not a number from %d to %d", v, low, high)
	}
	return n, nil
}

// annotateService applies the annotations of one container.
func (t *translation) annotateService(s *Service) {
	for _, a := range knownAnnotations() {
		v, at, ok := annotated(t.pod.Annotations, a.Name, s.Name)
		if !ok || !a.PerContainer {
			continue
		}
		var err error
		switch a.Name {
		case SocketAnnotation:
			if s.Kind != Container {
				break
			}
			switch {
			case !path.IsAbs(v):
				err = fmt.Errorf("%q is not an absolute path", v)
			case s.Readiness != nil:
				err = fmt.Errorf("both a readinessProbe and this annotation are given")
			}
			if err == nil && s.Root != "" && t.Target == Init {
				v, err = onNode(s, v)
			}
			s.Readiness = &Probe{Unix: v}
		case OOMAnnotation:
			var n int
			n, err = number(v, minOOM, maxOOM)
			s.OOMScoreAdj = &n
		case UserAnnotation:
			if err = userName(v); err == nil && s.User != "" {
				err = fmt.Errorf("runAsUser gives a user as well; leave one of them out")
			}
			s.User = v
		case GroupAnnotation:
			if err = userName(v); err == nil && s.Group != "" {
				err = fmt.Errorf("runAsGroup gives a group as well; leave one of them out")
			}
			s.Group = v
		case AmbientAnnotation:
			s.Ambient, err = ambient(v, s.Caps)
		case LimitsAnnotation:
			s.Limits, err = limits(v)
		}
		if err != nil {
			t.refuse(at, "%v", err)
		}
	}
}

// onNode is the path on the node of a path in a service that has an image.
func onNode(s *Service, p string) (string, error) {
	best := Mount{}
	for _, m := range s.Mounts {
		if strings.HasPrefix(p, m.Target+"/") && len(m.Target) > len(best.Target) {
			best = m
		}
	}
	if best.Target == "" {
		return "", fmt.Errorf("%s is in the image's own files, where PID 1 looks nothing up; make the socket in a volume", p)
	}
	return path.Join(best.Source, strings.TrimPrefix(p, best.Target)), nil
}

// userName takes what shadow's useradd would take; systemd and PID 1 agree with it.
func userName(v string) error {
	for i, r := range v {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_'
		if !letter && (i == 0 || r != '-' && (r < '0' || r > '9')) {
			v = ""
			break
		}
	}
	if v == "" || len(v) > 31 {
		return fmt.Errorf("is not a name: letters, digits, _ and -, 31 at most; numbers go into runAsUser and runAsGroup")
	}
	return nil
}

func ambient(v string, bounding []string) ([]string, error) {
	var out []string
	for _, c := range strings.Split(v, ",") {
		c, err := capability(strings.TrimSpace(c))
		if err != nil {
			return nil, err
		}
		if bounding != nil && !slices.Contains(bounding, c) {
			return nil, fmt.Errorf("%s is not among the container's capabilities; add it there too", c)
		}
		out = append(out, c)
	}
	return out, nil
}

func limits(v string) ([]Limit, error) {
	var out []Limit
	for _, l := range strings.Split(v, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(l), "=")
		soft, hard, two := strings.Cut(value, ":")
		if !two {
			hard = soft
		}
		if table.Limit(name) < 0 {
			return nil, fmt.Errorf("%q is not a resource limit; known are %s", name, table.LimitNames())
		}
		for _, x := range []string{soft, hard} {
			if _, err := strconv.ParseUint(x, 10, 63); err != nil && x != "unlimited" {
				return nil, fmt.Errorf("%s: %q is neither a number nor unlimited", name, x)
			}
		}
		if limit(soft) > limit(hard) {
			return nil, fmt.Errorf("%s: the first limit is above the second", name)
		}
		out = append(out, Limit{name, soft, hard})
	}
	return out, nil
}
