package observed

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// Row is one observation in both worlds; a value is "" where it was not made.
type Row struct{ Key, Kubelet, Systemd string }

// Differs says whether the two worlds saw something else.
func (r Row) Differs() bool { return r.Kubelet != r.Systemd }

// Rows joins the observations of two worlds.
func Rows(kubelet, systemd []Fact) []Row {
	var out []Row
	at := map[string]int{}
	for _, f := range kubelet {
		at[f.Key] = len(out)
		out = append(out, Row{Key: f.Key, Kubelet: f.Value})
	}
	for _, f := range systemd {
		if i, ok := at[f.Key]; ok {
			out[i].Systemd = f.Value
			continue
		}
		// Behind the others of its container.
		owner, _, _ := strings.Cut(f.Key, ": ")
		i := len(out)
		for j, r := range out {
			if o, _, _ := strings.Cut(r.Key, ": "); o == owner {
				i = j + 1
			}
		}
		out = slices.Insert(out, i, Row{Key: f.Key, Systemd: f.Value})
		for j := i; j < len(out); j++ {
			at[out[j].Key] = j
		}
	}
	return out
}

// Difference explains observations that differ: those whose key the expression matches as a whole.
type Difference struct{ Keys, Why string }

// Explained are the rows that differ without a reason, and the reasons that nothing needs.
func Explained(rows []Row, known []Difference) (unexplained []Row, stale []Difference, err error) {
	used := make([]bool, len(known))
	for _, r := range rows {
		if !r.Differs() {
			continue
		}
		found := false
		for i, d := range known {
			re, err := regexp.Compile("^(?:" + d.Keys + ")$")
			if err != nil {
				return nil, nil, fmt.Errorf("difference %q: %w", d.Keys, err)
			}
			if re.MatchString(r.Key) {
				used[i], found = true, true
			}
		}
		if !found {
			unexplained = append(unexplained, r)
		}
	}
	for i, u := range used {
		if !u {
			stale = append(stale, known[i])
		}
	}
	return unexplained, stale, nil
}

// Write writes the table as a page of the documentation.
func Write(w io.Writer, rows []Row, known []Difference) error {
	differ := 0
	for _, r := range rows {
		if r.Differs() {
			differ++
		}
	}
	p := printer{w: w}
	p.line("<!-- Written by TestVMSystemd and TestVMLongSystemd (qemu/observed_test.go) from what they ran; GARBOARD_UPDATE=1 writes it anew. -->")
	p.line("# The same pods under a kubelet and under systemd")
	p.line("")
	p.line("The manifests in [qemu/testdata/observed](../qemu/testdata/observed/manifests) were run twice: as static pods of a Garboard node (kubelet and cri-o), and")
	p.line("as the units that `garboard convert --to systemd` makes of them, in a Debian with systemd. A program in the pods wrote down what it saw of itself, and both worlds were asked")
	p.line("for the pods' status. Of %d observations %d differ. What a field means is in [pod-mapping.md](pod-mapping.md).", len(rows), differ)
	p.line("")
	p.line("## What differs, and why")
	told := map[string]bool{}
	for _, d := range known {
		re, err := regexp.Compile("^(?:" + d.Keys + ")$")
		if err != nil {
			return err
		}
		var these []Row
		for _, r := range rows {
			if r.Differs() && !told[r.Key] && re.MatchString(r.Key) {
				these, told[r.Key] = append(these, r), true
			}
		}
		p.line("")
		p.line("%s", d.Why)
		p.line("")
		p.line("| observation | of | kubelet + cri-o | systemd |")
		p.line("|---|---|---|---|")
		for _, g := range folded(these) {
			p.line("| %s | %s | %s | %s |", cell(g.what), g.of(), cell(g.Kubelet), cell(g.Systemd))
		}
	}
	p.line("")
	p.line("## What is the same")
	p.line("")
	p.line("| observation | of | both |")
	p.line("|---|---|---|")
	for _, g := range folded(slices.DeleteFunc(slices.Clone(rows), Row.Differs)) {
		p.line("| %s | %s | %s |", cell(g.what), g.of(), cell(g.Kubelet))
	}
	return p.err
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
