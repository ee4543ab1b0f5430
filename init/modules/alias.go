package modules

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// aliases finds modules by what devices and the kernel call them. An image for
// real machines has some thousand, most of them patterns, and each device asks.
type aliases struct {
	// by holds them by what stands before a pattern's first wildcard: only those
	// whose beginning is a beginning of the name need be compared.
	by      map[string][]alias
	longest int
	count   int
	device  map[string]bool // modules that are drivers of devices on a bus
}

type alias struct {
	pattern, module string
	line            int
}

// busses are the beginnings of the aliases that devices have, as far as a module
// with one does nothing without its device (scripts/mod/file2alias.c).
var busses = []string{"pci:", "usb:", "hid:", "virtio:", "scsi:", "of:", "acpi", "pnp:", "platform:", "i2c:", "spi:", "mdio:", "mmc:",
	"sdio:", "input:", "serio:", "dmi", "wmi:", "vmbus:", "xen:", "xen_backend:", "cpu:", "auxiliary:", "mei:", "ishtp:", "pcmcia:", "ieee1394:", "typec:", "isa:", "eisa:", "parisc:", "ssb:", "bcma:", "rapidio:", "zorro:", "ipack:", "amba:", "tee:", "fsl_mc:", "fsl-mc:", "nd:", "dfl:", "cdx:"}

func (a *aliases) add(pattern, module string) {
	if a.by == nil {
		a.by, a.device = map[string][]alias{}, map[string]bool{}
	}
	for _, b := range busses {
		if strings.HasPrefix(pattern, b) {
			a.device[module] = true
		}
	}
	pattern = canonicalPattern(pattern)
	start := pattern
	if i := strings.IndexAny(pattern, `*?[\`); i >= 0 {
		start = pattern[:i]
	}
	a.count++
	a.longest = max(a.longest, len(start))
	a.by[start] = append(a.by[start], alias{pattern, module, a.count})
}

// find lists the modules with an alias that matches, in the index' order.
func (a *aliases) find(name string) []string {
	var found []alias
	for i := 0; i <= min(len(name), a.longest); i++ {
		for _, x := range a.by[name[:i]] {
			if x.pattern == name || match(x.pattern, name) {
				found = append(found, x)
			}
		}
	}
	slices.SortFunc(found, func(x, y alias) int { return cmp.Compare(x.line, y.line) })
	var out []string
	for _, x := range found {
		if !slices.Contains(out, x.module) {
			out = append(out, x.module)
		}
	}
	return out
}

// match is fnmatch(3) as modprobe uses it: path.Match without the special
// meaning of '/', which no alias but a device tree's has.
func match(pattern, s string) bool {
	if strings.Contains(s, "/") {
		pattern, s = strings.ReplaceAll(pattern, "/", "\x01"), strings.ReplaceAll(s, "/", "\x01")
	}
	ok, err := path.Match(pattern, s)
	return ok && err == nil
}

// canonicalPattern is canonical outside brackets, where '-' means a range.
func canonicalPattern(p string) string {
	if !strings.Contains(p, "[") {
		return canonical(p)
	}
	b := []byte(p)
	in := false
	for i, c := range b {
		switch {
		case c == '[':
			in = true
		case c == ']':
			in = false
		case c == '-' && !in:
			b[i] = '_'
		}
	}
	return string(b)
}
