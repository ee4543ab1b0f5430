package licence

import (
	"regexp"
	"strings"

	"github.com/github/go-spdx/v2/spdxexp/spdxlicenses"
	"github.com/google/licensecheck"
)

// Debian reads the copyright file of a Debian package: in the machine-readable
// format (https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/),
// or as text that names licences of /usr/share/common-licenses or holds them
// whole. Paragraphs on debian/* alone speak of the packaging and are left out.
func Debian(copyright []byte) Finding {
	paras := paragraphs(string(copyright))
	if len(paras) > 0 && strings.Contains(paras[0]["format"], "/copyright-format/") {
		var terms []string
		for i, p := range paras {
			if _, files := p["files"]; i > 0 && (!files || packagingOnly(p["files"])) {
				continue // a licence's text, or the packaging
			}
			short, _, _ := strings.Cut(p["license"], "\n")
			if short = strings.TrimSpace(short); short != "" {
				terms = append(terms, debianTerms(short)...)
			}
		}
		if f := finding(MachineReadable, terms); f.Source != Unknown {
			return f
		}
	}
	return finding(FreeText, textTerms(copyright))
}

// paragraphs reads fields by their lower-case names. Nothing is an error: a
// copyright file is for people first, and what is not a field is passed over.
func paragraphs(text string) []map[string]string {
	var out []map[string]string
	var cur map[string]string
	field := ""
	for line := range strings.Lines(strings.ReplaceAll(text, "\r\n", "\n")) {
		line = strings.TrimRight(line, " \t\n")
		switch {
		case line == "":
			cur, field = nil, ""
		case line[0] == ' ' || line[0] == '\t':
			if field != "" {
				cur[field] += "\n" + strings.TrimSpace(line)
			}
		case line[0] != '#':
			name, value, ok := strings.Cut(line, ":")
			if field = ""; !ok || strings.ContainsAny(name, " \t") {
				continue
			}
			if cur == nil {
				cur = map[string]string{}
				out = append(out, cur)
			}
			field = strings.ToLower(name)
			cur[field] = strings.TrimSpace(value)
		}
	}
	return out
}

func packagingOnly(files string) bool {
	patterns := strings.Fields(files)
	for _, p := range patterns {
		if !strings.HasPrefix(strings.TrimSuffix(p, ","), "debian/") {
			return false
		}
	}
	return len(patterns) > 0
}

var (
	commaAnd = regexp.MustCompile(`(?i),\s+and\s+`)
	andOp    = regexp.MustCompile(`(?i)\s+and\s+`)
	orOp     = regexp.MustCompile(`(?i),?\s+or\s+|\|`)
)

// debianTerms translates a short name: "and" binds stronger than "or", but weaker
// after a comma (section 7.2 of the format).
func debianTerms(short string) []string {
	var out []string
	for _, part := range commaAnd.Split(short, -1) {
		var choice []string
		all := []string{}
		for _, alternative := range orOp.Split(part, -1) {
			all = all[:0:0]
			for _, name := range andOp.Split(alternative, -1) {
				if name = strings.Trim(name, " ,"); name != "" {
					all = append(all, spdx(name))
				}
			}
			switch len(all) {
			case 0:
			case 1:
				choice = append(choice, all[0])
			default:
				choice = append(choice, "("+strings.Join(all, " AND ")+")")
			}
		}
		if len(choice) == 1 {
			out = append(out, all...)
		} else if len(choice) > 1 {
			out = append(out, strings.Join(choice, " OR "))
		}
	}
	return out
}

// debianNames are short names of the copyright format, and spellings that
// Debian's packages have, whose SPDX identifier is another. Keys are in lower case.
var debianNames = map[string]string{
	"expat": "MIT", "mit-x11": "MIT", "mit/x11": "MIT", "apache-2": "Apache-2.0", "artistic": "Artistic-1.0-Perl",
	"bsd-2-clause": "BSD-2-Clause", "bsd-3-clause": "BSD-3-Clause", "bsd-4-clause": "BSD-4-Clause", "bsd-2-clause-netbsd": "BSD-2-Clause",
	"x11": "X11", "isc": "ISC", "zlib": "Zlib", "cc0": "CC0-1.0", "bsl-1.0": "BSL-1.0", "0bsd": "0BSD", "fsfap": "FSFAP", "fsfullr": "FSFULLR",
	"mpl-1.1": "MPL-1.1", "mpl-2.0": "MPL-2.0", "afl-2.0": "AFL-2.0", "apache-2.0": "Apache-2.0", "cc0-1.0": "CC0-1.0", "beerware": "Beerware",
	"cc-by-sa-3.0": "CC-BY-SA-3.0", "cc-by-sa-4.0": "CC-BY-SA-4.0", "bzip2-1.0.6": "bzip2-1.0.6", "unicode-dfs-2016": "Unicode-DFS-2016",
	"latex2e": "Latex2e", "apache-2.0 with llvm exception": "Apache-2.0 WITH LLVM-exception",
	"gpl-2 with linux-syscall-note exception": "GPL-2.0-only WITH Linux-syscall-note",
}

var gnu = regexp.MustCompile(`^(?i)(A|L)?GPL-([0-9])(?:\.([0-9]))?(?:-only)?(\+|-or-later)?$`)

// exceptions are GNU's, as SPDX names them for GPL version 2 and 3.
var exceptions = regexp.MustCompile(`^(?i)(.*GPL.*?)\s+with\s+(.*?)\s+exception$`)

var exceptionNames = map[string]string{"autoconf": "Autoconf-exception-generic", "libtool": "Libtool-exception", "bison": "Bison-exception-2.2", "gcc runtime library": "GCC-exception-3.1"}

// spdx is the SPDX identifier of one of Debian's short names.
func spdx(name string) string {
	if id, ok := debianNames[strings.ToLower(name)]; ok {
		return id
	}
	if m := gnu.FindStringSubmatch(name); m != nil {
		minor := m[3]
		if minor == "" {
			minor = "0"
		}
		id := strings.ToUpper(m[1]) + "GPL-" + m[2] + "." + minor
		if m[4] != "" {
			id += "-or-later"
		} else {
			id += "-only"
		}
		if ok, _ := spdxlicenses.IsActiveLicense(id); ok {
			return id
		}
	}
	if m := exceptions.FindStringSubmatch(name); m != nil {
		if x := exceptionNames[strings.ToLower(m[2])]; x != "" {
			if base := spdx(m[1]); !strings.HasPrefix(base, "LicenseRef-") {
				return base + " WITH " + x
			}
		}
	}
	return ref(name)
}

var commonLicence = regexp.MustCompile(`/usr/share/common-licenses/([A-Za-z0-9.+-]*[A-Za-z0-9+])`)

// textTerms finds licences in text: those it refers to in
// /usr/share/common-licenses, and those whose words it holds.
func textTerms(text []byte) []string {
	var out []string
	for _, m := range commonLicence.FindAllSubmatch(text, -1) {
		out = append(out, spdx(string(m[1])))
	}
	for _, m := range licensecheck.Scan(text).Match {
		if !m.IsURL {
			out = append(out, known(m.ID))
		}
	}
	return out
}
