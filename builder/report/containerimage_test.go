package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
)

// A container image of others is an ingredient, in a list that the schema takes.
func TestSBOMNamesContainerImages(t *testing.T) {
	hex := strings.Repeat("cd", 32)
	m := sample()
	m.Images = []ContainerImage{
		{Name: "reg.example/team/App:2", Source: "reg.example/team/App:2", SourceDigest: "sha256:" + hex, Digest: "sha256:" + hex, ID: hex, Store: "/usr/lib/garboard/images", Bytes: 10},
		{Name: "x/local:1", Source: "local.tar", Digest: "sha256:" + hex, ID: hex, Store: "/var/lib/garboard/images", Bytes: 20},
	}
	b, err := m.SBOM()
	if err != nil {
		t.Fatal(err)
	}
	if err := validate(cycloneSchema(t), b); err != nil {
		t.Error(err)
	}
	bom := decode(t, b)
	var urls []string
	for _, c := range *bom.Components {
		if c.Type != cyclonedx.ComponentTypeContainer {
			continue
		}
		urls = append(urls, strings.ReplaceAll(strings.ReplaceAll(c.PackageURL, "%3A", ":"), "%2F", "/"))
		if c.Version != "sha256:"+hex || (*c.Hashes)[0].Value != hex {
			t.Errorf("%+v", c)
		}
		for _, d := range *bom.Dependencies {
			if d.Ref == "image" && !slices.Contains(*d.Dependencies, c.BOMRef) {
				t.Errorf("the image does not depend on %s", c.BOMRef)
			}
		}
	}
	if want := []string{"pkg:oci/app@sha256:" + hex + "?repository_url=reg.example/team/App&tag=2", ""}; !slices.Equal(urls, want) {
		t.Errorf("package URLs %q, want %q", urls, want)
	}
}
