package pod

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// expand replaces $(NAME) by the value of a variable and $$ by $, as Kubernetes
// does: what refers to no variable stays as it is.
func expand(s string, vars map[string]string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '$' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		switch rest := s[i+1:]; {
		case rest[0] == '$':
			b.WriteByte('$')
			i++
		case rest[0] == '(' && strings.IndexByte(rest, ')') > 0:
			end := strings.IndexByte(rest, ')')
			if v, ok := vars[rest[1:end]]; ok {
				b.WriteString(v)
			} else {
				b.WriteString("$" + rest[:end+1])
			}
			i += end + 1
		default:
			b.WriteByte('$')
		}
	}
	return b.String()
}

// refersTo says whether the expansion of a word uses one of the variables.
func refersTo(word string, vars []Setting) bool {
	const mark = "\x00used\x00"
	m := map[string]string{}
	for _, v := range vars {
		m[v.Name] = mark
	}
	return strings.Contains(expand(word, m), mark)
}

// environment collects a container's variables: of the image, Kubernetes' own,
// envFrom, env. Later ones replace earlier ones of the same name.
func (t *translation) environment(at string, c *corev1.Container, s *Service, image *imageConfig) {
	vars := map[string]string{} // what $(NAME) can mean: not the image's
	put := func(name, value string, secret bool) {
		same := func(e Setting) bool { return e.Name == name }
		s.Env, s.SecretEnv = slices.DeleteFunc(s.Env, same), slices.DeleteFunc(s.SecretEnv, same)
		if secret {
			s.SecretEnv = append(s.SecretEnv, Setting{name, value})
		} else {
			s.Env = append(s.Env, Setting{name, value})
		}
	}
	if image != nil {
		for _, e := range image.Config.Env {
			name, value, _ := strings.Cut(e, "=")
			put(name, value, false)
		}
	}
	if t.Target == Systemd {
		put("HOSTNAME", t.hostname(), false)
	}
	if t.APIServer != "" {
		host, port, err := net.SplitHostPort(t.APIServer)
		if err != nil {
			t.refuse("spec", "KUBERNETES_SERVICE_HOST: %v", err)
		}
		for _, e := range []Setting{{"KUBERNETES_SERVICE_HOST", host}, {"KUBERNETES_SERVICE_PORT", port}} {
			put(e.Name, e.Value, false)
			vars[e.Name] = e.Value
		}
	}
	t.envFrom(at, c, func(name, value string, secret bool) {
		put(name, value, secret)
		vars[name] = value
	})
	for i, e := range c.Env {
		at := fmt.Sprintf("%s.env[%d]", at, i)
		value, secret, ok := expand(e.Value, vars), refersTo(e.Value, s.SecretEnv), true
		if e.ValueFrom != nil {
			if e.Value != "" {
				t.refuse(at+".value", "valueFrom is given as well; leave one of them out")
			}
			value, secret, ok = t.valueFrom(at+".valueFrom", c, e.ValueFrom)
		}
		if t.variable(at+".name", e.Name); ok {
			put(e.Name, value, secret)
			vars[e.Name] = value
		}
	}
}

// variable refuses names that would be dropped or misread.
func (t *translation) variable(at, name string) {
	if t.Target == Systemd && !isVariable(name) {
		t.refuse(at, "%q: systemd drops variables whose names are not letters, digits and _, a digit not first", name)
	} else if name == "" || strings.ContainsAny(name, "=\x00") {
		t.refuse(at, "%q is not a variable's name", name)
	}
}

func isVariable(s string) bool {
	for i, r := range s {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != ""
}

// hostname is what a container's HOSTNAME is.
func (t *translation) hostname() string {
	s := &t.pod.Spec
	switch {
	case s.HostnameOverride != nil:
		return *s.HostnameOverride
	case s.HostNetwork:
		return t.nodeName()
	case s.Hostname != "":
		return s.Hostname
	}
	return t.plan.Name
}

func (t *translation) nodeName() string {
	if t.NodeName != "" {
		return t.NodeName
	}
	return NodeName
}

func (t *translation) envFrom(at string, c *corev1.Container, put func(name, value string, secret bool)) {
	for i, from := range c.EnvFrom {
		at := fmt.Sprintf("%s.envFrom[%d]", at, i)
		var o object
		var ok bool
		switch {
		case from.ConfigMapRef != nil:
			at += ".configMapRef"
			o, ok = t.object(at+".name", configMaps, from.ConfigMapRef.Name, from.ConfigMapRef.Optional)
		case from.SecretRef != nil && t.Target == Systemd:
			at += ".secretRef"
			o, ok = t.object(at+".name", secrets, from.SecretRef.Name, from.SecretRef.Optional)
		case from.SecretRef == nil:
			t.refuse(at, "neither configMapRef nor secretRef is given")
		}
		if !ok {
			continue
		}
		for _, k := range sortedKeys(o.data) {
			if t.variable(at+".name", from.Prefix+k); !t.text(at+".name", k, o.data[k]) {
				continue
			}
			put(from.Prefix+k, string(o.data[k]), from.SecretRef != nil)
		}
	}
}

// text refuses values that no environment can hold.
func (t *translation) text(at, key string, v []byte) bool {
	if !isText(v) {
		t.refuse(at, "the value of %s is not text (UTF-8 without NUL), which a variable must be; mount it as a file", key)
		return false
	}
	return true
}

// valueFrom is the value of a variable that the manifest only refers to. Not ok
// means that there is none: refused, or optional and absent.
func (t *translation) valueFrom(at string, c *corev1.Container, from *corev1.EnvVarSource) (v string, secret, ok bool) {
	key := func(at string, k kindOfObject, name, key string, optional *bool) (string, bool) {
		o, ok := t.object(at+".name", k, name, optional)
		if !ok {
			return "", false
		}
		v, ok := o.data[key]
		if !ok && (optional == nil || !*optional) {
			t.refuse(at+".key", "%s %s has no key %q", k.kind, name, key)
		}
		return string(v), ok && t.text(at+".key", key, v)
	}
	switch {
	case from.FieldRef != nil:
		v, ok = t.fieldRef(at+".fieldRef.fieldPath", from.FieldRef, true)
		return v, false, ok
	case from.ResourceFieldRef != nil:
		v, ok = t.resourceRef(at+".resourceFieldRef", c, from.ResourceFieldRef)
		return v, false, ok
	case from.ConfigMapKeyRef != nil:
		r := from.ConfigMapKeyRef
		v, ok = key(at+".configMapKeyRef", configMaps, r.Name, r.Key, r.Optional)
		return v, false, ok
	case from.SecretKeyRef != nil && t.Target == Systemd:
		r := from.SecretKeyRef
		v, ok = key(at+".secretKeyRef", secrets, r.Name, r.Key, r.Optional)
		return v, true, ok
	case from.SecretKeyRef == nil && from.FileKeyRef == nil:
		t.refuse(at, "none of fieldRef, resourceFieldRef, configMapKeyRef and secretKeyRef is given")
	}
	return "", false, false
}

// fieldRef is a field of the pod. Only variables can hold what the machine
// alone knows (the node's name); files are written before.
func (t *translation) fieldRef(at string, r *corev1.ObjectFieldSelector, variable bool) (string, bool) {
	p := t.plan
	if which, key, ok := strings.Cut(strings.TrimSuffix(r.FieldPath, "']"), "['"); ok {
		switch which {
		case "metadata.labels":
			return p.Labels[key], true
		case "metadata.annotations":
			return p.Annotations[key], true
		}
	}
	switch r.FieldPath {
	case "metadata.name":
		return p.Name, true
	case "metadata.namespace":
		return p.Namespace, true
	case "metadata.uid":
		return p.UID, true
	case "metadata.labels", "metadata.annotations":
		if variable {
			break
		}
		m := map[bool]map[string]string{true: p.Labels, false: p.Annotations}[r.FieldPath == "metadata.labels"]
		var b strings.Builder
		for _, k := range sortedKeys(m) {
			fmt.Fprintf(&b, "%s=%s\n", k, strconv.Quote(m[k]))
		}
		return strings.TrimSuffix(b.String(), "\n"), true // as a kubelet writes it
	case "spec.serviceAccountName":
		return t.pod.Spec.ServiceAccountName, true
	case "spec.nodeName":
		if t.NodeName == "" && (t.Target == Init || !variable) {
			t.refuse(at, "the node's name is known at run time only; give --node-name, or let the program ask for the hostname")
			return "", false
		}
		return t.nodeName(), true
	case "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs":
		if t.NodeIP == "" {
			t.refuse(at, "addresses are known at run time only; give --node-ip, or let the program find out")
			return "", false
		}
		if strings.HasPrefix(r.FieldPath, "status.podIP") && !t.plan.HostNetwork {
			return "127.0.0.1", true
		}
		return t.NodeIP, true
	}
	t.refuse(at, "%q is not a field that can be had here", r.FieldPath)
	return "", false
}

// resourceRef is a container's own request or limit, rounded up to the divisor.
func (t *translation) resourceRef(at string, c *corev1.Container, r *corev1.ResourceFieldSelector) (string, bool) {
	if r.ContainerName != "" && r.ContainerName != c.Name {
		all := slices.Concat(t.pod.Spec.InitContainers, t.pod.Spec.Containers)
		i := slices.IndexFunc(all, func(x corev1.Container) bool { return x.Name == r.ContainerName })
		if i < 0 {
			t.refuse(at+".containerName", "the pod has no container %q", r.ContainerName)
			return "", false
		}
		c = &all[i]
	}
	part, resourceName, _ := strings.Cut(r.Resource, ".")
	list := map[string]corev1.ResourceList{"limits": c.Resources.Limits, "requests": c.Resources.Requests}[part]
	q, ok := list[corev1.ResourceName(resourceName)]
	if !ok {
		t.refuse(at+".resource", "the container gives no %s; without a limit it would be the machine's, which is not known here", r.Resource)
		return "", false
	}
	d := r.Divisor
	if d.IsZero() {
		d = resource.MustParse("1")
	}
	value, divisor := q.Value(), d.Value()
	if resourceName == string(corev1.ResourceCPU) {
		value, divisor = q.MilliValue(), d.MilliValue()
	}
	if divisor <= 0 {
		t.refuse(at+".divisor", "%s is not above 0", d.String())
		return "", false
	}
	return strconv.FormatInt((value+divisor-1)/divisor, 10), true
}
