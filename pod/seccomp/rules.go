package seccomp

import (
	"fmt"
	"slices"
	"strings"
)

// arguments is how many a system call has.
const arguments = 6

// The comparisons of profiles.
const (
	opEQ       = "SCMP_CMP_EQ"
	opNE       = "SCMP_CMP_NE"
	opLT       = "SCMP_CMP_LT"
	opLE       = "SCMP_CMP_LE"
	opGT       = "SCMP_CMP_GT"
	opGE       = "SCMP_CMP_GE"
	opMaskedEQ = "SCMP_CMP_MASKED_EQ"
)

// call is what happens to one system call: the action of the first case whose
// comparisons all hold, or otherwise. As with libseccomp, a rule without
// comparisons makes all others of its call pointless, whichever comes first.
type call struct {
	cases []oneCase
	rest  uint32
	whole bool // a rule without comparisons was seen
}

type oneCase struct {
	args   []Arg
	action uint32
}

// calls is what a profile says for a target, by the number of the call.
func (p *Profile) calls(m machine, t Target) (map[int]*call, uint32, error) {
	rest, err := action(p.DefaultAction, p.DefaultErrnoRet, p.DefaultErrno)
	if err != nil {
		return nil, 0, fmt.Errorf("defaultAction: %w", err)
	}
	out := map[int]*call{}
	for i := range p.Syscalls {
		r := &p.Syscalls[i]
		act, err := action(r.Action, r.ErrnoRet, r.Errno)
		if err != nil {
			return nil, 0, fmt.Errorf("syscalls[%d]: %w", i, err)
		}
		// Runtimes do not hand rules to libseccomp that say what is so anyway,
		// so that such a rule does not stand in the way of a later one.
		if !r.counts(t) || act == rest {
			continue
		}
		for _, name := range r.names() {
			n, ok := m.calls[name]
			if !ok {
				continue // of another architecture
			}
			if out[n] == nil {
				out[n] = &call{rest: rest}
			}
			out[n].add(r.Args, act)
		}
	}
	return out, rest, nil
}

func (c *call) add(args []Arg, act uint32) {
	switch {
	case c.whole:
	case len(args) == 0:
		c.whole, c.rest, c.cases = true, act, nil
	default:
		for _, a := range split(args) {
			c.cases = append(c.cases, oneCase{a, act})
		}
	}
}

// split makes a rule of each comparison if one argument is compared twice:
// libseccomp cannot have that in one rule, and runtimes take it for "or" then.
func split(args []Arg) [][]Arg {
	var seen [arguments]bool
	for _, a := range args {
		if seen[a.Index] {
			var out [][]Arg
			for _, a := range args {
				out = append(out, []Arg{a})
			}
			return out
		}
		seen[a.Index] = true
	}
	return [][]Arg{args}
}

// counts says whether a rule is one for a target.
func (r *Rule) counts(t Target) bool {
	has := func(c string) bool { return t.Caps == nil || slices.Contains(t.Caps, strings.TrimPrefix(c, "CAP_")) }
	in, ex := r.Includes, r.Excludes
	switch {
	case slices.ContainsFunc(in.Caps, func(c string) bool { return !has(c) }),
		slices.ContainsFunc(ex.Caps, has),
		len(in.Arches) > 0 && !slices.Contains(in.Arches, t.Arch),
		slices.Contains(ex.Arches, t.Arch),
		in.MinKernel != "" && !reaches(t.Kernel, in.MinKernel),
		ex.MinKernel != "" && reaches(t.Kernel, ex.MinKernel):
		return false
	}
	return true
}

// reaches says whether a kernel is of that version or a later one.
func reaches(kernel, version string) bool {
	if kernel == "" {
		return true
	}
	a, b, _ := release(kernel)
	x, y, _ := release(version)
	return a > x || a == x && b >= y
}

// release is the first two numbers of a kernel's release.
func release(s string) (major, minor int, ok bool) {
	n, _ := fmt.Sscanf(s, "%d.%d", &major, &minor)
	return major, minor, n == 2 && major >= 0 && minor >= 0
}
