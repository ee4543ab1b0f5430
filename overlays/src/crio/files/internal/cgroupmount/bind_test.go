package cgroupmount

import (
	"reflect"
	"testing"

	rspec "github.com/opencontainers/runtime-spec/specs-go"
)

func TestBind(t *testing.T) {
	fresh := func() []rspec.Mount {
		return []rspec.Mount{
			{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "rw"}},
			{Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup", Options: []string{"nosuid", "rw", "rslave"}},
			{Destination: "/data", Type: "bind", Source: "/var/data", Options: []string{"bind"}},
		}
	}
	bound := fresh()
	bound[1] = rspec.Mount{Destination: "/sys/fs/cgroup", Type: "bind", Source: "/sys/fs/cgroup", Options: []string{"nosuid", "rw", "rslave", "bind"}}

	for _, c := range []struct {
		name  string
		linux *rspec.Linux
		want  []rspec.Mount
	}{
		{"in the host's namespace", &rspec.Linux{Namespaces: []rspec.LinuxNamespace{{Type: rspec.MountNamespace}}}, bound},
		{"with one of its own", &rspec.Linux{Namespaces: []rspec.LinuxNamespace{{Type: rspec.MountNamespace}, {Type: rspec.CgroupNamespace}}}, fresh()},
		{"no Linux", nil, fresh()},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := &rspec.Spec{Linux: c.linux, Mounts: fresh()}
			Bind(spec)
			Bind(spec) // once more changes nothing
			if !reflect.DeepEqual(spec.Mounts, c.want) {
				t.Fatalf("mounts %+v, want %+v", spec.Mounts, c.want)
			}
		})
	}
	Bind(nil)
}
