package debian

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
)

// unknown explains why a requested name is no package.
func (ix *index) unknown(name string) error {
	if l := ix.provided[name]; len(l) > 0 {
		var by []string
		for _, p := range l {
			by = append(by, p.Name)
		}
		return fmt.Errorf("package %q is virtual in %s: name one of its providers: %s", name, ix.where, strings.Join(by, ", "))
	}
	names := nearest(name, maps.Keys(ix.byName))
	if len(names) == 0 {
		return fmt.Errorf("package %q is not in %s", name, ix.where)
	}
	return fmt.Errorf("package %q is not in %s; did you mean %s?", name, ix.where, strings.Join(names, " or "))
}

// nearest lists, quoted, up to three of names that a slip of the finger could
// have turned into name.
func nearest(name string, names iter.Seq[string]) []string {
	type near struct {
		name     string
		distance int
	}
	limit := max(2, len(name)/4)
	var found []near
	for n := range names {
		if len(n) < len(name)-limit || len(n) > len(name)+limit {
			continue
		}
		d := levenshtein.Distance(name, n, nil)
		if swapped(name, n) {
			d = 1
		}
		if d <= limit {
			found = append(found, near{n, d})
		}
	}
	slices.SortFunc(found, func(a, b near) int { return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.name, b.name)) })
	var out []string
	for _, f := range found[:min(3, len(found))] {
		if f.distance == found[0].distance {
			out = append(out, fmt.Sprintf("%q", f.name))
		}
	}
	return out
}

// swapped says whether exchanging two neighbours in a makes b: the commonest
// slip, which counts as two edits otherwise.
func swapped(a, b string) bool {
	for i := 0; len(a) == len(b) && i+1 < len(a); i++ {
		if a[i] != b[i] {
			return a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
		}
	}
	return false
}
