package debian

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/xi2/xz"
	"pault.ag/go/debian/control"
	"pault.ag/go/debian/deb"
	"pault.ag/go/debian/dependency"

	"garboard.local/builder/store"
)

// SourceID names a source package.
type SourceID struct{ Name, Version string }

func (s SourceID) String() string { return s.Name + " " + s.Version }

// Source is a source package as an index lists it: the .dsc and what it names.
type Source struct {
	SourceID
	Files []SourceFile
}

// SourceFile is one file of a source package.
type SourceFile struct {
	Name    string
	SHA256  string
	Size    int64  // bytes
	path    string // below the mirror
	archive string
}

// NoSourceError is source packages that no suite lists any more: a point
// release superseded them. Debian's snapshot archive keeps everything.
type NoSourceError struct{ Missing []SourceID }

func (e *NoSourceError) Error() string {
	var out []string
	for _, m := range e.Missing {
		out = append(out, fmt.Sprintf("%s", m))
	}
	return "superseded, and in Debian's snapshot archive only: " + strings.Join(out, ", ")
}

// Sources finds source packages in the archive's Sources indexes, which its
// signature vouches for. What none lists is a *NoSourceError beside the others.
func (a *Archive) Sources(ctx context.Context, ids []SourceID) ([]Source, error) {
	want := map[SourceID]bool{}
	for _, id := range ids {
		want[id] = true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []Source
	for _, s := range a.Suites {
		if len(want) == 0 {
			break
		}
		rel, err := a.release(ctx, s)
		if err != nil {
			return nil, err
		}
		for i, c := range components {
			name := c + "/source/Sources.xz"
			f, ok := rel.files[name]
			if !ok && i > 0 {
				continue
			}
			if !ok {
				return nil, fmt.Errorf("suite %s: its InRelease lists no %s", s.Name, name)
			}
			dist := "dists/" + s.Name + "/"
			paths := []string{dist + name}
			if rel.byHash {
				paths = []string{dist + c + "/source/by-hash/SHA256/" + f.sum, dist + name}
			}
			blob, err := a.fetch(ctx, wanted{name: s.Name + " " + name, archive: s.Archive, paths: paths, sum: f.sum, size: f.size})
			if err != nil {
				return nil, err
			}
			found, err := readSources(blob, s.Archive, want)
			if err != nil {
				return nil, fmt.Errorf("suite %s %s: %w", s.Name, name, err)
			}
			for _, src := range found {
				delete(want, src.SourceID)
				out = append(out, src)
			}
		}
	}
	slices.SortFunc(out, func(a, b Source) int { return strings.Compare(a.String(), b.String()) })
	if len(want) > 0 {
		e := &NoSourceError{}
		for id := range want {
			e.Missing = append(e.Missing, id)
		}
		slices.SortFunc(e.Missing, func(a, b SourceID) int { return strings.Compare(a.String(), b.String()) })
		return out, e
	}
	return out, nil
}

func readSources(blob, archive string, want map[SourceID]bool) ([]Source, error) {
	in, err := os.Open(blob)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	z, err := xz.NewReader(bufio.NewReader(in), debLimits.window)
	if err != nil {
		return nil, err
	}
	return parseSources(z, archive, want)
}

// parseSources reads the wanted paragraphs of a Sources file.
func parseSources(in io.Reader, archive string, want map[SourceID]bool) ([]Source, error) {
	r, err := control.NewParagraphReader(in, nil)
	if err != nil {
		return nil, err
	}
	var out []Source
	for {
		p, err := r.Next()
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		s := Source{SourceID: SourceID{p.Values["Package"], p.Values["Version"]}}
		if !want[s.SourceID] {
			continue
		}
		for line := range strings.Lines(p.Values["Checksums-Sha256"]) {
			f := strings.Fields(line)
			if len(f) == 0 {
				continue
			}
			file, err := sourceFile(p.Values["Directory"], archive, f)
			if err != nil {
				return nil, fmt.Errorf("source %s: %w", s, err)
			}
			s.Files = append(s.Files, file)
		}
		if !slices.ContainsFunc(s.Files, func(f SourceFile) bool { return strings.HasSuffix(f.Name, ".dsc") }) {
			return nil, fmt.Errorf("source %s: its Checksums-Sha256 name no .dsc", s)
		}
		out = append(out, s)
	}
}

func sourceFile(dir, archive string, f []string) (SourceFile, error) {
	if len(f) != 3 || !isSHA256(f[0]) || path.Base(f[2]) != f[2] || strings.HasPrefix(f[2], ".") {
		return SourceFile{}, fmt.Errorf("malformed line %q", f)
	}
	size, err := strconv.ParseInt(f[1], 10, 64)
	if err != nil || size <= 0 || size > maxDeb {
		return SourceFile{}, fmt.Errorf("malformed size in %q", f)
	}
	p := path.Join(dir, f[2])
	if path.IsAbs(dir) || !strings.HasPrefix(p, "pool/") {
		return SourceFile{}, fmt.Errorf("directory %q is not pool/...", dir)
	}
	return SourceFile{Name: f[2], SHA256: f[0], Size: size, path: p, archive: archive}, nil
}

// PoolFile is a file of a source package that the caller has pinned: dir is below
// the mirror (pool/main/e/edk2), size in bytes. Upstream's archive (.orig) is there as long as
// any suite has a revision of that version, whichever the lock names.
func PoolFile(dir, name, sha256 string, size int64) (SourceFile, error) {
	return sourceFile(dir, BaseArchive, []string{sha256, strconv.FormatInt(size, 10), name})
}

// FetchSource makes sure that the store holds a file of a source package and
// returns its path.
func (a *Archive) FetchSource(ctx context.Context, f SourceFile) (string, error) {
	return a.fetch(ctx, wanted{name: f.Name, archive: f.archive, paths: []string{f.path}, sum: f.SHA256, size: f.Size})
}

// BuiltUsing are the source packages beside its own that a package whose .deb is
// in the store was built from (Debian Policy 7.8): the signed kernel names the
// kernel proper.
func BuiltUsing(st *store.Store, p Package) ([]SourceID, error) {
	in, err := os.Open(st.Blob(p.SHA256))
	if err != nil {
		return nil, fmt.Errorf("package %s: not fetched: %w", p.Name, err)
	}
	defer in.Close()
	ar, err := deb.LoadAr(in)
	if err != nil {
		return nil, fmt.Errorf("package %s: %w", p.Name, err)
	}
	for {
		m, err := ar.Next()
		if err != nil {
			return nil, fmt.Errorf("package %s: no control.tar: %w", p.Name, err)
		}
		if !strings.HasPrefix(m.Name, "control.tar") {
			continue
		}
		c, err := readControl(m, debLimits)
		if err != nil {
			return nil, fmt.Errorf("package %s: %w", p.Name, err)
		}
		out, err := parseBuiltUsing(c.BuiltUsing)
		if err != nil {
			return nil, fmt.Errorf("package %s: Built-Using: %w", p.Name, err)
		}
		return out, nil
	}
}

func parseBuiltUsing(field string) ([]SourceID, error) {
	if strings.TrimSpace(field) == "" {
		return nil, nil
	}
	d, err := dependency.Parse(field)
	if err != nil {
		return nil, err
	}
	var out []SourceID
	for _, rel := range d.Relations {
		for _, p := range rel.Possibilities {
			if p.Version == nil || p.Version.Operator != "=" || !validName(p.Name) {
				return nil, errors.New("it names no exact version of " + p.Name)
			}
			out = append(out, SourceID{p.Name, p.Version.Number})
		}
	}
	return out, nil
}
