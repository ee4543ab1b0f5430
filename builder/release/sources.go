package release

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"garboard.local/builder/licence"
	"garboard.local/builder/report"
)

// Source is a Debian source package and what of it is shipped.
type Source struct {
	Name, Version string
	Packages      []string
}

// SourcesText lists the sources that must be offered with the images, and says
// how to get them: of Debian packages and of Go modules under copyleft licences.
func SourcesText(debian []Source, manifests []*report.Manifest) []byte {
	var b bytes.Buffer
	fmt.Fprint(&b, `# Corresponding sources of what the images hold under the GPL, LGPL, MPL and their
# like. All of it can be fetched and verified, in a clone of Garboard's repository:
#
#     garboard sources *.manifest.json --output sources
#
# Without Garboard, from Debian: apt-get source NAME=VERSION. What Debian has
# superseded stays in Debian's snapshot archive, under name and version.
#
# Debian source packages: name, version, packages in the images, address
`)
	for _, s := range debian {
		fmt.Fprintf(&b, "%s %s (%s)\n", s.Name, s.Version, strings.Join(s.Packages, ", "))
	}
	kernels := map[string]string{}
	for _, m := range manifests {
		if k := m.KernelImage; k != nil {
			kernels[fmt.Sprintf("%s (Linux %s) %s", k.Name, k.Version, k.Digest)] = ""
		}
	}
	if len(kernels) > 0 {
		b.WriteString("#\n# Linux out of OCI images, under the GPL: Garboard cannot fetch the source; who made the image has it\n")
		for _, line := range slices.Sorted(maps.Keys(kernels)) {
			fmt.Fprintln(&b, line)
		}
	}
	images := map[string]string{}
	for _, m := range manifests {
		for _, i := range m.Images {
			images[i.Name+" from "+i.Source+" "+cmp.Or(i.SourceDigest, i.Digest)] = ""
		}
	}
	if len(images) > 0 {
		b.WriteString("#\n# Container images of others: Garboard does not know what is in them; who made them has the sources\n")
		for _, line := range slices.Sorted(maps.Keys(images)) {
			fmt.Fprintln(&b, line)
		}
	}
	mods := map[string]string{}
	for _, m := range manifests {
		for _, p := range m.Programs {
			for _, x := range p.Modules {
				if x.Version == "" || !(licence.Finding{Terms: []string{x.Licence}}).Copyleft() {
					continue
				}
				line := x.Key() + " (" + x.Licence + ")"
				if x.Patched || x.Replace != "" {
					line += ", changed: the changes are in Garboard's repository"
				}
				mods[line] = ""
			}
		}
	}
	if len(mods) > 0 {
		b.WriteString("#\n# Go modules: `go mod download MODULE@VERSION` fetches one\n")
		for _, line := range slices.Sorted(maps.Keys(mods)) {
			fmt.Fprintln(&b, line)
		}
	}
	return b.Bytes()
}
