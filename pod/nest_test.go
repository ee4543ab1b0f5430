package pod

import (
	"fmt"
	"strings"
	"testing"
)

// PID 1 makes the place for a volume in another, which has to be there in one that is
// made with the image.
func TestVolumesInEachOther(t *testing.T) {
	const volumes = "  volumes: [{name: h, hostPath: {path: /h}}, {name: e, emptyDir: {}}, {name: m, emptyDir: {medium: Memory}}, {name: d, downwardAPI: {items: [{path: x/y, fieldRef: {fieldPath: metadata.name}}]}}, {name: file, hostPath: {path: /dev/null, type: CharDevice}}]"
	for _, tt := range []struct{ name, mounts, dirs, err string }{
		{"deep in one", "{name: h, mountPath: /a/b/c}, {name: e, mountPath: /a}", "[[/var/lib/garboard/pods/ns_p/e/b/c] []]", ""},
		{"in a part of one", "{name: m, mountPath: /a, subPath: s}, {name: e, mountPath: /a/b}", "[[] [/run/garboard/pods/ns_p/m/s /run/garboard/pods/ns_p/m/s/b]]", ""},
		{"one in the other in one", "{name: m, mountPath: /a/b/c}, {name: h, mountPath: /a/b}, {name: e, mountPath: /a}", "[[/var/lib/garboard/pods/ns_p/e/b] []]", ""},
		{"beside", "{name: m, mountPath: /ab}, {name: e, mountPath: /a}", "[[] []]", ""},
		{"in files", "{name: e, mountPath: /a/x}, {name: d, mountPath: /a}", "[[] []]", ""},
		{"in files that are not there", "{name: e, mountPath: /a/z}, {name: d, mountPath: /a}", "", "volume d, mounted at /a, has no z to mount over"},
		{"a file", "{name: file, mountPath: /a/null}, {name: e, mountPath: /a}", "", "at /a/null a file is mounted in volume e"},
	} {
		for _, image := range []string{rootImage, ""} {
			p, err := translate(t, podOf(volumes, image+"    volumeMounts: ["+tt.mounts+"]\n"), Options{Target: Init, Images: inRecipe(`{}`, nil)})
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("%s: error %v, want %q", tt.name, err, tt.err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s: %v", tt.name, err)
				continue
			}
			var dirs [][]string
			for _, v := range p.volumes() {
				dirs = append(dirs, v.Dirs)
			}
			if got := fmt.Sprint(dirs); got != tt.dirs {
				t.Errorf("%s: %s, want %s", tt.name, got, tt.dirs)
			}
		}
	}
}
