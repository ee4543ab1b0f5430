package mounts

import (
	"fmt"
	"strconv"
	"strings"
)

// Info is one line of /proc/self/mountinfo (proc_pid_mountinfo(5)).
type Info struct {
	ID, Parent int
	Device     string // of the file system, major:minor
	Target     string
	Options    string // per mount
	Type       string
	Source     string
}

// ParseInfo reads /proc/self/mountinfo. A line it cannot read is an error that
// names the line; the mounts before and after it are returned all the same.
func ParseInfo(text string) ([]Info, error) {
	var out []Info
	var bad error
	for n, line := range strings.Split(text, "\n") {
		if line == "" {
			continue
		}
		m, err := parseLine(line)
		if err != nil {
			bad = fmt.Errorf("mountinfo line %d: %w", n+1, err)
			continue
		}
		out = append(out, m)
	}
	return out, bad
}

func parseLine(line string) (Info, error) {
	// 36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw
	f := strings.Split(line, " ")
	sep := -1
	for i := 6; i < len(f); i++ {
		if f[i] == "-" {
			sep = i
			break
		}
	}
	if sep < 0 || len(f) < sep+3 {
		return Info{}, fmt.Errorf("%q has no \"- type source\" part", line)
	}
	id, err := strconv.Atoi(f[0])
	if err != nil {
		return Info{}, fmt.Errorf("mount id %q: %w", f[0], err)
	}
	parent, err := strconv.Atoi(f[1])
	if err != nil {
		return Info{}, fmt.Errorf("parent id %q: %w", f[1], err)
	}
	return Info{ID: id, Parent: parent, Device: f[2], Target: unescape(f[4]), Options: f[5],
		Type: unescape(f[sep+1]), Source: unescape(f[sep+2])}, nil
}

// unescape turns the kernel's \040 into what it stands for. Other backslashes
// are taken as they are.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// DeepestFirst orders mounts so that each can be unmounted before what it is
// mounted on: children before parents, and of two on one place the upper one first.
func DeepestFirst(list []Info) []Info {
	children := map[int][]Info{}
	known := map[int]bool{}
	for _, m := range list {
		known[m.ID] = true
	}
	var roots []Info
	for _, m := range list {
		if known[m.Parent] && m.Parent != m.ID {
			children[m.Parent] = append(children[m.Parent], m)
		} else {
			roots = append(roots, m)
		}
	}
	var out []Info
	seen := map[int]bool{}
	var walk func(m Info)
	walk = func(m Info) {
		if seen[m.ID] {
			return
		}
		seen[m.ID] = true
		kids := children[m.ID]
		for i := len(kids) - 1; i >= 0; i-- {
			walk(kids[i])
		}
		out = append(out, m)
	}
	for i := len(roots) - 1; i >= 0; i-- {
		walk(roots[i])
	}
	for _, m := range list { // ids in a circle cannot come from a kernel, but nothing is left out
		walk(m)
	}
	return out
}
