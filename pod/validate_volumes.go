package pod

import (
	"fmt"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

func (t *translation) validateVolumes() {
	for i := range t.pod.Spec.Volumes {
		v := &t.pod.Spec.Volumes[i]
		at := fmt.Sprintf("spec.volumes[%d]", i)
		t.one(at, &v.VolumeSource, "a volume")
		switch {
		case v.HostPath != nil && v.HostPath.Path == "":
			t.refuse(at+".hostPath.path", "is missing")
		case v.EmptyDir != nil && v.EmptyDir.SizeLimit != nil && v.EmptyDir.SizeLimit.Sign() < 0:
			t.refuse(at+".emptyDir.sizeLimit", "%s is negative", v.EmptyDir.SizeLimit.String())
		}
		if c := v.ConfigMap; c != nil {
			t.mode(at+".configMap.defaultMode", c.DefaultMode)
			t.validateItems(at+".configMap", c.Items)
		}
		if s := v.Secret; s != nil {
			t.mode(at+".secret.defaultMode", s.DefaultMode)
			t.validateItems(at+".secret", s.Items)
		}
		if d := v.DownwardAPI; d != nil {
			t.mode(at+".downwardAPI.defaultMode", d.DefaultMode)
			t.validateDownward(at+".downwardAPI", d.Items, map[string]bool{})
		}
		if p := v.Projected; p != nil {
			t.validateProjected(at+".projected", p)
		}
	}
}

func (t *translation) validateProjected(at string, p *corev1.ProjectedVolumeSource) {
	t.mode(at+".defaultMode", p.DefaultMode)
	if len(p.Sources) == 0 {
		t.refuse(at+".sources", "is empty: nothing would be projected")
	}
	places := map[string]bool{}
	once := func(at string, items []corev1.KeyToPath) {
		for i, item := range items {
			t.place(fmt.Sprintf("%s.items[%d].path", at, i), item.Path, places)
		}
	}
	for i := range p.Sources {
		s := &p.Sources[i]
		at := fmt.Sprintf("%s.sources[%d]", at, i)
		t.one(at, s, "a source")
		if s.ConfigMap != nil {
			t.validateItems(at+".configMap", s.ConfigMap.Items)
			once(at+".configMap", s.ConfigMap.Items)
		}
		if s.Secret != nil {
			t.validateItems(at+".secret", s.Secret.Items)
			once(at+".secret", s.Secret.Items)
		}
		if s.DownwardAPI != nil {
			t.validateDownward(at+".downwardAPI", s.DownwardAPI.Items, places)
		}
	}
}

// place refuses a second file at a path of a volume.
func (t *translation) place(at, p string, places map[string]bool) {
	if p = path.Clean(p); places[p] {
		t.refuse(at, "another file of the volume is called %q too", p)
	}
	places[p] = true
}

func (t *translation) validateItems(at string, items []corev1.KeyToPath) {
	for i := range items {
		item, at := &items[i], fmt.Sprintf("%s.items[%d]", at, i)
		t.mode(at+".mode", item.Mode)
		if item.Key == "" {
			t.refuse(at+".key", "is missing")
		}
		t.filePath(at+".path", item.Path)
	}
}

// filePath is where a file of a volume is. Names that begin with .. are the kubelet's own.
func (t *translation) filePath(at, p string) {
	if t.inside(at, p); p == "" {
		t.refuse(at, "is missing")
	} else if strings.HasPrefix(p, "..") {
		t.refuse(at, "%q must not begin with '..'", p)
	}
}

func (t *translation) validateDownward(at string, items []corev1.DownwardAPIVolumeFile, places map[string]bool) {
	for i := range items {
		item, at := &items[i], fmt.Sprintf("%s.items[%d]", at, i)
		t.mode(at+".mode", item.Mode)
		t.filePath(at+".path", item.Path)
		t.place(at+".path", item.Path, places)
		t.one(at, item, "a file")
		if r := item.ResourceFieldRef; r != nil && r.ContainerName == "" {
			t.refuse(at+".resourceFieldRef.containerName", "is missing: a volume belongs to no container")
		}
		t.fieldSelector(at+".fieldRef", item.FieldRef)
	}
}

// fieldSelector checks the version and the key of a label or annotation.
func (t *translation) fieldSelector(at string, r *corev1.ObjectFieldSelector) {
	if r == nil {
		return
	}
	t.oneOf(at+".apiVersion", r.APIVersion, "", "v1")
	which, key, ok := strings.Cut(strings.TrimSuffix(r.FieldPath, "']"), "['")
	switch {
	case r.FieldPath == "":
		t.refuse(at+".fieldPath", "is missing")
	case ok && which == "metadata.annotations":
		t.syntax(at+".fieldPath", key, validation.IsQualifiedName(strings.ToLower(key)))
	case ok:
		t.syntax(at+".fieldPath", key, validation.IsQualifiedName(key))
	}
}

func (t *translation) validateMounts(at string, c *corev1.Container, privileged bool) {
	for i := range c.VolumeMounts {
		m, at := &c.VolumeMounts[i], fmt.Sprintf("%s.volumeMounts[%d]", at, i)
		if m.Name == "" {
			t.refuse(at+".name", "is missing")
		}
		if m.MountPath == "" {
			t.refuse(at+".mountPath", "is missing")
		}
		if m.SubPath != "" {
			t.inside(at+".subPath", m.SubPath)
		}
		if m.SubPathExpr != "" {
			t.inside(at+".subPathExpr", m.SubPathExpr)
		}
		propagation := corev1.MountPropagationNone
		if p := m.MountPropagation; p != nil {
			propagation = *p
			t.oneOf(at+".mountPropagation", string(*p), "None", "HostToContainer", "Bidirectional")
			if *p == corev1.MountPropagationBidirectional && !privileged {
				t.refuse(at+".mountPropagation", "Bidirectional is for privileged containers; say securityContext.privileged: true")
			}
		}
		if r := m.RecursiveReadOnly; r != nil {
			t.oneOf(at+".recursiveReadOnly", string(*r), "Disabled", "IfPossible", "Enabled")
			switch {
			case *r == corev1.RecursiveReadOnlyDisabled:
			case !m.ReadOnly:
				t.refuse(at+".recursiveReadOnly", "%s goes with readOnly: true", *r)
			case propagation != corev1.MountPropagationNone:
				t.refuse(at+".recursiveReadOnly", "%s goes with mountPropagation None", *r)
			}
		}
	}
}
