package table

import (
	"strings"
	"testing"
)

func TestRootCheck(t *testing.T) {
	good := func() *Root {
		return &Root{Image: "i", Path: MemoryVolumeDir + "/a/.roots/b", Layers: []string{"/a", "/b"}, Writes: VolumeDir + "/a/.roots/b"}
	}
	for _, tt := range []struct {
		name   string
		change func(*Root)
		want   string // "" = it is right
	}{
		{"as it should be", func(*Root) {}, ""},
		{"read-only", func(r *Root) { r.Writes = "" }, ""},
		{"not resolved yet", func(r *Root) { r.Layers = nil }, ""},
		{"elsewhere", func(r *Root) { r.Path = "/mnt" }, "/mnt"},
		{"outside", func(r *Root) { r.Path = MemoryVolumeDir + "/../x" }, "is not below"},
		{"writes elsewhere", func(r *Root) { r.Writes = "/etc" }, "/etc"},
		{"one layer", func(r *Root) { r.Layers = r.Layers[:1] }, "one layer"},
		{"an option more", func(r *Root) { r.Layers[1] = "/b,upperdir=/etc" }, "layer"},
		{"a layer more", func(r *Root) { r.Layers[1] = "/b:/c" }, "layer"},
		{"relative", func(r *Root) { r.Layers[1] = "b" }, "layer"},
		{"too many", func(r *Root) {
			for range 100 {
				r.Layers = append(r.Layers, "/usr/lib/garboard/images/overlay/l/ABCDEFGHIJKLMNOPQRSTUVWXYZ")
			}
		}, "more than one mount takes"},
	} {
		r := good()
		tt.change(r)
		table := Table{Version: 1, Services: []Service{{Name: "s", Command: []string{"/c"}, Restart: RestartAlways, Root: r}}}
		err := table.Check()
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		if err := table.Resolved(); (err == nil) != (len(r.Layers) > 0) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestMountSubCheck(t *testing.T) {
	for sub, ok := range map[string]bool{"": true, "a/b": true, "../a": false, "/a": false, "a/..": false, "a/": false} {
		table := Table{Version: 1, Services: []Service{{Name: "s", Command: []string{"/c"}, Restart: RestartAlways, Mounts: []Mount{{Source: "/a", Sub: sub, Target: "/b"}}}}}
		if err := table.Check(); (err == nil) != ok {
			t.Errorf("%q: %v", sub, err)
		}
	}
}
