package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
)

func TestParseKernelImage(t *testing.T) {
	digest := "sha256:" + strings.Repeat("ab", 32)
	for _, tt := range []struct {
		origin, name string
		ok, fails    bool
	}{
		{"oci docker.io/linuxkit/kernel:6.12.52 " + digest, "docker.io/linuxkit/kernel:6.12.52", true, false},
		{"oci my layout " + digest, "my layout", true, false},
		{"deb linux-image-6.12.1-amd64 6.12.1-1", "", false, false},
		{"oci layout", "", false, true},
		{"oci layout 6.12", "", false, true},
	} {
		k, ok, err := ParseKernelImage(tt.origin, "6.12.52")
		if ok != tt.ok || (err != nil) != tt.fails || k.Name != tt.name {
			t.Errorf("%q: %+v, %t, %v", tt.origin, k, ok, err)
		}
		if ok && (k.Digest != digest || k.Version != "6.12.52") {
			t.Errorf("%q: %+v", tt.origin, k)
		}
	}
}

// The kernel's image is an ingredient by name, digest and version, in a list that the
// schema takes.
func TestSBOMNamesTheKernelImage(t *testing.T) {
	schema := cycloneSchema(t)
	digest := "sha256:" + strings.Repeat("ab", 32)
	for _, tt := range []struct{ name, purl string }{
		{"docker.io/linuxkit/kernel:6.12.52", "pkg:oci/kernel@sha256%3A" + strings.Repeat("ab", 32) + "?repository_url=docker.io%2Flinuxkit%2Fkernel&tag=6.12.52"},
		{"localhost:5000/my/Kernel@" + digest, "pkg:oci/kernel@sha256%3A" + strings.Repeat("ab", 32) + "?repository_url=localhost%3A5000%2Fmy%2FKernel"},
		{"layout", ""},
	} {
		m := sample()
		m.Packages = slices.DeleteFunc(m.Packages, func(p Package) bool { return strings.HasPrefix(p.Name, "linux-image-") })
		m.KernelImage = &KernelImage{Name: tt.name, Digest: digest, Version: "6.12.52-linuxkit", Files: 3, Bytes: 1000}
		b, err := m.SBOM()
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(schema, b); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		bom := decode(t, b)
		i := slices.IndexFunc(*bom.Components, func(c cyclonedx.Component) bool { return c.BOMRef == "kernel-image" })
		if i < 0 {
			t.Fatalf("%s: no kernel image in\n%s", tt.name, b)
		}
		c := (*bom.Components)[i]
		if c.Name != tt.name || c.Version != "6.12.52-linuxkit" || (*c.Hashes)[0].Value != strings.Repeat("ab", 32) {
			t.Errorf("%s: the component is %+v", tt.name, c)
		}
		if plain := strings.ReplaceAll(strings.ReplaceAll(c.PackageURL, "%3A", ":"), "%2F", "/"); plain != strings.ReplaceAll(strings.ReplaceAll(tt.purl, "%3A", ":"), "%2F", "/") {
			t.Errorf("%s: package URL %s, want %s", tt.name, c.PackageURL, tt.purl)
		}
		for _, d := range *bom.Dependencies {
			if d.Ref == "image" && !slices.Contains(*d.Dependencies, "kernel-image") {
				t.Errorf("%s: the image does not depend on its kernel", tt.name)
			}
		}
	}
}
