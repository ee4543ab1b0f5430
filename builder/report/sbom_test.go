package report

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"garboard.local/builder/rootfs"
)

var update = flag.Bool("update", false, "rewrite golden files")

func sample() *Manifest {
	return &Manifest{
		Recipe: "node", Arch: "amd64", Compression: "fast", Kernel: "6.12.1-amd64", Time: time.Date(2026, 11, 29, 18, 32, 20, 0, time.UTC),
		Packages: []Package{
			{Name: "crun", Version: "1:1.21-1+b3", Arch: "amd64", Source: "crun", SourceVersion: "1:1.21-1", SHA256: strings.Repeat("ab", 32),
				File: "pool/main/c/crun/crun_1.21-1+b3_amd64.deb", Archive: "debian", Description: "OCI runtime", Homepage: "https://example.org/crun",
				Maintainer: "Somebody <s@example.org>", Licence: "GPL-2.0-or-later AND (Apache-2.0 OR LGPL-2.1-or-later)", LicenceFrom: "debian/copyright",
				Copyleft: true, Depends: []string{"libc6"}, Files: 1, Bytes: 1000},
			{Name: "libc6", Version: "2.41-12", Arch: "amd64", Source: "glibc", SourceVersion: "2.41-12", SHA256: strings.Repeat("cd", 32),
				File: "pool/updates/main/g/glibc/libc6_2.41-12_amd64.deb", Archive: "debian-security", Licence: "NOASSERTION", LicenceFrom: "none found", Files: 5, Bytes: 7},
			{Name: "linux-image-6.12.1-amd64", Version: "6.12.1-1", Arch: "amd64", Source: "linux", SourceVersion: "6.12.1-1", SHA256: strings.Repeat("ef", 32),
				File: "pool/x.deb", Archive: "debian", Licence: "LicenseRef-odd", Files: 2, Bytes: 9},
		},
		Programs: []Program{
			{Name: "kubelet", Module: "k8s.io/kubernetes", Version: "v1.36.3", Go: "1.26.8", SHA256: strings.Repeat("01", 32), Size: 5, Patched: "overlays/src/kubelet", Modules: []Module{
				{Path: "github.com/x/y/v2", Version: "v2.0.1", Sum: "h1:abc=", Licence: "MIT"},
				{Path: "k8s.io/kubernetes", Version: "v1.36.3", Patched: true, Licence: "Apache-2.0"},
			}},
			{Name: "init", Module: "garboard.local", Go: "1.26.8", SHA256: strings.Repeat("02", 32), Size: 6, Modules: []Module{
				{Path: "garboard.local", Licence: "Apache-2.0"},
				{Path: "github.com/x/y/v2", Version: "v2.0.1", Sum: "h1:abc=", Licence: "MIT"},
				{Path: "gopkg.in/z", Version: "v1.0.0", Replace: "overlays/src/z", Licence: "Apache-2.0"},
			}},
		},
		Root: []*rootfs.Entry{}, Early: []*rootfs.Entry{},
	}
}

func TestSBOM(t *testing.T) {
	const golden = "testdata/sbom.cdx.json"
	got, err := sample().SBOM()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("the sample's bill of materials is not %s (%v); -update rewrites it:\n%s", golden, err, got)
	}
	again, err := sample().SBOM()
	if err != nil || !bytes.Equal(got, again) {
		t.Error("two of the same manifest differ")
	}
	m := sample()
	m.Packages[0].Version = "1:1.21-1+b4"
	other, err := m.SBOM()
	if err != nil {
		t.Fatal(err)
	}
	if a, b := serial(t, got), serial(t, other); a == b || !strings.HasPrefix(a, "urn:uuid:") {
		t.Errorf("serial numbers %s and %s of two images that differ", a, b)
	}
}

func serial(t *testing.T, b []byte) string {
	t.Helper()
	bom := decode(t, b)
	return bom.SerialNumber
}

func decode(t *testing.T, b []byte) *cyclonedx.BOM {
	t.Helper()
	bom := new(cyclonedx.BOM)
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(b), cyclonedx.BOMFileFormatJSON).Decode(bom); err != nil {
		t.Fatal(err)
	}
	return bom
}

// TestSBOMFitsTheSchema validates with CycloneDX's own JSON schema, as it lies in
// the source of their Go module, and that references lead somewhere, which no
// schema can say. GARBOARD_IMAGES adds the outputs of real builds.
func TestSBOMFitsTheSchema(t *testing.T) {
	schema := cycloneSchema(t)
	got, err := sample().SBOM()
	if err != nil {
		t.Fatal(err)
	}
	check := func(name string, b []byte) {
		if err := validate(schema, b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		refs := map[string]bool{"image": true}
		bom := decode(t, b)
		for _, c := range *bom.Components {
			if refs[c.BOMRef] {
				t.Errorf("%s: two components are %s", name, c.BOMRef)
			}
			refs[c.BOMRef] = true
		}
		for _, d := range *bom.Dependencies {
			on := []string{d.Ref}
			if d.Dependencies != nil {
				on = append(on, *d.Dependencies...)
			}
			for _, r := range on {
				if !refs[r] {
					t.Errorf("%s: dependency on %s, which is no component", name, r)
				}
			}
		}
	}
	check("sample", got)
	if dir := os.Getenv("GARBOARD_IMAGES"); dir != "" {
		files, _ := filepath.Glob(filepath.Join(dir, "*", SBOMName))
		if len(files) == 0 {
			t.Errorf("no %s in %s", SBOMName, dir)
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			check(f, b)
		}
	}

	// The schema must be able to say no.
	for what, change := range map[string][2]string{
		"a licence that SPDX does not know": {`"id": "MIT"`, `"id": "MTI"`},
		"an unknown field":                  {`"bomFormat"`, `"bomForm"`},
		"an unknown type":                   {`"type": "application"`, `"type": "programme"`},
		"a hash of the wrong form":          {strings.Repeat("ab", 32), "ab"},
		"a serial number of the wrong form": {"urn:uuid:", "urn:uuid:x"},
	} {
		bad := bytes.Replace(got, []byte(change[0]), []byte(change[1]), 1)
		if bytes.Equal(bad, got) {
			t.Fatalf("%s: the sample has no %s", what, change[0])
		}
		if validate(schema, bad) == nil {
			t.Errorf("%s passes", what)
		}
	}
}

func validate(s *jsonschema.Schema, b []byte) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

func cycloneSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	for id, file := range map[string]string{"bom-1.6.schema.json": "bom-1.6.schema.json", "spdx.schema.json": "spdx.schema.json", "jsf-0.82.schema.json": "jsf-0.82.schemax.json"} {
		f, err := os.Open(filepath.Join(strings.TrimSpace(string(out)), "schema", file))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		doc, err := jsonschema.UnmarshalJSON(f)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if err := c.AddResource("http://cyclonedx.org/schema/"+id, doc); err != nil {
			t.Fatal(err)
		}
	}
	s, err := c.Compile("http://cyclonedx.org/schema/bom-1.6.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSBOMNamesEverything(t *testing.T) {
	b, err := sample().SBOM()
	if err != nil {
		t.Fatal(err)
	}
	var purls []string
	for _, c := range *decode(t, b).Components {
		purls = append(purls, c.PackageURL)
	}
	for _, want := range []string{
		"pkg:deb/debian/crun@1:1.21-1%2Bb3?arch=amd64", "pkg:golang/github.com/x/y/v2@v2.0.1",
		"pkg:golang/k8s.io/kubernetes@v1.36.3", "pkg:golang/std@1.26.8", "pkg:golang/garboard.local",
	} {
		if !slices.Contains(purls, want) {
			t.Errorf("no %s among %q", want, purls)
		}
	}
	var loose any
	if err := json.Unmarshal(b, &loose); err != nil {
		t.Fatal(err)
	}
}

// TestSumsAreWhatSha256sumReads has coreutils judge.
func TestSumsAreWhatSha256sumReads(t *testing.T) {
	dir := t.TempDir()
	var a []Artefact
	for name, body := range map[string]string{"vmlinuz": "k", "initramfs.img": "i", "node.efi": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
		a = append(a, Artefact{Name: name, SHA256: sha(body)})
	}
	if err := os.WriteFile(filepath.Join(dir, SumsName), Sums(a), 0o644); err != nil {
		t.Fatal(err)
	}
	run := func() ([]byte, error) {
		cmd := exec.Command("sha256sum", "--check", "--strict", SumsName)
		cmd.Dir = dir
		return cmd.CombinedOutput()
	}
	if out, err := run(); err != nil || bytes.Count(out, []byte(": OK")) != 3 {
		t.Errorf("sha256sum: %v\n%s", err, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "vmlinuz"), []byte("K"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := run(); err == nil {
		t.Errorf("sha256sum finds nothing wrong with a changed file:\n%s", out)
	}
}
