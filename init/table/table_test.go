package table

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func good() Table {
	return Table{Version: 1, Services: []Service{
		{Name: "crio", Role: RoleRuntime, Command: []string{"/usr/bin/crio"}, Restart: RestartAlways},
		{Name: "kubelet", Role: RoleKubelet, Command: []string{"/usr/bin/kubelet"}, Restart: RestartAlways, After: []string{"crio"}},
	}}
}

func TestMountsAndVolumes(t *testing.T) {
	for _, tt := range []struct {
		name   string
		mount  Mount
		volume Volume
		want   string // part of the error; "" = none
	}{
		{"good", Mount{Source: "/a", Target: "/b"}, Volume{Path: VolumeDir + "/x_y/v", Dirs: []string{VolumeDir + "/x_y/v/d"}}, ""},
		{"good, in memory", Mount{Source: "/a", Target: "/b", File: true}, Volume{Path: MemoryVolumeDir + "/v", Memory: true, Size: 5}, ""},
		{"relative source", Mount{Source: "a", Target: "/b"}, Volume{Path: VolumeDir + "/v"}, `"a" is not`},
		{"target with dots", Mount{Source: "/a", Target: "/b/../c"}, Volume{Path: VolumeDir + "/v"}, `"/b/../c" is not`},
		{"over the root", Mount{Source: "/a", Target: "/"}, Volume{Path: VolumeDir + "/v"}, "nothing is mounted over /"},
		{"elsewhere", Mount{Source: "/a", Target: "/b"}, Volume{Path: "/var/lib/kubelet"}, "is not below"},
		{"the directory itself", Mount{Source: "/a", Target: "/b"}, Volume{Path: VolumeDir}, "is not below"},
		{"out of it", Mount{Source: "/a", Target: "/b"}, Volume{Path: VolumeDir + "/../x"}, "is not below"},
		{"the other's place", Mount{Source: "/a", Target: "/b"}, Volume{Path: VolumeDir + "/v", Memory: true}, "is not below"},
		{"directory elsewhere", Mount{Source: "/a", Target: "/b"}, Volume{Path: VolumeDir + "/v", Dirs: []string{"/etc"}}, "is not in it"},
		{"size on a disk", Mount{Source: "/a", Target: "/b"}, Volume{Path: VolumeDir + "/v", Size: 1}, "sizes are of volumes in memory"},
	} {
		tab := Table{Version: 1, Volumes: []Volume{tt.volume}, Services: []Service{{Name: "s", Command: []string{"/s"}, Restart: RestartNever, Mounts: []Mount{tt.mount}}}}
		err := tab.Check()
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*Table)
		want  string
	}{
		{"as it should be", func(*Table) {}, ""},
		{"another version", func(t *Table) { t.Version = 2 }, "version 2"},
		{"no name", func(t *Table) { t.Services[0].Name = "" }, "no name"},
		{"one name twice", func(t *Table) { t.Services[1].Name = "crio" }, "two services"},
		{"no command", func(t *Table) { t.Services[0].Command = nil }, "absolute path"},
		{"relative command", func(t *Table) { t.Services[0].Command = []string{"crio"} }, "absolute path"},
		{"empty command", func(t *Table) { t.Services[0].Command = []string{""} }, "absolute path"},
		{"restart policy", func(t *Table) { t.Services[0].Restart = "always" }, `"always"`},
		{"grace", func(t *Table) { t.Services[0].GraceSeconds = -1 }, "negative"},
		{"one role twice", func(t *Table) { t.Services[1].Role = RoleRuntime }, "both have the role"},
		{"negative limit", func(t *Table) { t.Services[0].MemoryMax = -1 }, "negative"},
		{"a task with a role", func(t *Table) { t.Services[0].Once = true }, "cannot be the runtime"},
		{"requires what is no task", func(t *Table) { t.Services[1].Requires = []string{"crio"} }, "no task defined before"},
		{"requires a task", func(t *Table) {
			t.Services = append([]Service{{Name: "t", Command: []string{"/t"}, Once: true, Restart: RestartNever}}, t.Services...)
			t.Services[1].Requires = []string{"t"}
		}, ""},
		{"capability", func(t *Table) { t.Services[0].Capabilities = &[]string{"FLY"} }, `"FLY" is not a capability`},
		{"ambient capability", func(t *Table) { t.Services[0].Ambient = []string{"CAP_CHOWN"} }, "not a capability"},
		{"limit", func(t *Table) { t.Services[0].Limits = []RLimit{{Name: "nofile", Soft: 2, Hard: 1}} }, "above the second"},
		{"unknown limit", func(t *Table) { t.Services[0].Limits = []RLimit{{Name: "files", Soft: 1, Hard: 2}} }, "unknown"},
		{"after a later one", func(t *Table) { t.Services[0].After = []string{"kubelet"} }, "not defined before"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tab := good()
			c.spoil(&tab)
			err := tab.Check()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// Numbers are the kernel's: one from the beginning, the middle and the end of each list.
func TestNumbers(t *testing.T) {
	for name, want := range map[string]int{"CHOWN": 0, "NET_ADMIN": 12, "SYS_ADMIN": 21, "SETFCAP": 31, "CHECKPOINT_RESTORE": unix.CAP_LAST_CAP, "CAP_CHOWN": -1, "": -1} {
		if got := Capability(name); got != want {
			t.Errorf("capability %q is %d, want %d", name, got, want)
		}
	}
	for name, want := range map[string]int{"cpu": unix.RLIMIT_CPU, "nofile": unix.RLIMIT_NOFILE, "memlock": unix.RLIMIT_MEMLOCK, "rttime": unix.RLIMIT_RTTIME, "rss": unix.RLIMIT_RSS, "x": -1} {
		if got := Limit(name); got != want {
			t.Errorf("limit %q is %d, want %d", name, got, want)
		}
	}
}
