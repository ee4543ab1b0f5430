// Package licence says under which licences others' work stands: Debian
// packages by their copyright file, Go modules by the licence files at the top
// of their source. Licences are named by SPDX identifiers where there is one,
// else by LicenseRef-<name> (SPDX specification, annex D).
//
// What it says of a package is what its source declares as a whole, which may
// be more than holds for the files that an image has of it.
package licence

import (
	"regexp"
	"slices"
	"strings"

	"github.com/github/go-spdx/v2/spdxexp/spdxlicenses"
)

// Source is where a licence was found.
type Source string

// The sources.
const (
	MachineReadable Source = "debian/copyright, machine-readable"
	FreeText        Source = "debian/copyright, text"
	ModuleFiles     Source = "licence files of the module"
	Unknown         Source = "none found"
)

// Finding is the licences of one package or module.
type Finding struct {
	// Terms all apply; each is an SPDX expression: a name, or a choice such as
	// "BSD-2-Clause OR GPL-2.0-only". Sorted, without doubles.
	Terms  []string `json:"terms"`
	Source Source   `json:"source"`
}

// Expression joins the terms into one SPDX expression; "" where none was found.
func (f Finding) Expression() string {
	if len(f.Terms) == 1 {
		return f.Terms[0]
	}
	var out []string
	for _, t := range f.Terms {
		if strings.Contains(t, " OR ") {
			t = "(" + t + ")"
		}
		out = append(out, t)
	}
	return strings.Join(out, " AND ")
}

// NoAssertion is what a report says where nothing was found.
const NoAssertion = "NOASSERTION"

func finding(source Source, terms []string) Finding {
	slices.Sort(terms)
	terms = slices.Compact(terms)
	if len(terms) == 0 {
		return Finding{Terms: []string{}, Source: Unknown}
	}
	return Finding{Terms: terms, Source: source}
}

var notRef = regexp.MustCompile(`[^A-Za-z0-9.]+`)

// ref names a licence that SPDX has no identifier for.
func ref(name string) string {
	if name = strings.Trim(notRef.ReplaceAllString(name, "-"), "-"); name == "" {
		name = "unnamed"
	}
	return "LicenseRef-" + name
}

// known is a licence's identifier if SPDX lists it, else a LicenseRef. The
// detector has names of its own, and GNU's without "only", which SPDX gave up.
func known(id string) string {
	if ok, canonical := spdxlicenses.IsActiveLicense(id); ok {
		return canonical
	}
	if ok, canonical := spdxlicenses.IsActiveLicense(id + "-only"); ok {
		return canonical
	}
	return ref(id)
}

// Copyleft says whether the terms oblige to offer the source of what is
// distributed: any of the GPL, LGPL, AGPL, MPL, EPL and CDDL families.
func (f Finding) Copyleft() bool {
	for _, t := range f.Terms {
		for _, family := range []string{"GPL-", "MPL-", "EPL-", "CDDL-"} {
			if strings.Contains(t, family) || strings.HasPrefix(t, "LicenseRef-GPL") || strings.HasPrefix(t, "LicenseRef-LGPL") {
				return true
			}
		}
	}
	return false
}
