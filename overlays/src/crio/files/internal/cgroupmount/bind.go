// Package cgroupmount decides how a container sees the cgroup hierarchy.
package cgroupmount

import (
	"slices"

	rspec "github.com/opencontainers/runtime-spec/specs-go"
)

// Root is where the host has the unified hierarchy.
const Root = "/sys/fs/cgroup"

// Bind turns the mount of the cgroup hierarchy into a bind mount of the host's, for
// a container that has no cgroup namespace of its own. Both show the same; but
// mounting cgroup2 from the first cgroup namespace sets the options of the only
// hierarchy there is, and an OCI runtime mounts it without any, nsdelegate among
// them (Linux: Documentation/admin-guide/cgroup-v2.rst, "Mounting").
func Bind(spec *rspec.Spec) {
	if spec == nil || spec.Linux == nil {
		return
	}
	for _, ns := range spec.Linux.Namespaces {
		if ns.Type == rspec.CgroupNamespace {
			return
		}
	}
	for i := range spec.Mounts {
		m := &spec.Mounts[i]
		if m.Type != "cgroup" {
			continue
		}
		m.Type, m.Source = "bind", Root
		if !slices.Contains(m.Options, "bind") {
			m.Options = append(slices.Clone(m.Options), "bind")
		}
	}
}
