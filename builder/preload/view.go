package preload

// View is an image in the store as something else than the runtime uses it.
type View struct {
	Config []byte // OCI image-spec, config.md
	// Layers are the directories with the layers' files, below the store's root, the
	// topmost first. Their names are short: a mount's options fit one page.
	Layers []string
	// Files is what a container sees, sorted, directories before what they hold; the
	// root directory, whose path is "", is among them.
	Files []Entry
}

// view makes one of an image whose layers are complete and without whiteouts.
func (p *picture) view() View {
	v := View{Config: p.config}
	all := tree{}
	for _, l := range p.layers {
		v.Layers = append([]string{"overlay/l/" + shortName(l.id)}, v.Layers...)
		for _, path := range l.tree.paths() {
			e := l.tree[path]
			if old, ok := all[path]; ok && (old.Type == TypeDir) != (e.Type == TypeDir) {
				all.removeBelow(path)
			}
			e.Path = path
			all[path] = e
		}
	}
	for _, path := range all.paths() {
		v.Files = append(v.Files, all[path])
	}
	return v
}
