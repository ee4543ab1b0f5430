package inspect

import (
	"fmt"

	"garboard.local/builder/report"
	"garboard.local/builder/rootfs"
)

// Annotate adds what the manifest knows of each file: where it comes from and
// why it is there. A file that the manifest describes otherwise gets a note.
func Annotate(n *Node, m *report.Manifest) {
	root, early := byPath(m.Root), byPath(m.Early)
	var visit func(n *Node)
	visit = func(n *Node) {
		switch {
		case n.Format == "EROFS":
			n.Origin, n.Reason = "builder", "the root image"
			for _, c := range n.Children {
				label(c, c.Name, root)
			}
			return
		case len(n.Format) >= 6 && n.Format[:6] == "kernel":
			n.Origin = "kernel " + m.Kernel
		case n.Kind == Archive || len(n.Format) >= 9 && n.Format[:9] == "initramfs":
			for _, c := range n.Children {
				if c.Kind != Archive {
					label(c, c.Name, early)
				}
			}
		}
		for _, c := range n.Children {
			visit(c)
		}
	}
	visit(n)
}

func byPath(entries []*rootfs.Entry) map[string]*rootfs.Entry {
	out := map[string]*rootfs.Entry{}
	for _, e := range entries {
		out[e.Path] = e
	}
	return out
}

func label(n *Node, p string, by map[string]*rootfs.Entry) {
	if e := by[p]; e != nil {
		n.Origin, n.Reason = e.Origin, e.Reason
		if string(e.Kind) != string(n.Kind) || e.Kind == rootfs.File && e.Size != n.Size {
			n.Note = fmt.Sprintf("the manifest says: a %s of %d bytes", e.Kind, e.Size)
		}
	}
	if n.Format == "" {
		for _, c := range n.Children {
			label(c, p+"/"+c.Name, by)
		}
	}
}
