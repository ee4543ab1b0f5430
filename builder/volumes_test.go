package builder

import (
	"strings"
	"testing"

	"garboard.local/builder/recipe"
	"garboard.local/builder/rootfs"
	"garboard.local/init/table"
	"garboard.local/pod"
)

func TestAddVolumes(t *testing.T) {
	for _, tt := range []struct {
		name  string
		mount table.Mount
		kind  rootfs.Kind // of what is in the image then; "" = nothing new
		dir   string      // that PID 1 makes
		err   string
	}{
		{"new directory", table.Mount{Target: "/new/deep"}, rootfs.Dir, "", ""},
		{"new file", table.Mount{Target: "/etc/new", File: true}, rootfs.File, "", ""},
		{"directory that is there", table.Mount{Target: "/etc"}, rootfs.Dir, "", ""},
		{"file that is there", table.Mount{Target: "/etc/passwd", File: true}, rootfs.File, "", ""},
		{"through a link", table.Mount{Target: "/link"}, rootfs.Symlink, "", ""},
		{"directory over a file", table.Mount{Target: "/etc/passwd"}, "", "", "one is a directory"},
		{"file over a directory", table.Mount{Target: "/etc", File: true}, "", "", "one is a directory"},
		{"where the node can be written to", table.Mount{Target: "/run/agent"}, "", "/run/agent", ""},
		{"where the recipe has it", table.Mount{Target: "/var/lib/have"}, "", "", ""},
		{"file where the node can be written to", table.Mount{Target: "/var/lib/agent/f", File: true}, "", "", "mount its directory"},
		{"a file's own path", table.Mount{Target: "/etc/passwd/x"}, "", "", "/etc/passwd"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := &build{tree: rootfs.New(), recipe: &recipe.Recipe{Name: "n", Dirs: []recipe.Dir{{Path: "/var/lib/have"}}}}
			for _, e := range []rootfs.Entry{
				{Path: "/etc", Kind: rootfs.Dir, Mode: 0o755, Origin: "builder", Reason: "r"},
				rootfs.FromBytes("/etc/passwd", 0o644, []byte("x"), "overlay", "r"),
				{Path: "/link", Kind: rootfs.Symlink, Mode: 0o777, Link: "etc", Origin: "recipe", Reason: "r"},
			} {
				if err := b.tree.Add(e); err != nil {
					t.Fatal(err)
				}
			}
			before, group := len(b.tree.Entries()), int64(4000)
			err := b.addVolumes(&pod.Compiled{
				Services: []table.Service{{Name: "s", Mounts: []table.Mount{tt.mount}}},
				Files:    []pod.File{{Path: pod.RootDir + "/a_b/volumes/c/k", Mode: 0o640, Content: []byte("v"), Group: &group}},
			})
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if e := b.tree.Get(pod.RootDir + "/a_b/volumes/c/k"); e == nil || e.Mode != 0o640 || e.GID != 4000 || content(t, e) != "v" {
				t.Errorf("the file of a volume: %+v", e)
			}
			e := b.tree.Get(tt.mount.Target)
			if tt.kind == "" && e != nil || tt.kind != "" && (e == nil || e.Kind != tt.kind) {
				t.Errorf("%s in the image: %+v, want %q (%d entries before)", tt.mount.Target, e, tt.kind, before)
			}
			last := b.recipe.Dirs[len(b.recipe.Dirs)-1].Path
			if tt.dir == "" {
				tt.dir = "/var/lib/have"
			}
			if last != tt.dir {
				t.Errorf("PID 1 makes %s, want %s", last, tt.dir)
			}
		})
	}
}
