package report

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
	"github.com/package-url/packageurl-go"

	"garboard.local/builder/licence"
)

// SBOMName is the name of the bill of materials beside the artefacts.
const SBOMName = "sbom.cdx.json"

// Names of our own properties; CycloneDX reserves no prefix that would fit.
const (
	propSource      = "garboard:debian:source"
	propSourceVer   = "garboard:debian:source-version"
	propFiles       = "garboard:files"
	propBytes       = "garboard:bytes"
	propLicenceFrom = "garboard:licence-from"
	propGoSum       = "garboard:go:sum"
	propGo          = "garboard:go:toolchain"
	propArch        = "garboard:arch"
	propKernel      = "garboard:kernel"
	propDigest      = "garboard:oci:digest"
)

// SBOM is the image's bill of materials in CycloneDX 1.6, as JSON: the Debian
// packages and the Go programs and modules that are in the image. It is a
// function of the manifest alone; its serial number is derived from its content.
func (m *Manifest) SBOM() ([]byte, error) {
	bom := cyclonedx.NewBOM()
	image := cyclonedx.Component{
		BOMRef: "image", Type: cyclonedx.ComponentTypeOS, Name: m.Recipe,
		Description: "bootable Kubernetes node image",
		Properties:  props(propArch, m.Arch, propKernel, m.Kernel),
	}
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: m.Time.UTC().Format(time.RFC3339),
		Component: &image,
		Tools:     &cyclonedx.ToolsChoice{Components: &[]cyclonedx.Component{{Type: cyclonedx.ComponentTypeApplication, Name: "garboard"}}},
	}
	parts := map[string]cyclonedx.Component{}
	needs := map[string][]string{}
	for _, p := range m.Packages {
		c := p.component()
		parts[c.BOMRef] = c
		needs["image"] = append(needs["image"], c.BOMRef)
		needs[c.BOMRef] = []string{}
		for _, d := range p.Depends {
			needs[c.BOMRef] = append(needs[c.BOMRef], debRef(d))
		}
	}
	for _, p := range m.Programs {
		c := p.component()
		parts[c.BOMRef] = c
		needs["image"] = append(needs["image"], c.BOMRef)
		std := stdlib(p.Go)
		for _, mod := range append(slices.Clone(p.Modules), std) {
			mc := mod.component()
			parts[mc.BOMRef] = mc
			needs[c.BOMRef] = append(needs[c.BOMRef], mc.BOMRef)
			needs[mc.BOMRef] = []string{}
		}
	}
	if m.KernelImage != nil {
		c := m.KernelImage.component()
		parts[c.BOMRef] = c
		needs["image"] = append(needs["image"], c.BOMRef)
		needs[c.BOMRef] = []string{}
	}
	for _, i := range m.Images {
		c := i.component()
		parts[c.BOMRef] = c
		needs["image"] = append(needs["image"], c.BOMRef)
		needs[c.BOMRef] = []string{}
	}
	components := slices.SortedFunc(maps.Values(parts), func(a, b cyclonedx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	bom.Components = &components
	var deps []cyclonedx.Dependency
	for _, ref := range slices.Sorted(maps.Keys(needs)) {
		on := slices.Compact(slices.Sorted(slices.Values(needs[ref])))
		d := cyclonedx.Dependency{Ref: ref}
		if len(on) > 0 {
			d.Dependencies = &on
		}
		deps = append(deps, d)
	}
	bom.Dependencies = &deps

	unnumbered, err := encode(bom)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(unnumbered)
	bom.SerialNumber = "urn:uuid:" + uuid.NewSHA1(uuid.NameSpaceOID, sum[:]).String()
	return encode(bom)
}

func encode(bom *cyclonedx.BOM) ([]byte, error) {
	var b bytes.Buffer
	e := cyclonedx.NewBOMEncoder(&b, cyclonedx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false)
	if err := e.EncodeVersion(bom, cyclonedx.SpecVersion1_6); err != nil {
		return nil, fmt.Errorf("sbom: %w", err)
	}
	return b.Bytes(), nil
}

func debRef(name string) string { return "deb:" + name }

func (p Package) component() cyclonedx.Component {
	c := cyclonedx.Component{
		BOMRef: debRef(p.Name), Type: cyclonedx.ComponentTypeLibrary, Name: p.Name, Version: p.Version, Description: p.Description,
		PackageURL: packageurl.NewPackageURL("deb", "debian", p.Name, p.Version, packageurl.Qualifiers{{Key: "arch", Value: p.Arch}}, "").ToString(),
		Hashes:     &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: p.SHA256}},
		Licenses:   licences(p.Licence),
		Properties: props(propSource, p.Source, propSourceVer, p.SourceVersion, propFiles, strconv.Itoa(p.Files),
			propBytes, strconv.FormatInt(p.Bytes, 10), propLicenceFrom, p.LicenceFrom),
	}
	if strings.HasPrefix(p.Name, "linux-image-") {
		c.Type = cyclonedx.ComponentTypeOS
	} else if !strings.HasPrefix(p.Name, "lib") {
		c.Type = cyclonedx.ComponentTypeApplication
	}
	if p.Maintainer != "" {
		c.Supplier = &cyclonedx.OrganizationalEntity{Name: p.Maintainer}
	}
	refs := []cyclonedx.ExternalReference{{Type: cyclonedx.ERTypeDistribution, URL: p.URL()}}
	if p.Homepage != "" {
		refs = append(refs, cyclonedx.ExternalReference{Type: cyclonedx.ERTypeWebsite, URL: p.Homepage})
	}
	c.ExternalReferences = &refs
	return c
}

// URL is where Debian publishes the package while it is current; afterwards
// Debian's snapshot archive has it.
func (p Package) URL() string {
	if p.Archive == "debian-security" {
		return "http://security.debian.org/debian-security/" + p.File
	}
	return "http://ftp.debian.org/debian/" + p.File
}

func (p Program) component() cyclonedx.Component {
	c := cyclonedx.Component{
		BOMRef: "program:" + p.Name, Type: cyclonedx.ComponentTypeApplication, Name: p.Name, Version: p.Version,
		Hashes:     &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: p.SHA256}},
		Properties: props(propGo, p.Go, propBytes, strconv.FormatInt(p.Size, 10)),
	}
	for _, m := range p.Modules {
		if m.Path == p.Module {
			c.Licenses = licences(m.Licence)
		}
	}
	if p.Patched != "" {
		c.Pedigree = &cyclonedx.Pedigree{Notes: "compiled from " + p.Module + " with what lies in " + p.Patched}
	}
	return c
}

// ref tells a module with our changes from the same one without.
func (m Module) ref() string {
	r := "go:" + m.Key()
	if m.Patched || m.Replace != "" {
		r += "#changed"
	}
	return r
}

func (m Module) component() cyclonedx.Component {
	c := cyclonedx.Component{
		BOMRef: m.ref(), Type: cyclonedx.ComponentTypeLibrary, Name: m.Path, Version: m.Version,
		Licenses: licences(m.Licence),
	}
	name := m.Path[strings.LastIndex(m.Path, "/")+1:]
	c.PackageURL = packageurl.NewPackageURL("golang", strings.TrimSuffix(strings.TrimSuffix(m.Path, name), "/"), name, m.Version, nil, "").ToString()
	kv := []string{propLicenceFrom, m.LicenceFrom}
	if m.Sum != "" {
		kv = append(kv, propGoSum, m.Sum)
	}
	c.Properties = props(kv...)
	switch {
	case m.Patched:
		c.Pedigree = &cyclonedx.Pedigree{Notes: "patched"}
	case m.Replace != "":
		c.Pedigree = &cyclonedx.Pedigree{Notes: "replaced by " + m.Replace}
	}
	return c
}

// stdlib is Go's own library and runtime, which are in every program.
func stdlib(version string) Module {
	return Module{Path: "std", Version: version, Licence: "BSD-3-Clause", LicenceFrom: "LICENSE of the Go distribution"}
}

// licences is one licence by its SPDX identifier, or an expression.
func licences(expression string) *cyclonedx.Licenses {
	switch {
	case expression == "" || expression == licence.NoAssertion:
		return nil
	case strings.HasPrefix(expression, "LicenseRef-") && !strings.Contains(expression, " "):
		return &cyclonedx.Licenses{{License: &cyclonedx.License{Name: expression}}}
	case !strings.Contains(expression, " "):
		return &cyclonedx.Licenses{{License: &cyclonedx.License{ID: expression}}}
	}
	return &cyclonedx.Licenses{{Expression: expression}}
}

// props makes properties of names and values in turn.
func props(kv ...string) *[]cyclonedx.Property {
	var out []cyclonedx.Property
	for i := 0; i+1 < len(kv); i += 2 {
		out = append(out, cyclonedx.Property{Name: kv[i], Value: kv[i+1]})
	}
	return &out
}
