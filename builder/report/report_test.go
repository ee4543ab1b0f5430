package report

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"garboard.local/builder/rootfs"
)

func TestSumsAreSortedAndReadable(t *testing.T) {
	got := string(Sums([]Artefact{{Name: "b", SHA256: "22"}, {Name: "a", SHA256: "11"}}))
	if want := "11  a\n22  b\n"; got != want {
		t.Errorf("%q, want %q (two spaces, as sha256sum -c reads it)", got, want)
	}
}

func TestManifestRoundTrip(t *testing.T) {
	m := Manifest{Recipe: "node", Arch: "amd64", Root: []*rootfs.Entry{
		{Path: "usr", Kind: rootfs.Dir, Mode: 0o755, Origin: "deb a", Reason: "r"},
		{Path: "usr/x", Kind: rootfs.File, Mode: 0o644, Size: 3, Origin: "deb a", Reason: "r"},
		{Path: "usr/y", Kind: rootfs.File, Mode: 0o644, Size: 9, Origin: "deb b", Reason: "r"},
	}}
	b, err := m.JSON()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := ReadManifest(dir); err == nil || !strings.Contains(err.Error(), "garboard build") {
		t.Errorf("no manifest: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, ManifestName), b, 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := ReadManifest(dir)
	if err != nil || got.Recipe != "node" || len(got.Root) != 3 {
		t.Fatalf("%+v, %v", got, err)
	}
	want := []Origin{{"deb b", 1, 9}, {"deb a", 1, 3}}
	if o := got.Origins(); !reflect.DeepEqual(o, want) {
		t.Errorf("origins %v, want %v: largest first, directories do not count", o, want)
	}
	if err := os.WriteFile(filepath.Join(dir, ManifestName), b[:len(b)/2], 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadManifest(dir); err == nil || !strings.Contains(err.Error(), ManifestName) {
		t.Errorf("half a manifest: %v", err)
	}
}

func sha(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}
