package pod

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Limits of a pod's DNS settings.
const (
	maxNameservers = 3
	maxSearches    = 32
	maxSearchChars = 2048
	maxSeconds     = 1<<31 - 1
)

func (t *translation) validateSpec() {
	s := &t.pod.Spec
	subdomain := validation.IsDNS1123Subdomain
	t.given("spec.serviceAccountName", s.ServiceAccountName, subdomain)
	t.given("spec.nodeName", s.NodeName, subdomain)
	t.given("spec.schedulerName", s.SchedulerName, subdomain)
	t.given("spec.priorityClassName", s.PriorityClassName, subdomain)
	t.given("spec.hostname", s.Hostname, validation.IsDNS1123Label)
	t.given("spec.subdomain", s.Subdomain, validation.IsDNS1123Label)
	for i, r := range s.ImagePullSecrets {
		t.syntax(fmt.Sprintf("spec.imagePullSecrets[%d].name", i), r.Name, subdomain(r.Name))
	}
	if h := s.HostnameOverride; h != nil {
		t.syntax("spec.hostnameOverride", *h, subdomain(*h))
		if len(*h) > 64 {
			t.refuse("spec.hostnameOverride", "is longer than the 64 characters of a kernel's hostname")
		}
		if s.HostNetwork {
			t.refuse("spec.hostnameOverride", "cannot go with hostNetwork: true, with which the pod has the machine's name")
		}
	}
	if d := s.ActiveDeadlineSeconds; d != nil && (*d < 1 || *d > maxSeconds) {
		t.refuse("spec.activeDeadlineSeconds", "%d is not between 1 and %d", *d, maxSeconds)
	}
	if s.HostPID && s.ShareProcessNamespace != nil && *s.ShareProcessNamespace {
		t.refuse("spec.shareProcessNamespace", "cannot go with hostPID: true; leave one of them out")
	}
	if p := s.PreemptionPolicy; p != nil {
		t.oneOf("spec.preemptionPolicy", string(*p), "PreemptLowerPriority", "Never")
	}
	for _, k := range sortedKeys(s.NodeSelector) {
		at := "spec.nodeSelector." + k
		t.syntax(at, k, validation.IsQualifiedName(k))
		t.syntax(at, s.NodeSelector[k], validation.IsValidLabelValue(s.NodeSelector[k]))
	}
	for i := range s.Tolerations {
		t.validateToleration(fmt.Sprintf("spec.tolerations[%d]", i), &s.Tolerations[i])
	}
	for i, a := range s.HostAliases {
		at := fmt.Sprintf("spec.hostAliases[%d]", i)
		t.address(at+".ip", a.IP)
		for j, h := range a.Hostnames {
			t.syntax(fmt.Sprintf("%s.hostnames[%d]", at, j), h, subdomain(h))
		}
	}
	t.validateDNS()
	if sc := s.SecurityContext; sc != nil {
		t.validatePodSecurity(sc)
	}
}

func (t *translation) address(at, ip string) {
	if a, err := netip.ParseAddr(ip); err != nil || a.Zone() != "" {
		t.refuse(at, "%q is not an address, such as 10.9.8.7 or 2001:db8::ffff", ip)
	}
}

func (t *translation) validateToleration(at string, x *corev1.Toleration) {
	t.given(at+".key", x.Key, validation.IsQualifiedName)
	t.oneOf(at+".operator", string(x.Operator), "", "Equal", "Exists", "Lt", "Gt")
	t.oneOf(at+".effect", string(x.Effect), "", "NoSchedule", "PreferNoSchedule", "NoExecute")
	switch {
	case x.Key == "" && x.Operator != corev1.TolerationOpExists:
		t.refuse(at+".operator", "must be Exists when key is empty, which means every taint")
	case x.Operator == corev1.TolerationOpExists && x.Value != "":
		t.refuse(at+".value", "must be empty when operator is Exists")
	default:
		t.given(at+".value", x.Value, validation.IsValidLabelValue)
	}
	if x.TolerationSeconds != nil && x.Effect != corev1.TaintEffectNoExecute {
		t.refuse(at+".effect", "must be NoExecute when tolerationSeconds is given")
	}
}

func (t *translation) validateDNS() {
	s := &t.pod.Spec
	t.oneOf("spec.dnsPolicy", string(s.DNSPolicy), "", "ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
	c := s.DNSConfig
	if c == nil {
		return
	}
	if len(c.Nameservers) > maxNameservers {
		t.refuse("spec.dnsConfig.nameservers", "%d; %d is what a resolver takes", len(c.Nameservers), maxNameservers)
	}
	if n := len(strings.Join(c.Searches, " ")); len(c.Searches) > maxSearches || n > maxSearchChars {
		t.refuse("spec.dnsConfig.searches", "%d of %d characters; %d of %d together is what a pod may have", len(c.Searches), n, maxSearches, maxSearchChars)
	}
	for _, n := range c.Nameservers {
		t.address("spec.dnsConfig.nameservers", n)
	}
	for _, d := range c.Searches {
		if d != "." {
			t.syntax("spec.dnsConfig.searches", d, validation.IsDNS1123SubdomainWithUnderscore(strings.TrimSuffix(d, ".")))
		}
	}
	for i, o := range c.Options {
		if at := fmt.Sprintf("spec.dnsConfig.options[%d]", i); o.Name == "" {
			t.refuse(at+".name", "is missing")
		}
	}
}

func (t *translation) validatePodSecurity(sc *corev1.PodSecurityContext) {
	const at = "spec.securityContext"
	for _, id := range []struct {
		name  string
		v     *int64
		check func(int64) []string
	}{{"runAsUser", sc.RunAsUser, validation.IsValidUserID}, {"runAsGroup", sc.RunAsGroup, validation.IsValidGroupID}, {"fsGroup", sc.FSGroup, validation.IsValidGroupID}} {
		if id.v != nil {
			t.syntax(at+"."+id.name, fmt.Sprint(*id.v), id.check(*id.v))
		}
	}
	for _, g := range sc.SupplementalGroups {
		t.syntax(at+".supplementalGroups", fmt.Sprint(g), validation.IsValidGroupID(g))
	}
	if p := sc.SupplementalGroupsPolicy; p != nil {
		t.oneOf(at+".supplementalGroupsPolicy", string(*p), "Merge", "Strict")
	}
	if p := sc.FSGroupChangePolicy; p != nil {
		t.oneOf(at+".fsGroupChangePolicy", string(*p), "OnRootMismatch", "Always")
	}
	if p := sc.SELinuxChangePolicy; p != nil {
		t.oneOf(at+".seLinuxChangePolicy", string(*p), "Recursive", "MountOption")
	}
	seen := map[string]bool{}
	for i, x := range sc.Sysctls {
		name := strings.ReplaceAll(x.Name, "/", ".")
		if at := fmt.Sprintf("%s.sysctls[%d].name", at, i); name == "" {
			t.refuse(at, "is missing")
		} else if seen[name] {
			t.refuse(at, "%s is given twice", x.Name)
		}
		seen[name] = true
	}
	t.seccompProfile(at+".seccompProfile", sc.SeccompProfile)
	t.appArmorProfile(at+".appArmorProfile", sc.AppArmorProfile)
}

func (t *translation) seccompProfile(at string, p *corev1.SeccompProfile) {
	if p != nil {
		t.profileType(at, string(p.Type), p.LocalhostProfile)
	}
}

func (t *translation) appArmorProfile(at string, p *corev1.AppArmorProfile) {
	if p != nil {
		t.profileType(at, string(p.Type), p.LocalhostProfile)
	}
}

// profileType checks either kind, whose types have the same names.
func (t *translation) profileType(at, kind string, local *string) {
	t.oneOf(at+".type", kind, "Localhost", "RuntimeDefault", "Unconfined")
	switch {
	case kind == "Localhost" && (local == nil || *local == ""):
		t.refuse(at+".localhostProfile", "is needed with type Localhost")
	case kind != "Localhost" && local != nil:
		t.refuse(at+".localhostProfile", "goes with type Localhost alone")
	case local != nil && strings.HasSuffix(at, "seccompProfile"):
		t.inside(at+".localhostProfile", *local)
	case local != nil && strings.TrimSpace(*local) != *local:
		t.refuse(at+".localhostProfile", "%q begins or ends with a space", *local)
	}
}
