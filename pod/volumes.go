package pod

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"garboard.local/init/table"
)

// volumes finds out where the files of each volume are on the host.
func (t *translation) volumes() {
	for i := range t.pod.Spec.Volumes {
		v := &t.pod.Spec.Volumes[i]
		at := fmt.Sprintf("spec.volumes[%d]", i)
		if !isLabel(v.Name) {
			t.refuse(at+".name", "%q is not a name: small letters, digits and -, 63 at most", v.Name)
		}
		if t.volumeOf(v.Name) != nil {
			t.refuse(at+".name", "another volume is called %q too", v.Name)
		}
		out := Volume{Name: v.Name, Source: "/dev/null"}
		if sc := t.pod.Spec.SecurityContext; sc != nil {
			out.Group = sc.FSGroup
		}
		switch {
		case v.HostPath != nil:
			t.hostPath(at+".hostPath", v.HostPath, &out)
		case t.refused(at):
		case v.EmptyDir != nil:
			t.emptyDir(at+".emptyDir", v.EmptyDir, &out)
		default:
			out.Kind, out.Source = Written, path.Join(t.plan.DataDir(), "volumes", v.Name)
			t.written(at, v, out.Source)
		}
		t.plan.Volumes = append(t.plan.Volumes, out)
	}
}

func (t *translation) volumeOf(name string) *Volume {
	i := slices.IndexFunc(t.plan.Volumes, func(v Volume) bool { return v.Name == name })
	if i < 0 {
		return nil
	}
	return &t.plan.Volumes[i]
}

func (t *translation) hostPath(at string, h *corev1.HostPathVolumeSource, out *Volume) {
	out.Kind, out.Source, out.Group = HostPath, path.Clean(h.Path), nil
	if !path.IsAbs(h.Path) || slices.Contains(strings.Split(h.Path, "/"), "..") {
		t.refuse(at+".path", "%q is not an absolute path without ..", h.Path)
	}
	t.plainPath(at+".path", h.Path)
	if h.Type != nil {
		out.Type = string(*h.Type)
		t.oneOf(at+".type", out.Type, "", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket", "CharDevice", "BlockDevice")
		if t.Target == Init && strings.HasSuffix(out.Type, "OrCreate") {
			t.refuse(at+".type", "%s: the recipe makes what services need (dirs)", out.Type)
		}
	}
}

func (t *translation) emptyDir(at string, e *corev1.EmptyDirVolumeSource, out *Volume) {
	switch e.Medium {
	case corev1.StorageMediumDefault:
		out.Kind, out.Source = EmptyDir, path.Join(StateDir, t.plan.ID(), out.Name)
		if e.SizeLimit != nil {
			t.refuse(at+".sizeLimit", "nothing would hold it on a disk; use medium: Memory, or leave it out")
		}
	case corev1.StorageMediumMemory:
		out.Kind, out.Source = Tmpfs, path.Join(RunDir, t.plan.ID(), out.Name)
		if e.SizeLimit != nil {
			if out.Size = e.SizeLimit.Value(); out.Size < 0 {
				t.refuse(at+".sizeLimit", "%s is negative", e.SizeLimit.String())
			}
		}
	default:
		t.refuse(at+".medium", "%s: disk (nothing) and Memory can be had", e.Medium)
	}
}

// written is a volume whose files are made when the pod is converted.
func (t *translation) written(at string, v *corev1.Volume, dir string) {
	switch {
	case v.ConfigMap != nil:
		t.keys(at+".configMap", dir, configMaps, v.ConfigMap.Name, v.ConfigMap.Items, v.ConfigMap.DefaultMode, v.ConfigMap.Optional)
	case v.Secret != nil:
		t.keys(at+".secret", dir, secrets, v.Secret.SecretName, v.Secret.Items, v.Secret.DefaultMode, v.Secret.Optional)
	case v.DownwardAPI != nil:
		t.downward(at+".downwardAPI", dir, v.DownwardAPI.Items, v.DownwardAPI.DefaultMode)
	case v.Projected != nil:
		for i, s := range v.Projected.Sources {
			at := fmt.Sprintf("%s.projected.sources[%d]", at, i)
			switch {
			case s.ConfigMap != nil:
				t.keys(at+".configMap", dir, configMaps, s.ConfigMap.Name, s.ConfigMap.Items, v.Projected.DefaultMode, s.ConfigMap.Optional)
			case s.Secret != nil:
				t.keys(at+".secret", dir, secrets, s.Secret.Name, s.Secret.Items, v.Projected.DefaultMode, s.Secret.Optional)
			case s.DownwardAPI != nil:
				t.downward(at+".downwardAPI", dir, s.DownwardAPI.Items, v.Projected.DefaultMode)
			case !t.refused(at):
				t.refuse(at, "no source is given")
			}
		}
	default:
		t.refuse(at, "the volume has no source; emptyDir: {} makes a directory")
	}
}

func (t *translation) keys(at, dir string, k kindOfObject, name string, items []corev1.KeyToPath, mode *int32, optional *bool) {
	nameField := at + ".name"
	if strings.HasSuffix(at, ".secret") && !strings.Contains(at, "projected") {
		nameField = at + ".secretName"
	}
	o, ok := t.object(nameField, k, name, optional)
	if !ok {
		return
	}
	if len(items) == 0 {
		for _, key := range sortedKeys(o.data) {
			items = append(items, corev1.KeyToPath{Key: key, Path: key})
		}
	}
	for i, item := range items {
		content, ok := o.data[item.Key]
		at := fmt.Sprintf("%s.items[%d]", at, i)
		switch {
		case !ok && (optional == nil || !*optional):
			t.refuse(at+".key", "%s %s has no key %q", k.kind, name, item.Key)
		case ok:
			t.file(at, dir, item.Path, item.Mode, mode, content, k == secrets)
		}
	}
}

func (t *translation) downward(at, dir string, items []corev1.DownwardAPIVolumeFile, mode *int32) {
	for i, item := range items {
		at := fmt.Sprintf("%s.items[%d]", at, i)
		var v string
		var ok bool
		switch {
		case item.FieldRef != nil:
			v, ok = t.fieldRef(at+".fieldRef.fieldPath", item.FieldRef, false)
		case item.ResourceFieldRef != nil && item.ResourceFieldRef.ContainerName != "":
			v, ok = t.resourceRef(at+".resourceFieldRef", &corev1.Container{}, item.ResourceFieldRef)
		default:
			t.refuse(at, "neither fieldRef nor resourceFieldRef with a containerName is given")
		}
		if ok {
			t.file(at, dir, item.Path, item.Mode, mode, []byte(v), false)
		}
	}
}

func (t *translation) file(at, dir, name string, own, general *int32, content []byte, secret bool) {
	if name == "" || path.IsAbs(name) || slices.Contains(strings.Split(name, "/"), "..") {
		t.refuse(at+".path", "%q is not a path inside the volume", name)
		return
	}
	t.plainPath(at+".path", name)
	f := File{Path: path.Join(dir, name), Mode: defaultMode, Content: content, Secret: secret}
	for _, m := range []*int32{general, own} {
		if m == nil {
			continue
		}
		if *m < 0 || *m > 0o777 {
			t.refuse(at+".mode", "%#o is not a file mode", *m)
			continue
		}
		f.Mode = uint32(*m)
	}
	if sc := t.pod.Spec.SecurityContext; sc != nil && sc.FSGroup != nil {
		f.Group = sc.FSGroup
		f.Mode |= f.Mode >> 3 & 0o040 // the group reads what the owner reads
	}
	i := slices.IndexFunc(t.plan.Files, func(x File) bool { return x.Path == f.Path })
	if i >= 0 {
		t.plan.Files[i] = f // of two sources the later one wins
		return
	}
	t.plan.Files = append(t.plan.Files, f)
}

// isFile says whether a volume's source is something else than a directory, as far
// as that is known before there is a host.
func (t *translation) isFile(v *Volume, source string) bool {
	switch v.Kind {
	case Written:
		return slices.ContainsFunc(t.plan.Files, func(f File) bool { return f.Path == source })
	case HostPath:
		return source == v.Source && v.Type != "" && !strings.HasPrefix(v.Type, "Directory")
	}
	return false
}

// mounts are the volumes of a container.
func (t *translation) mounts(at string, c *corev1.Container, s *Service) {
	vars := map[string]string{}
	for _, e := range s.Env {
		vars[e.Name] = e.Value
	}
	of := map[string]*Volume{} // by target
	for i, m := range c.VolumeMounts {
		at := fmt.Sprintf("%s.volumeMounts[%d]", at, i)
		v := t.volumeOf(m.Name)
		if v == nil {
			t.refuse(at+".name", "the pod has no volume %q", m.Name)
			continue
		}
		target := path.Clean(m.MountPath)
		if !path.IsAbs(m.MountPath) || slices.Contains(strings.Split(m.MountPath, "/"), "..") || target == "/" {
			t.refuse(at+".mountPath", "%q is not an absolute path below / and without ..", m.MountPath)
		}
		t.plainPath(at+".mountPath", m.MountPath)
		if slices.ContainsFunc(s.Mounts, func(x Mount) bool { return x.Target == target }) {
			t.refuse(at+".mountPath", "another volume is mounted at %s too", target)
		}
		if t.Target == Init && s.Root == "" && v.Kind == HostPath && target == v.Source && !m.ReadOnly && m.SubPath == "" && m.SubPathExpr == "" {
			continue // it is there
		}
		if t.Target == Systemd && m.MountPropagation != nil && *m.MountPropagation == corev1.MountPropagationBidirectional {
			t.refuse(at+".mountPropagation", "Bidirectional: what is mounted in a unit's namespace does not reach the host; %s", asPod)
		}
		sub := m.SubPath
		if m.SubPathExpr != "" {
			if sub = expand(m.SubPathExpr, vars); m.SubPath != "" {
				t.refuse(at+".subPathExpr", "subPath is given as well; leave one of them out")
			}
			if strings.Contains(sub, "$(") || strings.Contains(sub, NodeName) {
				t.refuse(at+".subPathExpr", "%q refers to a variable that is not known when the pod is converted", m.SubPathExpr)
			}
		}
		source := v.Source
		if sub != "" {
			if path.IsAbs(sub) || slices.Contains(strings.Split(sub, "/"), "..") {
				t.refuse(at+".subPath", "%q is not a path inside the volume", sub)
			}
			t.plainPath(at+".subPath", sub)
			sub = path.Clean(sub)
			if source = path.Join(v.Source, sub); (v.Kind == EmptyDir || v.Kind == Tmpfs) && !slices.Contains(v.Dirs, source) {
				v.Dirs = append(v.Dirs, source)
			}
		}
		if sub == "." {
			sub = ""
		}
		if t.Target == Init && s.Root != "" {
			for _, own := range []string{"/proc", table.EtcTarget} {
				if target == own || strings.HasPrefix(target, own+"/") {
					t.refuse(at+".mountPath", "%s: what a service with an image has in %s is the node's; mount the volume elsewhere", m.MountPath, own)
				}
			}
		}
		// As in a container: what arrived would be writable in a volume that is not.
		private := t.Target == Init && s.Root != "" && (m.MountPropagation == nil || *m.MountPropagation == corev1.MountPropagationNone)
		of[target] = v
		s.Mounts = append(s.Mounts, Mount{Source: source, Sub: sub, Target: target, ReadOnly: m.ReadOnly || v.Kind == Written, File: t.isFile(v, source), Private: private})
	}
	if t.Target == Init {
		t.nest(at, s, of)
	}
	for i, m := range c.VolumeMounts {
		if t.Target == Init && (s.Root != "" || len(s.Mounts) > 0) && m.MountPropagation != nil && *m.MountPropagation == corev1.MountPropagationBidirectional {
			t.refuse(fmt.Sprintf("%s.volumeMounts[%d].mountPropagation", at, i),
				"Bidirectional: with an image or other volumes the service has a mount namespace of its own; mount those at their own paths, or none")
		}
	}
	for _, v := range t.plan.Volumes {
		if strings.HasPrefix(v.Name, ":") && !slices.ContainsFunc(s.Mounts, func(m Mount) bool { return m.Target == v.Dirs[0] }) {
			s.Mounts = append(s.Mounts, Mount{Source: v.Source, Target: v.Dirs[0], ReadOnly: true})
		}
	}
}
