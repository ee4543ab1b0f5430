package observed

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// World is who runs the pods.
type World string

// The worlds; every one is compared with the first.
const (
	Kubelet World = "kubelet + cri-o"
	Systemd World = "systemd"
	Init    World = "PID 1"
)

// Refused stands in the place of what PID 1 would have been seen to do with a pod
// that is refused for it.
const Refused = "(refused)"

// Row is one observation in all worlds; a value is "" where it was not made.
type Row struct{ Key, Kubelet, Systemd, Init string }

// In is what was seen in a world.
func (r Row) In(w World) string {
	return map[World]string{Kubelet: r.Kubelet, Systemd: r.Systemd, Init: r.Init}[w]
}

// Differs says whether something else was seen in a world than under a kubelet.
func (r Row) Differs(w World) bool { return r.In(w) != r.Kubelet && r.In(w) != Refused }

// Rows joins the observations of the worlds. Of the pods that PID 1 refuses it has none.
func Rows(kubelet, systemd, init []Fact, refused []string) []Row {
	var out []Row
	join(&out, kubelet, func(r *Row) *string { return &r.Kubelet })
	join(&out, systemd, func(r *Row) *string { return &r.Systemd })
	join(&out, init, func(r *Row) *string { return &r.Init })
	for i, r := range out {
		if owner, _, _ := strings.Cut(r.Key, ": "); slices.Contains(refused, pod(owner)) {
			out[i].Init = Refused
		}
	}
	return out
}

// pod is that of POD/CONTAINER or POD.
func pod(owner string) string {
	name, _, _ := strings.Cut(owner, "/")
	return name
}

// join adds the observations of one world; those that are new come behind the others
// of their container.
func join(out *[]Row, list []Fact, value func(*Row) *string) {
	at := map[string]int{}
	for i, r := range *out {
		at[r.Key] = i
	}
	for _, f := range list {
		if i, ok := at[f.Key]; ok {
			*value(&(*out)[i]) = f.Value
			continue
		}
		owner, _, _ := strings.Cut(f.Key, ": ")
		i := len(*out)
		for j, r := range *out {
			if o, _, _ := strings.Cut(r.Key, ": "); o == owner {
				i = j + 1
			}
		}
		r := Row{Key: f.Key}
		*value(&r) = f.Value
		*out = slices.Insert(*out, i, r)
		for j := i; j < len(*out); j++ {
			at[(*out)[j].Key] = j
		}
	}
}

// Difference explains observations that differ in a world: those whose key the
// expression matches as a whole.
type Difference struct {
	World     World
	Keys, Why string
}

func (d Difference) compile() (*regexp.Regexp, error) {
	re, err := regexp.Compile("^(?:" + d.Keys + ")$")
	if err != nil {
		return nil, fmt.Errorf("difference %q: %w", d.Keys, err)
	}
	return re, nil
}

// Explained are the rows that differ in a world without a reason, and the reasons
// that nothing needs.
func Explained(rows []Row, known []Difference, w World) (unexplained []Row, stale []Difference, err error) {
	used := make([]bool, len(known))
	for _, r := range rows {
		if !r.Differs(w) {
			continue
		}
		found := false
		for i, d := range known {
			re, err := d.compile()
			if err != nil {
				return nil, nil, err
			}
			if d.World == w && re.MatchString(r.Key) {
				used[i], found = true, true
			}
		}
		if !found {
			unexplained = append(unexplained, r)
		}
	}
	for i, u := range used {
		if !u && known[i].World == w {
			stale = append(stale, known[i])
		}
	}
	return unexplained, stale, nil
}

// Write writes the table as a page of the documentation. refused says of the pods
// that PID 1 does not take why.
func Write(w io.Writer, rows []Row, known []Difference, refused map[string]string) error {
	differ, same := map[World]int{}, 0
	for _, r := range rows {
		for _, world := range []World{Systemd, Init} {
			if r.Differs(world) {
				differ[world]++
			}
		}
		if !r.Differs(Systemd) && !r.Differs(Init) {
			same++
		}
	}
	p := printer{w: w}
	p.line("<!-- Written by TestObservedPage (qemu/observed_test.go) from what TestVMSystemd, TestVMServices and TestVMLongSystemd ran; GARBOARD_UPDATE=1 writes it anew. -->")
	p.line("# The same pods under a kubelet, under systemd, and under PID 1 of a node")
	p.line("")
	p.line("The manifests in [qemu/testdata/observed](../qemu/testdata/observed/manifests) were run three times: as static pods of a Garboard node (kubelet and cri-o);")
	p.line("as the units that `garboard convert --to systemd` makes of them, in a Debian with systemd; and as services that PID 1 of a node runs, compiled into its table by")
	p.line("a recipe ([observed-init.yaml](../recipes/observed-init.yaml)). A program in the pods wrote down what it saw of itself, and each world was asked for the pods' status. Of %d observations", len(rows))
	p.line("%d differ under systemd and %d under PID 1; %d are the same everywhere. What a field means is in [pod-mapping.md](pod-mapping.md).", differ[Systemd], differ[Init], same)
	for _, world := range []World{Systemd, Init} {
		p.line("")
		p.line("## What differs under %s, and why", world)
		if err := p.differences(rows, known, world); err != nil {
			return err
		}
	}
	p.line("")
	p.line("## What PID 1 refuses")
	p.line("")
	p.line("| pod | why |")
	p.line("|---|---|")
	var names []string
	for name := range refused {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		p.line("| %s | %s |", name, cell(refused[name]))
	}
	p.line("")
	p.line("## What is the same")
	p.line("")
	p.line("| observation | of | everywhere |")
	p.line("|---|---|---|")
	for _, g := range folded(slices.DeleteFunc(slices.Clone(rows), func(r Row) bool { return r.Differs(Systemd) || r.Differs(Init) })) {
		p.line("| %s | %s | %s |", cell(g.what), g.of(), cell(g.Kubelet))
	}
	return p.err
}

// differences writes the tables of one world, each below its reason.
func (p *printer) differences(rows []Row, known []Difference, world World) error {
	told := map[string]bool{}
	for _, d := range known {
		if d.World != world {
			continue
		}
		re, err := d.compile()
		if err != nil {
			return err
		}
		var these []Row
		for _, r := range rows {
			if r.Differs(world) && !told[r.Key] && re.MatchString(r.Key) {
				told[r.Key] = true
				these = append(these, Row{Key: r.Key, Kubelet: r.Kubelet, Systemd: r.In(world)})
			}
		}
		p.line("")
		p.line("%s", d.Why)
		p.line("")
		p.line("| observation | of | %s | %s |", Kubelet, world)
		p.line("|---|---|---|---|")
		for _, g := range folded(these) {
			p.line("| %s | %s | %s | %s |", cell(g.what), g.of(), cell(g.Kubelet), cell(g.Systemd))
		}
	}
	return nil
}

// group are rows of which the same was observed in several containers.
type group struct {
	Row
	what   string
	owners []string
}

func (g group) of() string { return strings.Join(g.owners, ", ") }

// folded puts rows together that say the same of several containers or pods.
func folded(rows []Row) []group {
	var out []group
	for _, r := range rows {
		owner, what, _ := strings.Cut(r.Key, ": ")
		i := slices.IndexFunc(out, func(g group) bool { return g.what == what && g.Kubelet == r.Kubelet && g.Systemd == r.Systemd })
		if i < 0 {
			out, i = append(out, group{Row: r, what: what}), len(out)
		}
		out[i].owners = append(out[i].owners, owner)
	}
	return out
}

type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if _, err := fmt.Fprintf(p.w, format+"\n", args...); p.err == nil {
		p.err = err
	}
}

func cell(s string) string {
	if s == "" {
		return "not there"
	}
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "\n", " ").Replace(s)
}
