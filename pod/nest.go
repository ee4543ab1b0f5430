package pod

import (
	"path"
	"slices"
	"strings"
)

// nest orders a container's mounts, as container runtimes do: one in the directory of
// another comes after that. Its place is in the other's volume; there PID 1 makes it as
// it does the volume's other directories, or it has to be there.
func (t *translation) nest(at string, s *Service, of map[string]*Volume) {
	slices.SortStableFunc(s.Mounts, func(a, b Mount) int { return strings.Count(a.Target, "/") - strings.Count(b.Target, "/") })
	for i, m := range s.Mounts {
		for _, outer := range slices.Backward(s.Mounts[:i]) {
			rel, ok := strings.CutPrefix(m.Target, outer.Target+"/")
			if !ok {
				continue
			}
			v, place := of[outer.Target], path.Join(outer.Source, rel)
			switch {
			case v.Kind == EmptyDir || v.Kind == Tmpfs:
				if m.File {
					t.refuse(at+".volumeMounts", "at %s a file is mounted in volume %s, in which there is no place for it; mount its directory", m.Target, v.Name)
				} else if !slices.Contains(v.Dirs, place) {
					v.Dirs = append(v.Dirs, place)
				}
			case v.Kind == Written && !slices.ContainsFunc(t.plan.Files, func(f File) bool { return f.Path == place || strings.HasPrefix(f.Path, place+"/") }):
				t.refuse(at+".volumeMounts", "volume %s, mounted at %s, has no %s to mount over; mount one of them elsewhere", v.Name, outer.Target, rel)
			}
			break
		}
	}
}
