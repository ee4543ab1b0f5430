package licence

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Notices gathers licence texts and who stands under each: the file that must
// come with what is distributed. One text is kept once.
type Notices struct {
	of      map[string][]string // by text
	without []string
}

// Add notes that something stands under a text; "" is none at all.
func (n *Notices) Add(name, text string) {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	text = strings.Trim(strings.TrimRight(text, " \t\n\f"), "\n")
	switch {
	case text == "":
		if !slices.Contains(n.without, name) {
			n.without = append(n.without, name)
		}
	case !slices.Contains(n.of[text], name):
		if n.of == nil {
			n.of = map[string][]string{}
		}
		n.of[text] = append(n.of[text], name)
	}
}

// Texts are the different texts that were added, in no order.
func (n *Notices) Texts() []string {
	var out []string
	for t := range n.of {
		out = append(out, t)
	}
	return out
}

// Text is everything as one file, in an order that does not depend on that of
// the additions.
func (n *Notices) Text() []byte {
	type entry struct {
		of   []string
		text string
	}
	var all []entry
	for t, of := range n.of {
		all = append(all, entry{slices.Sorted(slices.Values(of)), t})
	}
	slices.SortFunc(all, func(a, b entry) int {
		return cmp.Or(slices.Compare(a.of, b.of), cmp.Compare(a.text, b.text))
	})
	var b bytes.Buffer
	b.WriteString("Licences of what the images hold. Each text is given once, below the names of all that come with it.\n")
	rule := strings.Repeat("=", 78)
	for _, e := range all {
		fmt.Fprintf(&b, "\n%s\n", rule)
		for _, name := range e.of {
			fmt.Fprintf(&b, "%s\n", name)
		}
		fmt.Fprintf(&b, "%s\n\n%s\n", rule, e.text)
	}
	if len(n.without) > 0 {
		fmt.Fprintf(&b, "\n%s\nNo licence file comes with:\n", rule)
		for _, name := range slices.Sorted(slices.Values(n.without)) {
			fmt.Fprintf(&b, "%s\n", name)
		}
	}
	return b.Bytes()
}
