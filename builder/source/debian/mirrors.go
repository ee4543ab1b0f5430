package debian

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// The two archives that Debian publishes; Package.Archive is one of them.
const (
	BaseArchive     = "debian"
	SecurityArchive = "debian-security"
)

// Mirrors are the base URLs, without a slash at the end, below which dists/ and
// pool/ of each archive lie, in the order in which they are tried.
type Mirrors struct{ Base, Security []string }

// PublicMirrors are Debian's own, used where nothing else is configured.
func PublicMirrors() Mirrors {
	return Mirrors{
		Base:     []string{"http://ftp.debian.org/debian"},
		Security: []string{"http://security.debian.org/debian-security"},
	}
}

// DefaultMirrors chooses the mirrors: those of flag (--mirror) if any, else those
// named by env (the value of GARBOARD_MIRROR; separated by spaces or commas), else
// those of the apt configuration below aptDir (/etc/apt) that are Debian's, else
// PublicMirrors.
//
// A URL with /debian-security in its path is a mirror of the security archive, any
// other one of the base archive. Where a source names none for security, it is
// derived by replacing the final /debian with /debian-security.
func DefaultMirrors(flag []string, env, aptDir string) (Mirrors, error) {
	if len(flag) > 0 {
		return userMirrors("--mirror", flag)
	}
	if f := strings.FieldsFunc(env, func(r rune) bool { return strings.ContainsRune(", \t\n", r) }); len(f) > 0 {
		return userMirrors("GARBOARD_MIRROR", f)
	}
	uris, err := aptURIs(aptDir)
	if err != nil {
		return Mirrors{}, err
	}
	if m := sortMirrors(uris); len(m.Base) > 0 && len(m.Security) > 0 {
		return m, nil
	}
	return PublicMirrors(), nil
}

func userMirrors(origin string, urls []string) (Mirrors, error) {
	for _, s := range urls {
		u, err := url.Parse(s)
		if err != nil {
			return Mirrors{}, fmt.Errorf("%s: %w", origin, err)
		}
		if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return Mirrors{}, fmt.Errorf("%s: %q is not an http or https URL such as http://mirror.example/debian", origin, s)
		}
	}
	m := sortMirrors(urls)
	switch {
	case len(m.Base) == 0:
		return m, fmt.Errorf("%s: %s names no mirror of the base archive: add one that ends in /debian", origin, strings.Join(urls, " "))
	case len(m.Security) == 0:
		return m, fmt.Errorf("%s: no mirror of the security archive can be derived from %s: add one that ends in /debian-security", origin, strings.Join(urls, " "))
	}
	return m, nil
}

// sortMirrors divides URLs between the archives, drops repetitions and derives
// the security mirrors where none is given.
func sortMirrors(urls []string) Mirrors {
	var m Mirrors
	add := func(l *[]string, s string) {
		if !slices.Contains(*l, s) {
			*l = append(*l, s)
		}
	}
	for _, s := range urls {
		s = strings.TrimRight(s, "/")
		if strings.Contains(s+"/", "/"+SecurityArchive+"/") {
			add(&m.Security, s)
		} else {
			add(&m.Base, s)
		}
	}
	if len(m.Security) == 0 {
		for _, s := range m.Base {
			if head, ok := strings.CutSuffix(s, "/"+BaseArchive); ok {
				add(&m.Security, head+"/"+SecurityArchive)
			}
		}
	}
	return m
}

// of is the mirrors of one archive.
func (m Mirrors) of(archive string) []string {
	if archive == SecurityArchive {
		return m.Security
	}
	return m.Base
}
