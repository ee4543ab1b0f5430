package debian

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"pault.ag/go/debian/control"
)

// aptSource is one entry of apt's configuration, of either format (sources.list(5)).
type aptSource struct {
	types, uris, suites, components []string
	signedBy                        string
	disabled                        bool
}

// aptURIs lists the URIs of Debian's own archive in the sources.list, *.list and
// *.sources files below dir, in the order in which apt reads them. What apt is
// told about other archives is nobody's business here and skipped without a
// word, as are files that cannot be parsed: apt complains about those itself.
func aptURIs(dir string) ([]string, error) {
	files := []string{filepath.Join(dir, "sources.list")}
	entries, err := os.ReadDir(filepath.Join(dir, "sources.list.d"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("apt's sources: %w; name a mirror with --mirror", err)
	}
	for _, e := range entries {
		files = append(files, filepath.Join(dir, "sources.list.d", e.Name()))
	}
	var uris []string
	for _, f := range files {
		var parse func([]byte) []aptSource
		switch filepath.Ext(f) {
		case ".list":
			parse = parseOneLine
		case ".sources":
			parse = parseDeb822
		default:
			continue
		}
		b, err := os.ReadFile(f)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("apt's sources: %w; name a mirror with --mirror", err)
		}
		for _, s := range parse(b) {
			uris = append(uris, s.debianURIs()...)
		}
	}
	return uris, nil
}

// parseOneLine reads lines like: deb [signed-by=/x.gpg] http://host/debian trixie main
func parseOneLine(b []byte) []aptSource {
	var out []aptSource
	for line := range strings.Lines(string(b)) {
		line, _, _ = strings.Cut(line, "#")
		var s aptSource
		if head, rest, ok := strings.Cut(line, "["); ok {
			options, tail, ok := strings.Cut(rest, "]")
			if !ok {
				continue
			}
			for _, o := range strings.Fields(options) {
				if v, ok := strings.CutPrefix(strings.ToLower(o), "signed-by="); ok {
					s.signedBy = v
				}
			}
			line = head + " " + tail
		}
		if f := strings.Fields(line); len(f) >= 4 {
			s.types, s.uris, s.suites, s.components = f[:1], f[1:2], f[2:3], f[3:]
			out = append(out, s)
		}
	}
	return out
}

func parseDeb822(b []byte) []aptSource {
	r, err := control.NewParagraphReader(bytes.NewReader(b), nil)
	if err != nil {
		return nil
	}
	var out []aptSource
	for {
		p, err := r.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			return nil
		}
		var s aptSource
		for k, v := range p.Values {
			switch strings.ToLower(k) {
			case "types":
				s.types = strings.Fields(v)
			case "uris":
				s.uris = strings.Fields(v)
			case "suites":
				s.suites = strings.Fields(v)
			case "components":
				s.components = strings.Fields(v)
			case "signed-by":
				s.signedBy = v
			case "enabled":
				s.disabled = slices.Contains([]string{"no", "false", "off", "0", "without", "disable"}, strings.ToLower(strings.TrimSpace(v)))
			}
		}
		out = append(out, s)
	}
}

func debianSuite(s string) bool {
	return regexp.MustCompile(`^(stretch|buster|bullseye|bookworm|trixie|forky|duke|sid|unstable|testing|(old)*stable)([-/](updates|security|proposed-updates|backports.*))?$`).
		MatchString(s)
}

// debianURIs is the entry's URIs if the entry is Debian's: others also publish
// below a path that ends in /debian, but with their own suites, components or keys.
func (s aptSource) debianURIs() []string {
	if s.disabled || !slices.Contains(s.types, "deb") || !slices.Contains(s.components, "main") ||
		!slices.ContainsFunc(s.suites, debianSuite) {
		return nil
	}
	if s.signedBy != "" && !strings.Contains(s.signedBy, "debian-archive-") {
		return nil
	}
	var out []string
	for _, uri := range s.uris {
		uri = strings.TrimRight(uri, "/")
		u, err := url.Parse(uri)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			continue
		}
		if strings.HasSuffix(u.Path, "/"+BaseArchive) || strings.HasSuffix(u.Path, "/"+SecurityArchive) {
			out = append(out, uri)
		}
	}
	return out
}
