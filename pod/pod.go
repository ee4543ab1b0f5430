// Package pod turns Pod manifests into the services that PID 1 runs. A service
// is written as a Pod (k8s.io/api core/v1) so that there is one language for
// everything that runs on a node; what a Pod has no word for is an annotation.
//
// Only the fields listed in supported have a meaning for a host service. Any
// other field is an error rather than a wish that nobody fulfils.
package pod

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"slices"
	"sort"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"garboard.local/init/table"
)

// Annotations for what Pods have no field for.
const (
	prefix = "garboard.local/"
	// RoleAnnotation is "runtime" or "kubelet": which of the socket's restart
	// commands means this service, and whose connection may delay a shutdown.
	RoleAnnotation = prefix + "role"
	// AfterAnnotation is a comma-separated list of services, by name or role, that must be ready first.
	AfterAnnotation = prefix + "after"
	// WaitAnnotation is how many seconds to wait for them at most (default 30);
	// then the service is started all the same, with a warning.
	WaitAnnotation = prefix + "wait-seconds"
	// SocketAnnotation is a unix socket whose accepting a connection means ready.
	SocketAnnotation = prefix + "ready-socket"
	// OOMAnnotation is the process's oom_score_adj, -1000 to 1000.
	OOMAnnotation = prefix + "oom-score-adj"
)

var annotations = []string{RoleAnnotation, AfterAnnotation, WaitAnnotation, SocketAnnotation, OOMAnnotation}

// supported are the fields of a Pod that a host service may set; [] is any list element.
var supported = []string{
	"apiVersion", "kind", "metadata.name", "metadata.annotations.*", "metadata.labels.*", "metadata.namespace",
	"spec.restartPolicy", "spec.terminationGracePeriodSeconds",
	"spec.containers[].name", "spec.containers[].command[]", "spec.containers[].args[]", "spec.containers[].workingDir",
	"spec.containers[].env[].name", "spec.containers[].env[].value",
	"spec.containers[].resources.requests.cpu", "spec.containers[].resources.requests.memory",
	"spec.containers[].readinessProbe.exec.command[]",
	"spec.containers[].readinessProbe.tcpSocket.host", "spec.containers[].readinessProbe.tcpSocket.port",
	"spec.containers[].readinessProbe.periodSeconds", "spec.containers[].readinessProbe.timeoutSeconds",
}

// Defaults where a manifest is silent. Grace and timeout are those of a Pod.
const (
	defaultGraceSeconds   = 30
	defaultWaitSeconds    = 30
	defaultPeriodMillis   = 50 // a node boots in seconds: probing once a second would be felt
	defaultTimeoutMillis  = 1000
	minOOM, maxOOM        = -1000, 1000
	maxGraceSeconds       = 3600
	maxMilliCPU           = 256_000
	defaultServiceRestart = table.RestartAlways
)

// ParseFile reads the manifest of one service.
func ParseFile(file string) (table.Service, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return table.Service{}, fmt.Errorf("service: %w", err)
	}
	s, err := Parse(b)
	if err != nil {
		return s, fmt.Errorf("service %s: %w", file, err)
	}
	return s, nil
}

// Parse translates one Pod manifest.
func Parse(b []byte) (table.Service, error) {
	var none table.Service
	var p corev1.Pod
	if err := yaml.UnmarshalStrict(b, &p); err != nil {
		return none, err
	}
	var raw any
	if err := yaml.Unmarshal(b, &raw); err != nil {
		return none, err
	}
	if f := unsupported(raw); f != "" {
		return none, fmt.Errorf("%s has no meaning for a service that PID 1 runs; supported are %s", f, strings.Join(supported, ", "))
	}
	switch {
	case p.APIVersion != "v1" || p.Kind != "Pod":
		return none, fmt.Errorf("apiVersion %q, kind %q: a service is a v1 Pod", p.APIVersion, p.Kind)
	case p.Name == "":
		return none, fmt.Errorf("metadata.name is missing")
	case strings.ContainsAny(p.Name, "/ \n") || p.Name[0] == '.':
		return none, fmt.Errorf("metadata.name %q is not a service name", p.Name)
	case len(p.Spec.Containers) != 1:
		return none, fmt.Errorf("spec.containers: %d containers; a service has exactly one", len(p.Spec.Containers))
	}
	c := p.Spec.Containers[0]
	s := table.Service{
		Name: p.Name, Command: append(slices.Clone(c.Command), c.Args...), Dir: c.WorkingDir,
		Restart: string(p.Spec.RestartPolicy), GraceSeconds: defaultGraceSeconds,
	}
	if len(c.Command) == 0 || !path.IsAbs(c.Command[0]) {
		return none, fmt.Errorf("spec.containers[0].command must begin with an absolute path: no image gives an entrypoint")
	}
	if s.Restart == "" {
		s.Restart = defaultServiceRestart
	}
	if g := p.Spec.TerminationGracePeriodSeconds; g != nil {
		if *g < 0 || *g > maxGraceSeconds {
			return none, fmt.Errorf("spec.terminationGracePeriodSeconds: %d is not between 0 and %d", *g, maxGraceSeconds)
		}
		s.GraceSeconds = int(*g)
	}
	for _, e := range c.Env {
		if e.Name == "" || strings.ContainsAny(e.Name, "=\x00") {
			return none, fmt.Errorf("env: %q is not a variable name", e.Name)
		}
		s.Env = append(s.Env, e.Name+"="+e.Value)
	}
	var err error
	if s.CPUWeight, s.MemoryMin, err = share(c.Resources.Requests); err != nil {
		return none, err
	}
	if err := annotate(&s, p.Annotations); err != nil {
		return none, err
	}
	if err := probe(&s, c.ReadinessProbe); err != nil {
		return none, err
	}
	t := table.Table{Version: 1, Services: []table.Service{s}}
	t.Services[0].After = nil // names of other services: checked on the whole table
	return s, t.Check()
}

// share is what requests mean for a service's cgroup: the CPU weight that the
// kubelet gives a pod with the same request (a weight of 79 for 2 CPUs, so that
// it counts against the pods' like for like), and memory that is never reclaimed.
func share(requests corev1.ResourceList) (weight int, memory int64, err error) {
	if q, ok := requests[corev1.ResourceCPU]; ok {
		if q.Sign() <= 0 || q.MilliValue() > maxMilliCPU {
			return 0, 0, fmt.Errorf("resources.requests.cpu: %s is not between 1m and %d", q.String(), maxMilliCPU/1000)
		}
		shares := min(max(q.MilliValue()*1024/1000, 2), 262144)
		weight = int(1 + (shares-2)*9999/262142)
	}
	if q, ok := requests[corev1.ResourceMemory]; ok {
		if q.Sign() < 0 {
			return 0, 0, fmt.Errorf("resources.requests.memory: %s is negative", q.String())
		}
		memory = q.Value()
	}
	return weight, memory, nil
}

func annotate(s *table.Service, a map[string]string) error {
	for _, k := range sortedKeys(a) {
		v := a[k]
		if !strings.HasPrefix(k, prefix) {
			continue
		}
		var err error
		switch k {
		case RoleAnnotation:
			if v != table.RoleRuntime && v != table.RoleKubelet {
				err = fmt.Errorf("is neither %q nor %q", table.RoleRuntime, table.RoleKubelet)
			}
			s.Role = v
		case AfterAnnotation:
			for _, n := range strings.Split(v, ",") {
				s.After = append(s.After, strings.TrimSpace(n))
			}
		case WaitAnnotation:
			s.WaitSeconds, err = number(v, 0, maxGraceSeconds)
		case SocketAnnotation:
			if !path.IsAbs(v) {
				err = fmt.Errorf("is not an absolute path")
			}
			s.Ready = &table.Probe{Unix: v}
		case OOMAnnotation:
			s.OOMScoreAdj, err = number(v, minOOM, maxOOM)
		default:
			return fmt.Errorf("annotation %s is not known; known: %s", k, strings.Join(annotations, ", "))
		}
		if err != nil {
			return fmt.Errorf("annotation %s: %q %w", k, v, err)
		}
	}
	if len(s.After) > 0 && a[WaitAnnotation] == "" {
		s.WaitSeconds = defaultWaitSeconds
	}
	return nil
}

func number(v string, low, high int) (int, error) {
	n, err := strconv.Atoi(v)
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("is not a number from %d to %d", low, high)
	}
	return n, nil
}

func probe(s *table.Service, p *corev1.Probe) error {
	if p != nil {
		if s.Ready != nil {
			return fmt.Errorf("both a readinessProbe and %s are given", SocketAnnotation)
		}
		s.Ready = &table.Probe{PeriodMillis: int(p.PeriodSeconds) * 1000, TimeoutMillis: int(p.TimeoutSeconds) * 1000}
		switch {
		case p.Exec != nil && p.TCPSocket != nil:
			return fmt.Errorf("readinessProbe: exec and tcpSocket are both given")
		case p.Exec != nil:
			if len(p.Exec.Command) == 0 || !path.IsAbs(p.Exec.Command[0]) {
				return fmt.Errorf("readinessProbe.exec.command must begin with an absolute path")
			}
			s.Ready.Exec = p.Exec.Command
		case p.TCPSocket != nil:
			port := p.TCPSocket.Port.IntValue()
			if port < 1 || port > 65535 {
				return fmt.Errorf("readinessProbe.tcpSocket.port: %s is not a port number", p.TCPSocket.Port.String())
			}
			host := p.TCPSocket.Host
			if host == "" {
				host = "127.0.0.1"
			}
			s.Ready.TCP = fmt.Sprintf("%s:%d", host, port)
		default:
			return fmt.Errorf("readinessProbe: exec or tcpSocket is needed")
		}
	}
	if s.Ready == nil {
		return nil
	}
	if s.Ready.PeriodMillis < 0 || s.Ready.TimeoutMillis < 0 {
		return fmt.Errorf("readinessProbe: negative time")
	}
	if s.Ready.PeriodMillis == 0 {
		s.Ready.PeriodMillis = defaultPeriodMillis
	}
	if s.Ready.TimeoutMillis == 0 {
		s.Ready.TimeoutMillis = defaultTimeoutMillis
	}
	return nil
}

// unsupported is the first field of a manifest that a host service cannot have, or "".
func unsupported(v any) string {
	var found []string
	flatten("", v, func(field string) {
		for _, s := range supported {
			if field == s || strings.HasSuffix(s, ".*") && strings.HasPrefix(field, strings.TrimSuffix(s, "*")) {
				return
			}
		}
		found = append(found, field)
	})
	sort.Strings(found)
	if len(found) == 0 {
		return ""
	}
	return found[0]
}

func flatten(at string, v any, leaf func(string)) {
	switch x := v.(type) {
	case map[string]any:
		for k, c := range x {
			flatten(strings.TrimPrefix(at+"."+k, "."), c, leaf)
		}
	case []any:
		for _, c := range x {
			flatten(at+"[]", c, leaf)
		}
	case nil:
	default:
		leaf(at)
	}
}

func sortedKeys(m map[string]string) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

// Compile builds the part of the node table that lists services from manifest
// files in their order, and checks what they say of each other.
func Compile(files []string) ([]table.Service, error) {
	t := table.Table{Version: 1}
	for _, f := range files {
		s, err := ParseFile(f)
		if err != nil {
			return nil, err
		}
		t.Services = append(t.Services, s)
	}
	for i := range t.Services {
		for j, name := range t.Services[i].After {
			t.Services[i].After[j] = byRole(t.Services, name)
		}
	}
	return t.Services, t.Check()
}

// byRole is the name of the service that has name as its role, if none is
// called so: the kubelet comes after the runtime, whichever that is.
func byRole(services []table.Service, name string) string {
	role := name
	for _, s := range services {
		if s.Name == name {
			return name
		}
		if s.Role != "" && s.Role == name {
			role = s.Name
		}
	}
	return role
}

// JSON is the node table as it lies in the root image.
func JSON(t *table.Table) ([]byte, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	b, err := json.MarshalIndent(t, "", "  ")
	return append(b, '\n'), err
}
