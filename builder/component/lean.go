package component

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// linkDump reads what the linker says with -dumpdep: one line
//
//	net/http.(*Client).Do -> net/url.(*URL).Redacted <UsedInIface>
//
// for each symbol that it keeps, with the first one found to need it. Other
// lines go to rest.
type linkDump struct {
	rest io.Writer
	part []byte

	parent  map[string]string // by symbol
	reflect map[string]bool   // symbols that look methods up by names made at run time
}

var symbolFlags = regexp.MustCompile(` (<(UsedInIface|ReflectMethod)>)+$`)

func (d *linkDump) Write(p []byte) (int, error) {
	d.part = append(d.part, p...)
	for {
		line, more, ok := bytes.Cut(d.part, []byte("\n"))
		if !ok {
			return len(p), nil
		}
		if err := d.line(string(line)); err != nil {
			return 0, err
		}
		d.part = more
	}
}

func (d *linkDump) line(line string) error {
	from, to, ok := strings.Cut(line, " -> ")
	if !ok {
		_, err := fmt.Fprintln(d.rest, line)
		return err
	}
	if d.parent == nil {
		d.parent, d.reflect = map[string]string{}, map[string]bool{}
	}
	name := symbolFlags.ReplaceAllString(to, "")
	if strings.Contains(to[len(name):], "<ReflectMethod>") {
		d.reflect[name] = true
	}
	// One go build may link several programs: the first chain is as good as another.
	if _, ok := d.parent[name]; !ok {
		d.parent[name] = symbolFlags.ReplaceAllString(from, "")
	}
	return nil
}

// check is an error if methods are looked up by names made at run time.
func (d *linkDump) check() error {
	if len(d.reflect) == 0 {
		return nil
	}
	var said, kept string
	for _, name := range slices.Sorted(maps.Keys(d.reflect)) {
		if strings.HasPrefix(name, "reflect.") { // a method of reflect's types, kept for the others
			kept += "\n" + d.chain(name)
		} else {
			said += "\n" + d.chain(name)
		}
	}
	return fmt.Errorf("the component is to be lean, but this code calls methods by name, for which the linker keeps every exported method:%s\npatch it out, or drop lean from component.yaml", cmp.Or(said, kept))
}

// chain says through what a symbol is reached, itself first.
func (d *linkDump) chain(name string) string {
	chain := []string{name}
	for name != "main.main" && len(chain) < 12 {
		p, ok := d.parent[name]
		if !ok || p == "_" {
			break
		}
		chain, name = append(chain, p), p
	}
	return strings.Join(chain, " <- ")
}
