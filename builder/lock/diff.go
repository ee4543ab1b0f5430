package lock

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"

	"garboard.local/builder/source/debian"
)

// Change is one difference between two locks.
type Change struct {
	Section  string // "debian amd64", "tools arm64", "oci amd64", "components", "go"
	Name     string // of the package, component or image
	Old, New string // versions or digests; empty where it was added or removed
}

// String is "+ pkg 1.2", "- pkg 1.1" or "~ pkg 1.1 -> 1.2".
func (c Change) String() string {
	switch {
	case c.Old == "":
		return fmt.Sprintf("+ %s %s", c.Name, c.New)
	case c.New == "":
		return fmt.Sprintf("- %s %s", c.Name, c.Old)
	}
	return fmt.Sprintf("~ %s %s -> %s", c.Name, c.Old, c.New)
}

// Print writes changes for people, under a heading for each section.
func Print(w io.Writer, changes []Change) {
	section := ""
	for _, c := range changes {
		if c.Section != section {
			section = c.Section
			fmt.Fprintf(w, "%s:\n", section)
		}
		fmt.Fprintf(w, "  %s\n", c)
	}
}

// Diff lists the differences, sorted by section and name. old may be nil.
func Diff(old, new *Lock) []Change {
	if old == nil {
		old = &Lock{}
	}
	var out []Change
	if old.Go != new.Go {
		out = append(out, Change{"go", "go", old.Go, new.Go})
	}
	out = append(out, diffMaps("components", versions(old.Components), versions(new.Components))...)
	for _, arch := range []string{"amd64", "arm64"} {
		out = append(out, diffMaps("debian "+arch, pins(old.Debian.Packages[arch]), pins(new.Debian.Packages[arch]))...)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		out = append(out, diffMaps("tools "+arch, pins(old.Tools[arch]), pins(new.Tools[arch]))...)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		out = append(out, diffMaps("oci "+arch, digests(old.OCI, arch), digests(new.OCI, arch))...)
	}
	return out
}

func digests(images map[string]map[string]string, arch string) map[string]pin {
	m := map[string]pin{}
	for ref, by := range images {
		if d := by[arch]; d != "" {
			m[ref] = pin{version: d}
		}
	}
	return m
}

// pin is a version and the hash of what stands behind it.
type pin struct{ version, hash string }

func pins(ps []debian.Package) map[string]pin {
	m := map[string]pin{}
	for _, p := range ps {
		m[p.Name] = pin{p.Version, p.SHA256}
	}
	return m
}

func versions(cs map[string]Component) map[string]pin {
	m := map[string]pin{}
	for n, c := range cs {
		m[n] = pin{c.Version, c.Sum + c.GoMod + c.GoSum}
	}
	return m
}

func diffMaps(section string, old, new map[string]pin) []Change {
	var out []Change
	for name, n := range new {
		o, ok := old[name]
		switch {
		case !ok:
			out = append(out, Change{section, name, "", n.version})
		case o.version != n.version:
			out = append(out, Change{section, name, o.version, n.version})
		case o.hash != n.hash:
			out = append(out, Change{section, name, o.version, n.version + " (other content)"})
		}
	}
	for name, o := range old {
		if _, ok := new[name]; !ok {
			out = append(out, Change{section, name, o.version, ""})
		}
	}
	slices.SortFunc(out, func(a, b Change) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// sortedKeys are the keys of a map in a stable order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
