package pod

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	maxRestartRules = 20
	maxExitCodes    = 255
)

func (t *translation) validateContainers() {
	hostPorts := map[string]bool{}
	for i := range t.pod.Spec.InitContainers {
		c := &t.pod.Spec.InitContainers[i]
		// Init containers run one after the other, and may have the same host port.
		ports := map[string]bool{}
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			ports = hostPorts
		}
		t.validateContainer(fmt.Sprintf("spec.initContainers[%d]", i), c, ports)
	}
	for i := range t.pod.Spec.Containers {
		t.validateContainer(fmt.Sprintf("spec.containers[%d]", i), &t.pod.Spec.Containers[i], hostPorts)
	}
}

func (t *translation) validateContainer(at string, c *corev1.Container, hostPorts map[string]bool) {
	if strings.TrimSpace(c.Image) != c.Image {
		t.refuse(at+".image", "%q begins or ends with a space", c.Image)
	}
	t.oneOf(at+".imagePullPolicy", string(c.ImagePullPolicy), "", "Always", "IfNotPresent", "Never")
	t.oneOf(at+".terminationMessagePolicy", string(c.TerminationMessagePolicy), "", "File", "FallbackToLogsOnError")
	t.validatePorts(at, c, hostPorts)
	t.validateEnv(at, c)
	sc := c.SecurityContext
	t.validateMounts(at, c, sc != nil && sc.Privileged != nil && *sc.Privileged)
	t.validateResources(at+".resources", c.Resources)
	for name, p := range map[string]*corev1.Probe{"startupProbe": c.StartupProbe, "livenessProbe": c.LivenessProbe, "readinessProbe": c.ReadinessProbe} {
		if p != nil {
			t.validateProbe(at+"."+name, p)
		}
	}
	if l := c.Lifecycle; l != nil {
		t.validateHook(at+".lifecycle.preStop", l.PreStop)
		t.validateHook(at+".lifecycle.postStart", l.PostStart)
		if l.StopSignal != nil {
			if t.pod.Spec.OS == nil || t.pod.Spec.OS.Name == "" {
				t.refuse(at+".lifecycle.stopSignal", "needs spec.os.name, whose signals are meant; say linux")
			}
			if signalName(string(*l.StopSignal)) != string(*l.StopSignal) {
				t.refuse(at+".lifecycle.stopSignal", "%q is not a signal's name, such as SIGTERM", *l.StopSignal)
			}
		}
	}
	t.validateRestartRules(at, c)
	if sc != nil {
		t.validateSecurity(at+".securityContext", sc)
	}
}

func (t *translation) validatePorts(at string, c *corev1.Container, hostPorts map[string]bool) {
	names := map[string]bool{}
	for i, p := range c.Ports {
		at := fmt.Sprintf("%s.ports[%d]", at, i)
		t.given(at+".name", p.Name, validation.IsValidPortName)
		if p.Name != "" && names[p.Name] {
			t.refuse(at+".name", "another port of the container is called %q too", p.Name)
		}
		names[p.Name] = true
		t.oneOf(at+".protocol", string(p.Protocol), "", "TCP", "UDP", "SCTP")
		t.syntax(at+".containerPort", fmt.Sprint(p.ContainerPort), validation.IsValidPortNum(int(p.ContainerPort)))
		if p.HostPort != 0 {
			t.syntax(at+".hostPort", fmt.Sprint(p.HostPort), validation.IsValidPortNum(int(p.HostPort)))
			key := fmt.Sprint(p.HostPort, "/", p.HostIP, "/", strings.TrimPrefix(string(p.Protocol), "TCP"))
			if hostPorts[key] {
				t.refuse(at+".hostPort", "%d is given to another port of the pod too", p.HostPort)
			}
			hostPorts[key] = true
		}
	}
}

func (t *translation) validateEnv(at string, c *corev1.Container) {
	for i := range c.Env {
		e, at := &c.Env[i], fmt.Sprintf("%s.env[%d]", at, i)
		if e.Name == "" {
			t.refuse(at+".name", "is missing")
		} else {
			t.syntax(at+".name", e.Name, validation.IsRelaxedEnvVarName(e.Name))
		}
		from := e.ValueFrom
		if from == nil {
			continue
		}
		t.one(at+".valueFrom", from, "a variable")
		t.fieldSelector(at+".valueFrom.fieldRef", from.FieldRef)
		if r := from.ConfigMapKeyRef; r != nil {
			t.syntax(at+".valueFrom.configMapKeyRef.key", r.Key, validation.IsConfigMapKey(r.Key))
		}
		if r := from.SecretKeyRef; r != nil {
			t.syntax(at+".valueFrom.secretKeyRef.key", r.Key, validation.IsConfigMapKey(r.Key))
		}
	}
	for i := range c.EnvFrom {
		from, at := &c.EnvFrom[i], fmt.Sprintf("%s.envFrom[%d]", at, i)
		t.given(at+".prefix", from.Prefix, validation.IsRelaxedEnvVarName)
		t.one(at, from, "an entry")
	}
}

// validateResources demands that requests are not above limits, of any resource.
func (t *translation) validateResources(at string, r corev1.ResourceRequirements) {
	for part, list := range map[string]corev1.ResourceList{"requests": r.Requests, "limits": r.Limits} {
		for _, k := range sortedResources(list) {
			at := fmt.Sprintf("%s.%s.%s", at, part, k)
			t.syntax(at, string(k), validation.IsQualifiedName(string(k)))
			if q := list[k]; q.Sign() < 0 {
				t.refuse(at, "%s is negative", q.String())
			}
		}
	}
	for _, k := range sortedResources(r.Requests) {
		q := r.Requests[k]
		if limit, ok := r.Limits[k]; ok && q.Cmp(limit) > 0 {
			t.refuse(fmt.Sprintf("%s.requests.%s", at, k), "%s is above the limit, %s", text(q), text(limit))
		}
	}
}

func text(q resource.Quantity) string { return q.String() }

func (t *translation) validateProbe(at string, p *corev1.Probe) {
	if h := p.HTTPGet; h != nil {
		t.probePort(at+".httpGet.port", h.Port)
		t.oneOf(at+".httpGet.scheme", string(h.Scheme), "", "HTTP", "HTTPS")
		for i, x := range h.HTTPHeaders {
			t.syntax(fmt.Sprintf("%s.httpGet.httpHeaders[%d].name", at, i), x.Name, validation.IsHTTPHeaderName(x.Name))
		}
	}
	if s := p.TCPSocket; s != nil {
		t.probePort(at+".tcpSocket.port", s.Port)
	}
}

func (t *translation) probePort(at string, p intstr.IntOrString) {
	if p.Type == intstr.String {
		t.syntax(at, p.StrVal, validation.IsValidPortName(p.StrVal))
	} else {
		t.syntax(at, p.String(), validation.IsValidPortNum(p.IntValue()))
	}
}

func (t *translation) validateHook(at string, h *corev1.LifecycleHandler) {
	if h == nil {
		return
	}
	t.one(at, h, "a hook")
	switch s := h.Sleep; {
	case h.Exec == nil && h.HTTPGet == nil && h.TCPSocket == nil && s == nil:
		t.refuse(at, "none of exec, httpGet and sleep is given")
	case s != nil && (s.Seconds < 0 || s.Seconds > t.graceSeconds()):
		t.refuse(at+".sleep.seconds", "%d is not between 0 and the grace of the pod, %d", s.Seconds, t.graceSeconds())
	}
}

func (t *translation) graceSeconds() int64 {
	if g := t.pod.Spec.TerminationGracePeriodSeconds; g != nil {
		return *g
	}
	return defaultGraceSeconds
}

func (t *translation) validateRestartRules(at string, c *corev1.Container) {
	rules := c.RestartPolicyRules
	if len(rules) == 0 {
		return
	}
	if c.RestartPolicy == nil {
		t.refuse(at+".restartPolicyRules", "need the container's own restartPolicy")
	}
	if len(rules) > maxRestartRules {
		t.refuse(at+".restartPolicyRules", "%d; %d is what a container may have", len(rules), maxRestartRules)
	}
	for i, r := range rules {
		at := fmt.Sprintf("%s.restartPolicyRules[%d]", at, i)
		t.oneOf(at+".action", string(r.Action), "Restart", "RestartAllContainers")
		if r.ExitCodes == nil {
			t.refuse(at+".exitCodes", "is missing")
			continue
		}
		t.oneOf(at+".exitCodes.operator", string(r.ExitCodes.Operator), "In", "NotIn")
		codes := slices.Clone(r.ExitCodes.Values)
		slices.Sort(codes)
		if n := len(codes); n == 0 || n > maxExitCodes || len(slices.Compact(codes)) != n || codes[0] < 0 {
			t.refuse(at+".exitCodes.values", "%v: 1 to %d different codes are needed", r.ExitCodes.Values, maxExitCodes)
		}
	}
}

func (t *translation) validateSecurity(at string, sc *corev1.SecurityContext) {
	if sc.RunAsUser != nil {
		t.syntax(at+".runAsUser", fmt.Sprint(*sc.RunAsUser), validation.IsValidUserID(*sc.RunAsUser))
	}
	if sc.RunAsGroup != nil {
		t.syntax(at+".runAsGroup", fmt.Sprint(*sc.RunAsGroup), validation.IsValidGroupID(*sc.RunAsGroup))
	}
	if p := sc.ProcMount; p != nil {
		t.oneOf(at+".procMount", string(*p), "Default", "Unmasked")
	}
	t.seccompProfile(at+".seccompProfile", sc.SeccompProfile)
	t.appArmorProfile(at+".appArmorProfile", sc.AppArmorProfile)
	if sc.AllowPrivilegeEscalation == nil || *sc.AllowPrivilegeEscalation || sc.Capabilities == nil {
		return
	}
	if slices.ContainsFunc(sc.Capabilities.Add, func(c corev1.Capability) bool { return strings.EqualFold(string(c), "CAP_SYS_ADMIN") }) {
		t.refuse(at+".allowPrivilegeEscalation", "false cannot go with CAP_SYS_ADMIN among the capabilities")
	}
}
