package pod

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"garboard.local/pod/seccomp"
)

// seccomp is which system calls a container's process may make.
func (t *translation) seccomp(at string, pod *corev1.PodSecurityContext, own *corev1.SecurityContext, s *Service) {
	given, where := pod.SeccompProfile, "spec.securityContext.seccompProfile"
	if own.SeccompProfile != nil {
		given, where = own.SeccompProfile, at+".seccompProfile"
	}
	if given == nil || t.refused(where) {
		return // refused for another container
	}
	if given.Type != corev1.SeccompProfileTypeLocalhost && given.LocalhostProfile != nil {
		t.refuse(where+".localhostProfile", "goes with type Localhost, not with %s", given.Type)
		return
	}
	switch given.Type {
	case corev1.SeccompProfileTypeUnconfined:
	case corev1.SeccompProfileTypeRuntimeDefault:
		if s.Seccomp = !s.Privileged; s.Seccomp && t.Target == Init {
			p, _, err := seccomp.Default()
			t.filter(where+".type", p, err, s)
		}
	case corev1.SeccompProfileTypeLocalhost:
		switch {
		case t.Target == Systemd:
			t.refuse(where+".type", "%s: a profile in JSON cannot be a SystemCallFilter=; use RuntimeDefault", given.Type)
		case given.LocalhostProfile == nil || *given.LocalhostProfile == "":
			t.refuse(where+".type", "Localhost needs localhostProfile, a file beside the manifest")
		default: // checked for a privileged container too, which has no filter
			p, err := t.profile(*given.LocalhostProfile)
			t.filter(where+".localhostProfile", p, err, s)
		}
	default:
		t.refuse(where+".type", "%q is not one of RuntimeDefault, Localhost, Unconfined", given.Type)
	}
}

// filter compiles a profile for the container's node and capabilities. It has to
// do for the other architectures too, as the manifest has to.
func (t *translation) filter(field string, p *seccomp.Profile, err error, s *Service) {
	own := t.Node.Arch
	if own == "" {
		own = runtime.GOARCH
	}
	for _, arch := range append(seccomp.Arches(), own) {
		if err == nil {
			s.Filter, err = p.Filter(seccomp.Target{Arch: arch, Caps: s.Caps, Kernel: t.Node.Kernel})
		}
	}
	if err != nil {
		t.refuse(field, "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	if s.Privileged || err != nil {
		s.Filter = nil // as under a container runtime
	}
}

// profile reads a file beside the manifest.
func (t *translation) profile(name string) (*seccomp.Profile, error) {
	if !filepath.IsLocal(name) {
		return nil, fmt.Errorf("%q is not a path below the manifest's directory", name)
	}
	file := filepath.Join(filepath.Dir(t.doc.File), name)
	b, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("there is no %s; a profile lies beside its manifest", file)
	}
	if err != nil {
		return nil, err
	}
	p, err := seccomp.Parse(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if unknown := p.Unknown(); len(unknown) > 0 {
		return nil, fmt.Errorf("%s: %s", file, strings.Join(unknown, "; "))
	}
	return p, nil
}
