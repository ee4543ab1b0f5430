package pod

import (
	"crypto/sha256"
	"fmt"
	"net"
	"regexp"
	"slices"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"garboard.local/pod/manifest"
)

// Options are what a translation needs to know beside the manifest.
type Options struct {
	Target     Target
	Objects    []*manifest.Document // ConfigMaps and Secrets among them are found first
	ObjectsDir string               // then configmaps/NAMESPACE/NAME/KEY and secrets/... below this; "" = none
	ImagesDir  string               // IMAGE/rootfs and IMAGE/config.json below this; "" = programs are the host's
	ImagesRoot string               // where the machine's root directory is now, with ImagesDir in it; "" = here
	// ImagesLater means that images are still to be unpacked: what one would say is not missed.
	ImagesLater bool
	NodeName    string // "" = found out by the machine that runs the pod
	NodeIP      string // "" = unknown
	APIServer   string // host:port for KUBERNETES_SERVICE_HOST and _PORT; "" = none
	Node        Node   // that services of PID 1 are for
	// Images finds the container images of services of PID 1 by name. nil means that
	// there is no recipe to know them: what an image would say is not known then.
	Images func(name string) (*Image, error)
}

// Node is what programs for system calls depend on.
type Node struct {
	Arch   string // amd64 or arm64; "" = this machine's
	Kernel string // release; "" = newer than any that a profile names
}

// Limits and defaults where a manifest is silent; the first three are a Pod's.
const (
	defaultNamespace    = "default"
	defaultGraceSeconds = 30
	defaultMode         = 0o644
	defaultWaitSeconds  = 30
	maxGraceSeconds     = 3600
	minOOM, maxOOM      = -1000, 1000
	maxMilliCPU         = 256_000
)

// translation is the work on one pod.
type translation struct {
	*findings
	Options
	pod  *corev1.Pod
	plan *Plan
}

// Translate makes the plan of a Pod document. The findings say of every value
// of the manifest what happens to it; the error names all that are refused.
func Translate(d *manifest.Document, o Options) (*Plan, []Finding, error) {
	if d.Pod == nil {
		return nil, nil, d.Errorf(d.Line, "this document is no Pod")
	}
	t := &translation{findings: newFindings(d, o.Target), Options: o, pod: d.Pod}
	p := d.Pod
	t.plan = &Plan{Document: d, Target: t.Target, Namespace: p.Namespace, Name: p.Name, Labels: p.Labels, Annotations: p.Annotations, Grace: defaultGraceSeconds}
	if t.plan.Namespace == "" {
		t.plan.Namespace = defaultNamespace
	}
	switch {
	case p.Name == "" && p.GenerateName == "":
		t.refuse("metadata.name", "is missing")
	case !isName(p.Name) && p.Name != "":
		t.refuse("metadata.name", "%q is not a name: small letters, digits, - and ., 253 at most", p.Name)
	}
	if t.Target == Init && isName(p.Name) && !t.serviceNames() {
		t.refuse("metadata.name", "%q, with the container's name if there are several, is not the name of a service: small letters, digits and -, 63 at most", p.Name)
	}
	if !isLabel(t.plan.Namespace) {
		t.refuse("metadata.namespace", "%q is not a name: small letters, digits and -, 63 at most", p.Namespace)
	}
	if t.plan.UID = string(p.UID); t.plan.UID == "" {
		sum := sha256.Sum256([]byte(t.plan.Namespace + "/" + t.plan.Name))
		t.plan.UID = fmt.Sprintf("%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
	}
	t.validate()
	t.annotate()
	t.podFields()
	t.namespaces()
	t.names()
	t.volumes()
	t.services()
	return t.plan, t.found(), t.err()
}

// serviceNames says whether the pod's services of PID 1 have names that containers
// of the node pod can have.
func (t *translation) serviceNames() bool {
	names := t.containerNames()
	if len(names) == 1 {
		return isLabel(t.pod.Name)
	}
	for _, c := range names {
		if isLabel(c) && !isLabel(t.pod.Name+"-"+c) {
			return false
		}
	}
	return true
}

var (
	name  = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
)

func isName(s string) bool  { return len(s) <= 253 && name.MatchString(s) }
func isLabel(s string) bool { return len(s) <= 63 && label.MatchString(s) }

// only refuses a boolean that is not the value that can be had.
func (t *translation) only(path string, given *bool, want bool, format string, args ...any) {
	if given != nil && *given != want {
		t.refuse(path, format, args...)
	}
}

func (t *translation) podFields() {
	s := &t.pod.Spec
	if s.RestartPolicy == "" {
		s.RestartPolicy = corev1.RestartPolicyAlways
	}
	t.oneOf("spec.restartPolicy", string(s.RestartPolicy), "Always", "OnFailure", "Never")
	if g := s.TerminationGracePeriodSeconds; g != nil {
		if t.plan.Grace = *g; *g < 0 || *g > maxGraceSeconds {
			t.refuse("spec.terminationGracePeriodSeconds", "%d is not between 0 and %d", *g, maxGraceSeconds)
		}
	}
	if d := s.ActiveDeadlineSeconds; d != nil && t.Target == Systemd {
		switch {
		case *d < 1:
			t.refuse("spec.activeDeadlineSeconds", "%d is not above 0", *d)
		case s.RestartPolicy != corev1.RestartPolicyNever:
			t.refuse("spec.activeDeadlineSeconds", "with restartPolicy %s it is the time of all runs together, and systemd counts each", s.RestartPolicy)
		}
		t.plan.Deadline = *d
	}
	if s.OS != nil && s.OS.Name != corev1.Linux {
		t.refuse("spec.os.name", "%s: this is Linux", s.OS.Name)
	}
	t.only("spec.automountServiceAccountToken", s.AutomountServiceAccountToken, false, "nobody issues tokens here; set it to false, and mount a credential from a file")
	if auto := s.AutomountServiceAccountToken; auto == nil {
		for _, f := range t.doc.Fields {
			if f.Path == "spec.serviceAccountName" || f.Path == "spec.serviceAccount" {
				t.refuse(f.Path, "a pod of this account counts on a token, which nobody issues here; if it needs none, say automountServiceAccountToken: false, else give it a kubeconfig from a file")
			}
		}
	}
	t.only("spec.hostUsers", s.HostUsers, true, "a user namespace with ranges of its own cannot be had; set it to true or leave it out")
	t.only("spec.setHostnameAsFQDN", s.SetHostnameAsFQDN, false, "the kernel's hostname stays the host's; set spec.hostname")
	if r := s.Resources; r != nil {
		t.plan.Resources = t.resources("spec.resources", *r)
	}
}

func (t *translation) oneOf(path, v string, known ...string) {
	if !slices.Contains(known, v) {
		t.refuse(path, "%q is not one of %s", v, strings.Join(known, ", "))
	}
}

// namespaces is what of the host the pod shares.
func (t *translation) namespaces() {
	s := &t.pod.Spec
	p := t.plan
	p.HostNetwork, p.HostPID, p.HostIPC = s.HostNetwork, s.HostPID, s.HostIPC
	if t.Target == Systemd {
		t.only("spec.shareProcessNamespace", s.ShareProcessNamespace, false, "units are not in a PID namespace that they could share; containers see each other's pids with hostPID: true")
		return
	}
	p.HostNetwork, p.HostPID, p.HostIPC = true, true, true
	for _, f := range t.doc.Fields {
		switch f.Path {
		case "spec.hostNetwork", "spec.hostPID", "spec.hostIPC", "spec.shareProcessNamespace":
			if f.Value == "false" {
				t.refuse(f.Path, "a service of PID 1 shares the host's; set it to true or leave it out, or %s", asPod)
			}
		}
	}
}

// names is how the pod's processes find other machines, and call their own.
func (t *translation) names() {
	s := &t.pod.Spec
	config := s.DNSConfig
	switch s.DNSPolicy {
	case "", corev1.DNSDefault:
	case corev1.DNSClusterFirst:
		if !t.plan.HostNetwork {
			break // no network, no names
		}
	case corev1.DNSNone:
		if t.Target == Init {
			t.refuse("spec.dnsPolicy", "services share the node's /etc/resolv.conf; leave it out")
		} else if config == nil || len(config.Nameservers) == 0 {
			t.refuse("spec.dnsPolicy", "None needs dnsConfig.nameservers")
		} else {
			t.bindFile("resolv.conf", "/etc/resolv.conf", resolvConf(config))
		}
	default:
		t.refuse("spec.dnsPolicy", "%s: the address of a cluster's DNS is not known here; use None with dnsConfig.nameservers, or Default", s.DNSPolicy)
	}
	if config != nil && s.DNSPolicy != corev1.DNSNone && t.Target == Systemd {
		for _, f := range t.doc.Fields {
			if strings.HasPrefix(f.Path, "spec.dnsConfig") {
				t.refuse(f.Path, "is merged with the node's by a kubelet; here dnsPolicy must be None")
			}
		}
	}
	if len(s.HostAliases) > 0 && t.Target == Systemd {
		t.hostAliases()
	}
}

func resolvConf(c *corev1.PodDNSConfig) []byte {
	var b strings.Builder
	for _, n := range c.Nameservers {
		fmt.Fprintf(&b, "nameserver %s\n", n)
	}
	if len(c.Searches) > 0 {
		fmt.Fprintf(&b, "search %s\n", strings.Join(c.Searches, " "))
	}
	var options []string
	for _, o := range c.Options {
		if o.Value != nil {
			o.Name += ":" + *o.Value
		}
		options = append(options, o.Name)
	}
	if len(options) > 0 {
		fmt.Fprintf(&b, "options %s\n", strings.Join(options, " "))
	}
	return []byte(b.String())
}

func (t *translation) hostAliases() {
	var b strings.Builder
	fmt.Fprintf(&b, "127.0.0.1 localhost\n::1 localhost\n")
	for i, a := range t.pod.Spec.HostAliases {
		at := fmt.Sprintf("spec.hostAliases[%d].ip", i)
		switch {
		case t.plan.HostNetwork:
			t.refuse(at, "with the host's network a pod has the host's /etc/hosts; change that")
		case net.ParseIP(a.IP) == nil:
			t.refuse(at, "%q is not an address", a.IP)
		}
		fmt.Fprintf(&b, "%s %s\n", a.IP, strings.Join(a.Hostnames, " "))
	}
	t.bindFile("hosts", "/etc/hosts", []byte(b.String()))
}

// bindFile writes a file of the pod's that every container sees at target.
func (t *translation) bindFile(name, target string, content []byte) {
	f := File{Path: t.plan.DataDir() + "/" + name, Mode: defaultMode, Content: content}
	t.plan.Files = append(t.plan.Files, f)
	t.plan.Volumes = append(t.plan.Volumes, Volume{Name: ":" + name, Kind: Written, Source: f.Path, Dirs: []string{target}})
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}
