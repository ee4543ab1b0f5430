package contents

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"garboard.local/builder/recipe"
	"garboard.local/builder/report"
	"garboard.local/builder/rootfs"
)

// manyFiles of one origin in one directory are shown as one pattern.
const manyFiles = 6

// listed is one line's worth of an image: files of one origin.
type listed struct {
	origin string
	why    []string
	paths  map[string][]string // the architectures that have it
}

// imageDocument describes the image: files by where they come from, and those
// whose mode or owner is not the usual one.
func imageDocument(manifests []*report.Manifest) string {
	byOrigin := map[string]*listed{}
	odd := map[string][]string{}
	for _, m := range manifests {
		for _, part := range []struct {
			prefix  string
			entries []*rootfs.Entry
		}{{"/", m.Root}, {"initramfs:/", m.Early}} {
			s := newShortener(m, part.entries)
			for _, e := range part.entries {
				if o := oddity(e); o != "" {
					add(odd, "`"+part.prefix+s.short(e.Path)+"` "+o, m.Arch)
				}
				name := s.shown(e)
				if name == "" {
					continue
				}
				origin := part.prefix + " " + s.origin(e)
				l := byOrigin[origin]
				if l == nil {
					l = &listed{origin: origin, paths: map[string][]string{}}
					byOrigin[origin] = l
				}
				add(l.paths, part.prefix+name, m.Arch)
				if why := s.why(e); len(manifests) == 1 || m.Arch == manifests[0].Arch || len(l.why) == 0 {
					if !slices.Contains(l.why, why) {
						l.why = append(l.why, why)
					}
				}
			}
		}
	}
	p := &page{}
	p.say("## The image\n")
	p.say("By where the files come from; directories are left out where they only hold what is listed.\n")
	p.table("from", "why", "files")
	for _, origin := range slices.Sorted(maps.Keys(byOrigin)) {
		l := byOrigin[origin]
		var files []string
		for _, f := range slices.Sorted(maps.Keys(l.paths)) {
			files = append(files, code(f)+only(l.paths[f], manifests))
		}
		p.row(strings.SplitN(l.origin, " ", 2)[1], strings.Join(l.why, "; "), strings.Join(files, " "))
	}
	p.say("\n### Modes out of the ordinary\n")
	p.say("Files are 0644, or 0755 if they are programs, directories 0755, and everything is root's. Setuid or setgid: %s. World-writable without the sticky bit: %s. Otherwise:\n",
		orNone(odd, setuid), orNone(odd, worldWritable))
	for _, o := range slices.Sorted(maps.Keys(odd)) {
		p.say("* %s%s", o, only(odd[o], manifests))
	}
	p.say("")
	return p.String()
}

func add(m map[string][]string, key, arch string) {
	if !slices.Contains(m[key], arch) {
		m[key] = append(m[key], arch)
	}
}

// only names the architectures, if not all have it.
func only(arches []string, manifests []*report.Manifest) string {
	if len(arches) == len(manifests) {
		return ""
	}
	return " (" + strings.Join(arches, ", ") + ")"
}

// Words for what must not be there.
const (
	setuid        = "setuid"
	worldWritable = "world-writable"
)

// oddity says what is not usual about an entry's mode and owner, or "".
func oddity(e *rootfs.Entry) string {
	usual := map[rootfs.Kind][]uint32{rootfs.File: {0o644, 0o755}, rootfs.Dir: {0o755}, rootfs.Symlink: {0o777}}[e.Kind]
	if slices.Contains(usual, e.Mode) && e.UID == 0 && e.GID == 0 {
		return ""
	}
	s := fmt.Sprintf("%04o %d:%d", e.Mode, e.UID, e.GID)
	switch {
	case e.Mode&setID != 0:
		return s + " " + setuid
	case e.Kind != rootfs.Symlink && e.Mode&0o1002 == 0o002:
		return s + " " + worldWritable
	}
	return s
}

func orNone(odd map[string][]string, word string) string {
	var found []string
	for _, o := range slices.Sorted(maps.Keys(odd)) {
		if strings.HasSuffix(o, " "+word) {
			found = append(found, strings.Fields(o)[0])
		}
	}
	if len(found) == 0 {
		return "none"
	}
	return strings.Join(found, ", ")
}

// shortener makes names that stay when a package's version changes.
type shortener struct {
	replace *strings.Replacer // names with versions
	triplet *strings.Replacer
	target  map[string]bool // files that a link beside them names
	crowded map[string]int  // files by origin and directory
}

func newShortener(m *report.Manifest, entries []*rootfs.Entry) *shortener {
	s := &shortener{target: map[string]bool{}, crowded: map[string]int{}}
	pairs := []string{m.Kernel, "{release}"}
	for _, e := range entries {
		// libc.so.6 -> libc.so.6.1: the link's name is the one that stays.
		if e.Kind == rootfs.Symlink && strings.Contains(e.Link, ".so") && strings.HasPrefix(e.Origin, "deb ") {
			to := path.Join(path.Dir(e.Path), e.Link)
			if strings.HasPrefix(path.Base(to), path.Base(e.Path)) {
				s.target[to] = true
				pairs = append(pairs, to, e.Path)
			}
		}
		if e.Kind != rootfs.Dir {
			s.crowded[e.Origin+" "+path.Dir(e.Path)]++
		}
	}
	// Names first: they hold the triplet.
	s.replace = strings.NewReplacer(pairs...)
	s.triplet = strings.NewReplacer(recipe.Triplet(m.Arch), "{triplet}")
	return s
}

var identifiers = regexp.MustCompile(`[0-9a-f]{64}`)

func (s *shortener) short(text string) string {
	return identifiers.ReplaceAllString(s.triplet.Replace(s.replace.Replace(text)), "{id}")
}

// origin is an entry's without the version.
func (s *shortener) origin(e *rootfs.Entry) string {
	f := strings.Fields(e.Origin)
	if len(f) > 2 || len(f) == 2 && strings.HasPrefix(f[1], "linux-image") {
		f = f[:2]
	}
	switch {
	case e.Origin == "preloaded images":
		return e.Origin
	case len(f) > 1 && strings.HasPrefix(f[1], "linux-image-"):
		return "deb linux-image"
	}
	return strings.Join(f, " ")
}

// why is an entry's reason. There are hundreds of modules, with a reason each.
func (s *shortener) why(e *rootfs.Entry) string {
	if s.origin(e) == "deb linux-image" {
		return "kernel modules: those of the recipe's `kernel`, each with its reason there, and what they need"
	}
	return s.short(e.Reason)
}

// shown is the name under which an entry is listed, or "" if another stands for it.
func (s *shortener) shown(e *rootfs.Entry) string {
	switch {
	case e.Kind == rootfs.Dir && e.Origin != "builder", s.target[e.Path]:
		return ""
	case e.Origin == "preloaded images":
		return "usr/lib/garboard/images/**"
	case strings.Contains(e.Path, "/kernel/"):
		return strings.TrimSuffix(s.short(e.Path[:strings.Index(e.Path, "/kernel/")]), "/") + "/kernel/**"
	case s.crowded[e.Origin+" "+path.Dir(e.Path)] > manyFiles && strings.HasPrefix(e.Origin, "deb "):
		return s.short(path.Dir(e.Path)) + "/*" + path.Ext(e.Path)
	}
	return s.short(e.Path)
}
