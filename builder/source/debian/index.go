package debian

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/xi2/xz"
	"pault.ag/go/debian/control"
	"pault.ag/go/debian/dependency"
	"pault.ag/go/debian/version"
)

// indexFormat names the form of the reduced index in the cache.
const indexFormat = "1"

// indexFields are the fields of a Packages file that are looked at; the reduced
// copy in the cache holds no others and is a third of the size.
var indexFields = []string{"Package", "Source", "Version", "Architecture", "Priority", "Depends", "Pre-Depends", "Provides", "Filename", "Size", "SHA256"}

// record is a package as an index lists it. Relations stay text until wanted.
type record struct {
	Package
	version  version.Version
	depends  string // Pre-Depends and Depends
	provides string
	priority int // 0 required ... 4 extra

	// resolved is set for a kept package that no index lists any more: only the
	// names in Package.Depends are known of its relations.
	resolved bool
}

// reducePackages decompresses a Packages.xz and writes the fields that matter to dir.
func reducePackages(blob, dir string) (err error) {
	in, err := os.Open(blob)
	if err != nil {
		return err
	}
	defer in.Close()
	z, err := xz.NewReader(bufio.NewReader(in), debLimits.window)
	if err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(dir, "Packages"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	out := bufio.NewWriter(f)
	r, err := control.NewParagraphReader(z, nil)
	if err != nil {
		return err
	}
	for {
		p, err := r.Next()
		if err == io.EOF {
			return out.Flush()
		}
		if err != nil {
			return err
		}
		for _, k := range indexFields {
			if v := p.Values[k]; v != "" {
				fmt.Fprintf(out, "%s: %s\n", k, strings.Join(strings.Fields(v), " "))
			}
		}
		fmt.Fprintln(out)
	}
}

func readPackages(dir, archive string) ([]record, error) {
	f, err := os.Open(filepath.Join(dir, "Packages"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parsePackages(f, archive)
}

func parsePackages(in io.Reader, archive string) ([]record, error) {
	r, err := control.NewParagraphReader(in, nil)
	if err != nil {
		return nil, err
	}
	var out []record
	for {
		p, err := r.Next()
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		rec, err := newRecord(p.Values, archive)
		if err != nil {
			return nil, err
		}
		out = append(out, rec)
	}
}

func newRecord(v map[string]string, archive string) (record, error) {
	r := record{
		Package: Package{
			Name: v["Package"], Version: v["Version"], Architecture: v["Architecture"],
			SHA256: v["SHA256"], File: v["Filename"], Archive: archive,
		},
		provides: v["Provides"],
		priority: slices.Index([]string{"required", "important", "standard", "optional"}, v["Priority"]),
	}
	if r.priority < 0 {
		r.priority = 4
	}
	r.depends = strings.Trim(v["Pre-Depends"]+", "+v["Depends"], ", ")
	r.Source, r.SourceVersion = parseSource(v["Source"], r.Name, r.Version)
	var err error
	if r.Size, err = strconv.ParseInt(v["Size"], 10, 64); err != nil {
		return r, fmt.Errorf("package %s: size: %w", r.Name, err)
	}
	if r.version, err = version.Parse(r.Version); err != nil {
		return r, fmt.Errorf("package %s: version: %w", r.Name, err)
	}
	return r, r.Validate()
}

// parseSource reads a Source field (Debian Policy 5.6.1): a name, then the
// version in parentheses where it differs; nothing where both are the same.
func parseSource(field, name, ver string) (string, string) {
	src, rest, _ := strings.Cut(field, " ")
	if src == "" {
		src = name
	}
	if v := strings.Trim(rest, " ()"); v != "" {
		ver = v
	}
	return src, ver
}

// index is every package of one architecture.
type index struct {
	where    string               // for errors: "trixie/main amd64"
	byName   map[string][]*record // highest version first
	provided map[string][]*record // by the names they provide
}

func newIndex(where string, parts ...[]record) *index {
	ix := &index{where: where, byName: map[string][]*record{}, provided: map[string][]*record{}}
	for _, part := range parts {
		for i := range part {
			r := &part[i]
			ix.byName[r.Name] = append(ix.byName[r.Name], r)
		}
	}
	for _, l := range ix.byName {
		slices.SortStableFunc(l, func(a, b *record) int { return version.Compare(b.version, a.version) })
		// Only the highest version counts as a provider.
		for p := range strings.SplitSeq(l[0].provides, ",") {
			if f := strings.FieldsFunc(p, func(r rune) bool { return strings.ContainsRune(" :(", r) }); len(f) > 0 {
				ix.provided[f[0]] = append(ix.provided[f[0]], l[0])
			}
		}
	}
	for _, l := range ix.provided {
		slices.SortFunc(l, func(a, b *record) int {
			return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(a.Name, b.Name))
		})
	}
	return ix
}

// satisfies says whether the record, under its own name or one that it provides,
// satisfies the possibility. A version asked of a provided name is satisfied
// only by a versioned Provides (Debian Policy 7.5).
func (r *record) satisfies(p dependency.Possibility) bool {
	if r.Name == p.Name {
		return p.Version == nil || p.Version.SatisfiedBy(r.version)
	}
	if !strings.Contains(r.provides, p.Name) {
		return false
	}
	provides, err := dependency.Parse(r.provides)
	if err != nil {
		return false
	}
	for _, q := range provides.GetAllPossibilities() {
		if q.Name != p.Name {
			continue
		}
		if p.Version == nil {
			return true
		}
		if q.Version == nil || q.Version.Operator != "=" {
			continue
		}
		if v, err := version.Parse(q.Version.Number); err == nil && p.Version.SatisfiedBy(v) {
			return true
		}
	}
	return false
}
