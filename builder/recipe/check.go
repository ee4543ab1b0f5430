package recipe

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"garboard.local/init/watchdog"
)

var nameRE = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// Check reports the first rule that a merged recipe breaks, with the place in
// the recipe ("packages[3].reason").
func (r *Recipe) Check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("recipe %s: "+format, append([]any{r.File}, args...)...)
	}
	if !nameRE.MatchString(r.Name) {
		return bad("name %q must be lower-case letters, digits and hyphens, at most 63", r.Name)
	}
	if r.Hostname != "" && !nameRE.MatchString(r.Hostname) {
		return bad("hostname %q must be lower-case letters, digits and hyphens, at most 63", r.Hostname)
	}
	for i, s := range r.NTP {
		if s == "" || strings.ContainsAny(s, " ,/\n\t\x00") {
			return bad("ntp[%d]: %q is not a time server: a name or an address, with or without a port", i, s)
		}
	}
	if _, err := watchdog.Parse(r.Watchdog); err != nil {
		return bad("%v", err)
	}
	if err := r.Kernel.check(); err != nil {
		return bad("kernel.%v", err)
	}
	if err := errors.Join(checkOutputs(r.Outputs), r.Disk.check()); err != nil {
		return bad("%v", err)
	}
	for i, p := range r.Packages {
		at := fmt.Sprintf("packages[%d] (%s)", i, p.Name)
		switch {
		case p.Name == "":
			return bad("%s.name is missing", at)
		case p.Reason == "":
			return bad("%s.reason is missing: every file on a node is there for a stated reason", at)
		case len(p.Files) == 0 && len(p.Dlopen) == 0 && len(p.Concat) == 0:
			return bad("%s.files is empty: name the files that the node needs", at)
		}
		for _, f := range append(slices.Clone(p.Files), p.Dlopen...) {
			if err := checkPath(f); err != nil {
				return bad("%s.files: %v", at, err)
			}
		}
	}
	for i, c := range r.Components {
		if c.Name == "" || c.Reason == "" || len(c.Files) == 0 {
			return bad("components[%d] (%s): name, reason and files are needed", i, c.Name)
		}
		for _, f := range c.Files {
			if err := checkPath(f); err != nil {
				return bad("components[%d] (%s).files: %v", i, c.Name, err)
			}
		}
	}
	for i, o := range r.Overlays {
		if o.Path == "" || o.Reason == "" {
			return bad("overlays[%d] (%s): path and reason are needed", i, o.Path)
		}
		if o.Target != "" {
			if err := checkPath(o.Target); err != nil {
				return bad("overlays[%d] (%s).target: %v", i, o.Path, err)
			}
		}
	}
	for i, l := range r.Links {
		if err := checkPath(l.Path); err != nil || l.To == "" || l.Reason == "" {
			return bad("links[%d] (%s): an absolute path, to and reason are needed", i, l.Path)
		}
	}
	for i, d := range r.Dirs {
		if err := checkPath(d.Path); err != nil {
			return bad("dirs[%d]: %v", i, err)
		}
		if _, err := d.Perm(); err != nil {
			return bad("dirs[%d] (%s).mode: %v", i, d.Path, err)
		}
		if d.Link != "" && d.Owner != "" {
			return bad("dirs[%d] (%s): a link has no owner", i, d.Path)
		}
	}
	if at, err := checkUsers(r.Users); err != nil {
		return bad("users[%d]: %v", at, err)
	}
	for i, p := range r.Programs {
		if err := p.check(); err != nil {
			return bad("programs[%d] (%s): %v", i, p.Program, err)
		}
	}
	if err := r.checkImages(); err != nil {
		return bad("%v", err)
	}
	for i, m := range slices.Concat(r.Kernel.Boot, r.Kernel.Disks, r.Kernel.Load, r.Kernel.Available) {
		if m.Name == "" || m.Reason == "" {
			return bad("kernel module %d (%s): name and reason are needed", i, m.Name)
		}
	}
	for i, w := range r.Cmdline {
		if strings.ContainsAny(w, "\n\t\x00") {
			return bad("cmdline[%d] %q holds a control character", i, w)
		}
	}
	for i, s := range r.Sysctls {
		if s.Key == "" || strings.ContainsAny(s.Key, "\n\x00 ") || strings.Contains(s.Key, "..") {
			return bad("sysctls[%d]: key %q is not a kernel parameter", i, s.Key)
		}
		for _, part := range strings.Split(s.Key, ".") {
			if strings.ContainsAny(part, "*?[\\") && part != "*" {
				return bad("sysctls[%d]: key %q: a * stands for each interface, alone between two dots; there is no other wildcard", i, s.Key)
			}
		}
	}
	return nil
}

func checkPath(p string) error {
	if !path.IsAbs(p) || path.Clean(p) != p || strings.ContainsAny(p, "\n\x00") {
		return fmt.Errorf("%q is not a clean absolute path", p)
	}
	return nil
}

// Perm is the directory's permission bits.
func (d Dir) Perm() (uint32, error) {
	if d.Mode == "" {
		return 0o755, nil
	}
	m, err := strconv.ParseUint(d.Mode, 8, 12)
	if err != nil || d.Mode[0] != '0' {
		return 0, fmt.Errorf("%q is not an octal mode such as 0755", d.Mode)
	}
	return uint32(m), nil
}

// For is the recipe as it applies to one architecture: entries for another one
// are left out, and {arch} and {triplet} are replaced.
func (r *Recipe) For(arch string) (*Recipe, error) {
	if !slices.Contains(Arches, arch) {
		return nil, fmt.Errorf("architecture %q is not known; known: %s", arch, strings.Join(Arches, ", "))
	}
	x := strings.NewReplacer("{arch}", arch, "{triplet}", Triplet(arch), "{console}", Console(arch))
	all := func(in []string) (out []string) {
		for _, s := range in {
			out = append(out, x.Replace(s))
		}
		return out
	}
	modules := func(in []Module) (out []Module) {
		for _, m := range in {
			if m.Arch == "" || m.Arch == arch {
				m.Name = x.Replace(m.Name)
				out = append(out, m)
			}
		}
		return out
	}
	c := *r
	c.Kernel = r.Kernel.forArch(arch, x.Replace)
	c.Kernel.Boot, c.Kernel.Disks, c.Kernel.Load, c.Kernel.Available = modules(r.Kernel.Boot), modules(r.Kernel.Disks), modules(r.Kernel.Load), modules(r.Kernel.Available)
	c.Cmdline = all(r.Cmdline)
	c.Packages = nil
	for _, p := range r.Packages {
		if p.Arch == "" || p.Arch == arch {
			p.Name, p.Files, p.Dlopen = x.Replace(p.Name), all(p.Files), all(p.Dlopen)
			c.Packages = append(c.Packages, p)
		}
	}
	c.Images, c.Disk.Images = imagesFor(r.Images, x.Replace), imagesFor(r.Disk.Images, x.Replace)
	c.Links = slices.Clone(r.Links)
	for i := range c.Links {
		c.Links[i].Path, c.Links[i].To = x.Replace(c.Links[i].Path), x.Replace(c.Links[i].To)
	}
	return &c, nil
}
