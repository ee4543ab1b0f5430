package pod

import (
	"fmt"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func (t *translation) containerNames() []string {
	var out []string
	for _, c := range slices.Concat(t.pod.Spec.InitContainers, t.pod.Spec.Containers) {
		out = append(out, c.Name)
	}
	return out
}

// services makes the pod's processes, in the order of their start.
func (t *translation) services() {
	if len(t.pod.Spec.Containers) == 0 {
		t.refuse("spec.containers", "is empty")
	}
	seen := map[string]bool{}
	for _, part := range []struct {
		path string
		list []corev1.Container
		kind Kind
	}{{"spec.initContainers", t.pod.Spec.InitContainers, InitContainer}, {"spec.containers", t.pod.Spec.Containers, Container}} {
		for i := range part.list {
			at := fmt.Sprintf("%s[%d]", part.path, i)
			c := &part.list[i]
			switch {
			case !isLabel(c.Name):
				t.refuse(at+".name", "%q is not a name: small letters, digits and -, 63 at most", c.Name)
			case seen[c.Name]:
				t.refuse(at+".name", "another container is called %q too", c.Name)
			}
			seen[c.Name] = true
			t.plan.Services = append(t.plan.Services, t.service(at, c, part.kind))
		}
	}
}

func (t *translation) service(at string, c *corev1.Container, kind Kind) Service {
	s := Service{Name: c.Name, Path: at, Kind: kind, Image: c.Image, Dir: c.WorkingDir, Restart: string(t.pod.Spec.RestartPolicy)}
	image := t.image(at, c, &s)
	s.image = image
	t.environment(at, c, &s, image)
	t.command(at, c, &s, image)
	t.restart(at, c, &s)
	s.Resources = t.resources(at+".resources", c.Resources)
	t.mounts(at, c, &s)
	t.security(at, c, &s)
	t.ports(at, c)
	if c.Stdin {
		t.refuse(at+".stdin", "standard input is /dev/null")
	}
	if c.StdinOnce {
		t.refuse(at+".stdinOnce", "standard input is /dev/null")
	}
	if c.TTY {
		t.refuse(at+".tty", "output goes to a log, not to a terminal")
	}
	t.probes(at, c, &s)
	t.lifecycle(at, c, &s)
	t.annotateService(&s)
	t.fromImage(at, &s, image)
	t.user(at, &s, image)
	return s
}

// command is argv. A name without a slash is looked up in PATH: of an image by systemd
// when it starts it, of one in the root image now.
func (t *translation) command(at string, c *corev1.Container, s *Service, image *imageConfig) {
	command, args, where := c.Command, c.Args, at+".command"
	if len(command) == 0 && image != nil {
		if command = image.Config.Entrypoint; len(args) == 0 {
			args = image.Config.Cmd
		}
		if len(command) == 0 {
			command, args, where = args, nil, at+".args"
		}
	}
	vars := map[string]string{}
	for _, e := range slices.Concat(s.Env, s.SecretEnv) {
		vars[e.Name] = e.Value
	}
	for i, word := range slices.Concat(command, args) {
		if own := i < len(command) && len(c.Command) > 0 || i >= len(command) && len(c.Args) > 0; own {
			word = expand(word, vars) // what an image says is as it is: a shell's $$ is its own
		}
		s.Argv = append(s.Argv, word)
	}
	switch {
	case t.refused(at + ".command"), t.refused(at + ".image"), len(command) == 0 && image != nil && image.later && (t.Target == Systemd || t.ImagesLater):
	case len(command) == 0 && image != nil && image.later:
		t.refuse(at+".command", "is needed here: the command of image %s is known when a recipe that has it is built", c.Image)
	case len(command) == 0 && image == nil && t.Target == Init:
		t.refuse(where, "is needed: there is no image to give an entrypoint")
	case len(command) == 0 && image == nil:
		t.refuse(where, "is needed: no image gives an entrypoint (with --images, an unpacked one does)")
	case len(command) == 0:
		t.refuse(where, "is needed: image %s has neither entrypoint nor command", c.Image)
	case s.Argv[0] == "" || strings.HasSuffix(s.Argv[0], "/"):
		t.refuse(where, "%q is not a program", s.Argv[0])
	case strings.Contains(s.Argv[0], NodeName):
		t.refuse(where, "the program's path cannot depend on the node's name")
	case t.Target == Init:
		s.Argv[0] = t.program(where, s.Argv[0], s)
	case !path.IsAbs(s.Argv[0]) && strings.Contains(s.Argv[0], "/"):
		s.Argv[0] = path.Join("/", s.Dir, s.Argv[0]) // as container runtimes do
	}
	for _, word := range slices.Concat(c.Command, c.Args) {
		if refersTo(word, s.SecretEnv) {
			t.refuse(where, "%q would put the value of a secret where everybody on the machine can read it; let the program read the variable or a file", word)
		}
	}
	dir, whose := at+".workingDir", ""
	if c.WorkingDir == "" {
		dir, whose = at+".image", "its working directory: "
	}
	if s.Dir != "" && !path.IsAbs(s.Dir) {
		t.refuse(dir, "%s%q is not an absolute path", whose, s.Dir)
	}
	t.plainPath(dir, s.Dir)
	if len(s.Argv) > 0 {
		t.plainPath(where, s.Argv[0])
	}
}

// plainPath refuses what neither unit files nor people can write down safely.
func (t *translation) plainPath(at, p string) {
	switch {
	case strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == 0x7f }):
		t.refuse(at, "%q: a path with control characters", p)
	case strings.TrimSpace(p) != p:
		t.refuse(at, "%q: a path that begins or ends with a space", p)
	case strings.HasSuffix(p, `\`):
		t.refuse(at, "%q: a path that ends with a backslash", p)
	}
}

func (t *translation) restart(at string, c *corev1.Container, s *Service) {
	if c.RestartPolicy != nil {
		p := string(*c.RestartPolicy)
		t.oneOf(at+".restartPolicy", p, "Always", "OnFailure", "Never")
		if s.Restart = p; p == "Always" && s.Kind == InitContainer {
			s.Kind = Sidecar
		}
	}
	if s.Kind == InitContainer && s.Restart == "Always" {
		s.Restart = "OnFailure" // it has ended when it has succeeded
	}
	for i, r := range c.RestartPolicyRules {
		at := fmt.Sprintf("%s.restartPolicyRules[%d]", at, i)
		if t.Target == Init {
			return
		}
		switch {
		case r.Action != corev1.ContainerRestartRuleActionRestart:
			t.refuse(at+".action", "%q: Restart is what can be had", r.Action)
		case r.ExitCodes == nil || r.ExitCodes.Operator != corev1.ContainerRestartRuleOnExitCodesOpIn:
			t.refuse(at+".exitCodes.operator", "systemd lists the codes that restart, not those that do not; use In")
		default:
			s.RestartCodes = append(s.RestartCodes, r.ExitCodes.Values...)
		}
	}
}

func (t *translation) ports(at string, c *corev1.Container) {
	for i, p := range c.Ports {
		at := fmt.Sprintf("%s.ports[%d].hostPort", at, i)
		if p.HostPort != 0 && (!t.plan.HostNetwork || p.HostPort != p.ContainerPort) {
			t.refuse(at, "nothing forwards ports; use hostNetwork: true and the same containerPort")
		}
	}
}

// resources are requests and limits. A request of CPU is the weight that the
// kubelet gives a pod with the same request (a weight of 79 for 2 CPUs, so that
// it counts against the pods' like for like).
func (t *translation) resources(at string, r corev1.ResourceRequirements) Resources {
	var out Resources
	for _, part := range []struct {
		name string
		list corev1.ResourceList
	}{{"requests", r.Requests}, {"limits", r.Limits}} {
		for _, k := range sortedResources(part.list) {
			q, at := part.list[k], fmt.Sprintf("%s.%s.%s", at, part.name, k)
			switch {
			case k == corev1.ResourceCPU && (q.Sign() <= 0 || q.Cmp(resource.MustParse(strconv.Itoa(maxMilliCPU/1000))) > 0):
				t.refuse(at, "%s is not between 1m and %d", q.String(), maxMilliCPU/1000)
			case k == corev1.ResourceMemory && q.Sign() < 0:
				t.refuse(at, "%s is negative", q.String())
			case k == corev1.ResourceCPU && part.name == "requests":
				shares := min(max(q.MilliValue()*1024/1000, 2), 262144)
				out.CPUWeight = int(1 + (shares-2)*9999/262142)
			case k == corev1.ResourceCPU:
				out.CPUMilli = q.MilliValue()
			case k == corev1.ResourceMemory && part.name == "requests":
				out.MemoryMin = q.Value()
			case k == corev1.ResourceMemory:
				out.MemoryMax = q.Value()
			case k == corev1.ResourceEphemeralStorage && part.name == "requests" && t.Target == Systemd:
				// a remark: the kubelet only schedules by it
			default:
				t.refuse(at, "there is no way to give or to limit %s here; leave it out, or %s", k, asPod)
			}
		}
	}
	if out.MemoryMax > 0 && out.MemoryMin > out.MemoryMax {
		t.refuse(at+".requests.memory", "is above the limit")
	}
	return out
}

func sortedResources(l corev1.ResourceList) []corev1.ResourceName {
	var out []corev1.ResourceName
	for k := range l {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// port is a port by number or by the name that the container gives it.
func port(c *corev1.Container, p intstr.IntOrString) (int, error) {
	n := int(p.IntVal)
	if p.Type == intstr.String {
		var err error
		if n, err = strconv.Atoi(p.StrVal); err != nil {
			i := slices.IndexFunc(c.Ports, func(x corev1.ContainerPort) bool { return x.Name == p.StrVal })
			if i < 0 {
				return 0, fmt.Errorf("no port of the container is called %q", p.StrVal)
			}
			n = int(c.Ports[i].ContainerPort)
		}
	}
	if n < 1 || n > 65535 {
		return 0, fmt.Errorf("%s is not a port number", p.String())
	}
	return n, nil
}

func hostPort(host string, n int) string {
	if host == "" {
		host = "127.0.0.1" // of the pod's network, or the host's
	}
	return net.JoinHostPort(host, strconv.Itoa(n))
}
