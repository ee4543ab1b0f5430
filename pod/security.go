package pod

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"garboard.local/init/table"
)

// usualCapabilities are what a container has by default under cri-o
// (default_capabilities in crio.conf(5)).
var usualCapabilities = []string{"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "SETGID", "SETPCAP", "SETUID"}

func capability(name string) (string, error) {
	short := strings.TrimPrefix(strings.ToUpper(name), "CAP_")
	if table.Capability(short) < 0 {
		return "", fmt.Errorf("%q is not a capability", name)
	}
	return short, nil
}

// security is what a container's process may do.
func (t *translation) security(at string, c *corev1.Container, s *Service) {
	pod := t.pod.Spec.SecurityContext
	if pod == nil {
		pod = &corev1.PodSecurityContext{}
	}
	own := c.SecurityContext
	if own == nil {
		own = &corev1.SecurityContext{}
	}
	at += ".securityContext"
	s.User = first(own.RunAsUser, pod.RunAsUser)
	s.Group = first(own.RunAsGroup, pod.RunAsGroup)
	s.Groups = slices.Clone(pod.SupplementalGroups)
	if pod.FSGroup != nil && !slices.Contains(s.Groups, *pod.FSGroup) {
		s.Groups = append(s.Groups, *pod.FSGroup)
	}
	for _, id := range append(slices.Clone(s.Groups), number64(s.User), number64(s.Group)) {
		if id < -1 || id > 1<<31-1 {
			t.refuse(at, "%d is not a user or group", id)
		}
	}
	s.Privileged = own.Privileged != nil && *own.Privileged
	t.capabilities(at+".capabilities", own, s)
	s.NoNewPrivs = own.AllowPrivilegeEscalation != nil && !*own.AllowPrivilegeEscalation
	if s.NoNewPrivs && s.Privileged {
		t.refuse(at+".allowPrivilegeEscalation", "false cannot go with privileged: true")
	}
	if own.Privileged != nil && !s.Privileged && t.bare(s) && own.Capabilities == nil {
		t.refuse(at+".privileged", "a service of PID 1 has every capability unless it says which; give capabilities")
	}
	s.ReadOnly = own.ReadOnlyRootFilesystem != nil && *own.ReadOnlyRootFilesystem
	if own.ReadOnlyRootFilesystem != nil && !s.ReadOnly && t.bare(s) {
		t.refuse(at+".readOnlyRootFilesystem", "the node's root is read-only for everybody; a service with an image has one of its own")
	}
	if own.ProcMount != nil && *own.ProcMount != corev1.DefaultProcMount {
		t.refuse(at+".procMount", "%s: Default can be had", *own.ProcMount)
	}
	t.profiles(at, pod, own, s)
	t.sysctls(pod)
}

// bare says whether a service of PID 1 has the node's root, and not an image's, in
// which it is what a container is.
func (t *translation) bare(s *Service) bool { return t.Target == Init && s.Root == "" }

func first(ids ...*int64) string {
	for _, id := range ids {
		if id != nil {
			return strconv.FormatInt(*id, 10)
		}
	}
	return ""
}

func number64(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// user checks runAsNonRoot, when annotations have had their say.
func (t *translation) user(at string, s *Service, image *imageConfig) {
	if image != nil && image.later {
		return
	}
	required, path := false, "spec.securityContext.runAsNonRoot"
	if sc := t.pod.Spec.SecurityContext; sc != nil && sc.RunAsNonRoot != nil {
		required = *sc.RunAsNonRoot
	}
	for _, f := range t.doc.Fields {
		if f.Path == at+".securityContext.runAsNonRoot" {
			required, path = f.Value == "true", f.Path
		}
	}
	if required && (s.User == "" || s.User == "0" || s.User == "root") {
		t.refuse(path, "container %s would run as root; give runAsUser, or annotation %s", s.Name, UserAnnotation)
	}
}

func (t *translation) capabilities(at string, own *corev1.SecurityContext, s *Service) {
	c := own.Capabilities
	switch {
	case s.Privileged, c == nil && t.bare(s):
		if c != nil && t.bare(s) {
			t.refuse(at, "with privileged: true a container has them all; leave one of them out")
		}
		return // nil: all
	case c == nil:
		s.Caps = slices.Clone(usualCapabilities)
		return
	}
	set := map[string]bool{}
	for _, n := range usualCapabilities {
		set[n] = true
	}
	each := func(at string, list []corev1.Capability, keep bool) {
		for _, n := range list {
			if strings.EqualFold(string(n), "ALL") {
				for _, all := range table.Capabilities() {
					set[all] = keep
				}
				continue
			}
			name, err := capability(string(n))
			if err != nil {
				t.refuse(at, "%v", err)
			}
			set[name] = keep
		}
	}
	isAll := func(n corev1.Capability) bool { return strings.EqualFold(string(n), "ALL") }
	// As container runtimes do: ALL first, so that single ones can be excepted.
	if slices.ContainsFunc(c.Add, isAll) {
		each(at+".add", []corev1.Capability{"ALL"}, true)
	}
	if slices.ContainsFunc(c.Drop, isAll) {
		each(at+".drop", []corev1.Capability{"ALL"}, false)
	}
	each(at+".add", slices.DeleteFunc(slices.Clone(c.Add), isAll), true)
	each(at+".drop", slices.DeleteFunc(slices.Clone(c.Drop), isAll), false)
	s.Caps = []string{}
	for _, n := range table.Capabilities() {
		if set[n] {
			s.Caps = append(s.Caps, n)
		}
	}
}

func (t *translation) profiles(at string, pod *corev1.PodSecurityContext, own *corev1.SecurityContext, s *Service) {
	t.seccomp(at, pod, own, s)
	armor, where := pod.AppArmorProfile, "spec.securityContext.appArmorProfile"
	if own.AppArmorProfile != nil {
		armor, where = own.AppArmorProfile, at+".appArmorProfile"
	}
	switch {
	case armor == nil:
	case armor.Type == corev1.AppArmorProfileTypeUnconfined:
		s.AppArmor = "unconfined"
	case armor.Type == corev1.AppArmorProfileTypeLocalhost && armor.LocalhostProfile != nil && t.Target == Systemd:
		s.AppArmor = *armor.LocalhostProfile
		t.plainPath(where+".localhostProfile", s.AppArmor)
	default:
		t.refuse(where+".type", "%s: there is no profile to load; name one with Localhost (systemd), or leave it out", armor.Type)
	}
	label, where := pod.SELinuxOptions, "spec.securityContext.seLinuxOptions"
	if own.SELinuxOptions != nil {
		label, where = own.SELinuxOptions, at+".seLinuxOptions"
	}
	if label != nil && t.Target == Systemd {
		parts := []string{label.User, label.Role, label.Type, label.Level}
		if slices.Contains(parts, "") || strings.ContainsAny(strings.Join(parts, ""), " \n") {
			t.refuse(where, "user, role, type and level are all needed: no runtime completes them")
		}
		s.SELinux = strings.Join(parts, ":")
	}
}

// sysctls of the pod's own namespaces.
func (t *translation) sysctls(pod *corev1.PodSecurityContext) {
	if len(t.plan.Sysctls) > 0 || t.Target == Init {
		return
	}
	for i, x := range pod.Sysctls {
		at := fmt.Sprintf("spec.securityContext.sysctls[%d].name", i)
		name := strings.ReplaceAll(x.Name, "/", ".")
		ipc := strings.HasPrefix(name, "kernel.shm") || strings.HasPrefix(name, "kernel.msg") || name == "kernel.sem" || strings.HasPrefix(name, "fs.mqueue.")
		network := strings.HasPrefix(name, "net.")
		switch {
		case strings.ContainsAny(name+x.Value, "\n\x00") || strings.Contains(name, "="):
			t.refuse(at, "%q: %q is not a setting", x.Name, x.Value)
		case !ipc && !network:
			t.refuse(at, "%s belongs to no namespace: it would change the whole host; set it there", x.Name)
		case network && t.plan.HostNetwork, ipc && t.plan.HostIPC:
			t.refuse(at, "%s would change the host, whose namespace the pod shares; set it there", x.Name)
		}
		t.plan.Sysctls = append(t.plan.Sysctls, Setting{name, x.Value})
	}
}
