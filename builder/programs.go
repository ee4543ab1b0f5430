package builder

import "garboard.local/builder/rootfs"

// addPrograms adds the recipe's own Go programs.
func (b *build) addPrograms(*library) error {
	for _, p := range b.recipe.Programs {
		o := b.own[programName(p.Program)]
		e, err := rootfs.FromFile(p.Path, 0o755, o.Path, o.SHA256, "garboard "+p.Program, p.Reason)
		if err != nil {
			return err
		}
		if err := b.tree.Add(e); err != nil {
			return err
		}
	}
	return nil
}
