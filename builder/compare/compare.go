// Package compare says in what two images differ: their files, the versions of
// what they were made from, and how much each source of files weighs.
package compare

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"garboard.local/builder/inspect"
	"garboard.local/builder/report"
	"garboard.local/builder/rootfs"
)

// Item is one file of an image.
type Item struct {
	Path   string
	Kind   string
	Size   int64 // bytes
	Mode   uint32
	Owner  string // uid:gid
	Link   string
	Caps   string // a file's capabilities, where they are known
	SHA256 string // "" where it is not known
	Group  string // where it comes from, without the version
}

// Change is a file that is not the same on both sides.
type Change struct {
	Path  string   `json:"path"`
	Kind  string   `json:"change"`         // added, removed or changed
	What  []string `json:"what,omitempty"` // of a changed one: type, size, mode, owner, capabilities, link, content
	SizeA int64    `json:"sizeA"`          // bytes; 0 of an added one
	SizeB int64    `json:"sizeB"`          // bytes; 0 of a removed one
	ModeA uint32   `json:"modeA,omitempty"`
	ModeB uint32   `json:"modeB,omitempty"`
	Group string   `json:"group,omitempty"`
}

// Version is an ingredient whose version is not the same.
type Version struct {
	Name string `json:"name"` // "deb crun", "program kubelet", "go golang.org/x/net"
	A    string `json:"a"`    // "" where it is new
	B    string `json:"b"`    // "" where it is gone
}

// Weight is how much one source of files gives, before compression.
type Weight struct {
	Group string `json:"group"`
	A     int64  `json:"a"` // bytes
	B     int64  `json:"b"`
}

// Result is all the difference.
type Result struct {
	Same     bool              `json:"same"`
	Settings []Version         `json:"settings"` // recipe, architecture, compression, command line ...
	Versions []Version         `json:"versions"`
	Files    []Change          `json:"files"`
	Weights  []Weight          `json:"weights"` // those that changed
	Outputs  []Change          `json:"outputs"` // the files that a build wrote
	Inside   map[string]Result `json:"inside,omitempty"`
	Bytes    string            `json:"bytes,omitempty"` // where the bytes differ first, if nothing else does
}

// Items compares two lists of files.
func Items(a, b []Item) Result {
	var r Result
	am, bm := index(a), index(b)
	wa, wb := map[string]int64{}, map[string]int64{}
	for _, x := range a {
		wa[x.Group] += x.Size
	}
	for _, y := range b {
		wb[y.Group] += y.Size
	}
	for _, p := range slices.Sorted(maps.Keys(union(am, bm))) {
		x, inA := am[p]
		y, inB := bm[p]
		c := Change{Path: p, SizeA: x.Size, SizeB: y.Size, ModeA: x.Mode, ModeB: y.Mode, Group: cmp.Or(y.Group, x.Group)}
		switch {
		case !inA:
			c.Kind = "added"
		case !inB:
			c.Kind = "removed"
		default:
			c.Kind = "changed"
			for _, w := range []struct {
				what string
				is   bool
			}{
				{"type", x.Kind != y.Kind}, {"size", x.Size != y.Size}, {"mode", x.Mode != y.Mode}, {"owner", x.Owner != y.Owner}, {"capabilities", x.Caps != y.Caps},
				{"link", x.Link != y.Link}, {"content", x.SHA256 != "" && y.SHA256 != "" && x.SHA256 != y.SHA256},
			} {
				if w.is {
					c.What = append(c.What, w.what)
				}
			}
			if len(c.What) == 0 {
				continue
			}
		}
		r.Files = append(r.Files, c)
	}
	for _, g := range slices.Sorted(maps.Keys(union(wa, wb))) {
		if wa[g] != wb[g] {
			r.Weights = append(r.Weights, Weight{Group: cmp.Or(g, "(unknown)"), A: wa[g], B: wb[g]})
		}
	}
	slices.SortStableFunc(r.Weights, func(x, y Weight) int { return cmp.Compare(abs(y.B-y.A), abs(x.B-x.A)) })
	r.Same = len(r.Files) == 0
	return r
}

func abs(n int64) int64 { return max(n, -n) }

func index(items []Item) map[string]Item {
	out := map[string]Item{}
	for _, i := range items {
		out[i.Path] = i
	}
	return out
}

func union[V any](a, b map[string]V) map[string]V {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// Manifests compares what two manifests say.
func Manifests(a, b *report.Manifest) Result {
	r := Items(manifestItems(a), manifestItems(b))
	for _, s := range []struct{ name, a, b string }{
		{"recipe", a.Recipe, b.Recipe}, {"architecture", a.Arch, b.Arch}, {"compression", a.Compression, b.Compression},
		{"kernel", a.Kernel, b.Kernel}, {"command line", a.Cmdline, b.Cmdline}, {"time", a.Time.UTC().String(), b.Time.UTC().String()},
	} {
		if s.a != s.b {
			r.Settings = append(r.Settings, Version{Name: s.name, A: s.a, B: s.b})
		}
	}
	va, vb := versions(a), versions(b)
	for _, name := range slices.Sorted(maps.Keys(union(va, vb))) {
		if va[name] != vb[name] {
			r.Versions = append(r.Versions, Version{Name: name, A: va[name], B: vb[name]})
		}
	}
	r.Same = r.Same && len(r.Settings) == 0 && len(r.Versions) == 0
	return r
}

func manifestItems(m *report.Manifest) []Item {
	var out []Item
	for _, part := range []struct {
		prefix  string
		entries []*rootfs.Entry
	}{{"initramfs:/", m.Early}, {"/", m.Root}} {
		for _, e := range part.entries {
			out = append(out, Item{
				Path: part.prefix + e.Path, Kind: string(e.Kind), Size: e.Size, Mode: e.Mode, Owner: fmt.Sprintf("%d:%d", e.UID, e.GID),
				Link: e.Link, Caps: e.Capabilities, SHA256: e.SHA256, Group: group(e.Origin),
			})
		}
	}
	return out
}

// group is an origin without its version: "deb crun 1.21-1" is "deb crun".
func group(origin string) string {
	f := strings.Fields(origin)
	if len(f) == 3 {
		f = f[:2]
	}
	return strings.Join(f, " ")
}

// versions are those of every ingredient. A module that programs hold in
// several versions has all of them.
func versions(m *report.Manifest) map[string]string {
	out := map[string]string{}
	for _, p := range m.Packages {
		out["deb "+p.Name] = p.Version
	}
	if k := m.KernelImage; k != nil {
		out["kernel image "+k.Name] = k.Version + " " + k.Digest
	}
	for _, i := range m.Images {
		out["container image "+i.Name] = i.Digest
	}
	mods := map[string][]string{}
	for _, p := range m.Programs {
		out["program "+p.Name] = strings.TrimSpace(p.Version + " go" + p.Go)
		for _, x := range p.Modules {
			if v := cmp.Or(x.Version, "(ours)"); !slices.Contains(mods["go "+x.Path], v) {
				mods["go "+x.Path] = append(mods["go "+x.Path], v)
			}
		}
	}
	for name, vs := range mods {
		slices.Sort(vs)
		out[name] = strings.Join(vs, ", ")
	}
	return out
}

// Nodes compares two files that inspect looked into.
func Nodes(a, b *inspect.Node) Result { return Items(nodeItems(a), nodeItems(b)) }

func nodeItems(n *inspect.Node) []Item {
	var out []Item
	n.Walk(func(p string, n *inspect.Node) {
		if p == "" || n.Kind == inspect.Archive {
			return
		}
		i := Item{
			Path: p, Kind: string(n.Kind), Mode: n.Mode, Owner: fmt.Sprintf("%d:%d", n.UID, n.GID), Link: n.Link, SHA256: n.SHA256, Group: group(n.Origin),
		}
		if n.Kind != inspect.Dir {
			i.Size = n.Size
		}
		if len(n.Children) > 0 && n.Kind != inspect.Dir {
			i.Size, i.SHA256 = 0, "" // what is in it says it better
		}
		out = append(out, i)
	})
	return out
}

// Outputs compares the files that two builds wrote, by their SHA256SUMS.
func Outputs(a, b []report.Artefact) []Change {
	items := func(as []report.Artefact) []Item {
		var out []Item
		for _, x := range as {
			out = append(out, Item{Path: x.Name, Kind: "file", Size: x.Size, SHA256: x.SHA256})
		}
		return out
	}
	return Items(items(a), items(b)).Files
}

// FirstDifference says where two files differ first; "" where they do not.
func FirstDifference(a, b string) (string, error) {
	fa, err := os.Open(a)
	if err != nil {
		return "", err
	}
	defer fa.Close()
	fb, err := os.Open(b)
	if err != nil {
		return "", err
	}
	defer fb.Close()
	ba, bb := make([]byte, 1<<20), make([]byte, 1<<20)
	for off := int64(0); ; {
		na, ea := io.ReadFull(fa, ba)
		nb, eb := io.ReadFull(fb, bb)
		if n := min(na, nb); !bytes.Equal(ba[:n], bb[:n]) {
			for i := range n {
				if ba[i] != bb[i] {
					return fmt.Sprintf("first difference at byte %d: %#02x in %s, %#02x in %s", off+int64(i), ba[i], filepath.Base(a), bb[i], filepath.Base(b)), nil
				}
			}
		}
		if off += int64(min(na, nb)); na != nb {
			return fmt.Sprintf("one ends at byte %d", off), nil
		}
		if ea != nil || eb != nil {
			for _, err := range []error{ea, eb} {
				if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
					return "", err
				}
			}
			return "", nil
		}
	}
}
