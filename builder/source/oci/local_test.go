package oci_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"garboard.local/builder/source/oci"
	"garboard.local/builder/source/oci/ocitest"
)

var amd64 = oci.Choice{Arch: "amd64"}

// archive is the tar of a layout with an image for amd64, and further files.
func archive(t testing.TB, more map[string][]byte) []byte {
	t.Helper()
	dir := t.TempDir()
	img := ocitest.Image("amd64", ocitest.Tar(map[string][]byte{"app": []byte("program")}))
	if err := ocitest.Layout(dir, ocitest.Index(img)); err != nil {
		t.Fatal(err)
	}
	files, err := ocitest.Files(dir)
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(files, more)
	return ocitest.Tar(files)
}

func save(t testing.TB, b []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "image.tar")
	if err := os.WriteFile(file, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestUnpackKeepsInside(t *testing.T) {
	file := save(t, archive(t, map[string][]byte{"../escaped": {1}, "/absolute": {2}, "blobs/sha256/../../up": {3}, "stray": {4}}))
	root := t.TempDir()
	temp := filepath.Join(root, "a", "b")
	if err := os.MkdirAll(temp, 0o755); err != nil {
		t.Fatal(err)
	}
	img, err := oci.Open(file, amd64, temp)
	if err != nil {
		t.Fatal(err)
	}
	made, err := filepath.Glob(filepath.Join(temp, "oci-*"))
	if err != nil || len(made) != 1 {
		t.Fatal(made, err)
	}
	var got []string
	if err := filepath.WalkDir(root, func(p string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(made[0], p)
			got = append(got, rel)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, p := range got {
		if p != "oci-layout" && p != "index.json" && !strings.HasPrefix(p, "blobs/sha256/") {
			t.Errorf("unpacked %q", p)
		}
	}
	if len(got) < 5 {
		t.Errorf("unpacked only %q", got)
	}
	if err := img.Close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	whole := archive(t, nil)
	for name, c := range map[string]struct {
		b    []byte
		arch string
		want string
	}{
		"nothing":            {nil, "amd64", "neither oci-layout nor manifest.json"},
		"no tar":             {[]byte(strings.Repeat("no archive ", 100)), "amd64", "no archive (tar)"},
		"cut short":          {whole[:len(whole)/2], "amd64", "unexpected EOF"},
		"list of no images":  {ocitest.Tar(map[string][]byte{"manifest.json": []byte("[{")}), "amd64", "its manifest.json, which docker save writes: "},
		"other architecture": {whole, "arm64", "no image for linux/arm64, only for linux/amd64; fetch it with --platform linux/arm64"},
		"index not JSON":     {archive(t, map[string][]byte{"index.json": []byte("{")}), "amd64", "its index: "},
	} {
		t.Run(name, func(t *testing.T) {
			temp := t.TempDir()
			img, err := oci.Open(save(t, c.b), oci.Choice{Arch: c.arch}, temp)
			if err == nil {
				img.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// What Layout writes is the image.
func TestLayout(t *testing.T) {
	from, err := oci.Open(save(t, archive(t, nil)), amd64, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	dir := t.TempDir()
	if err := from.Layout(dir); err != nil {
		t.Fatal(err)
	}
	to, err := oci.Open(dir, amd64, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := to.Verify(); err != nil || to.Sum != from.Sum {
		t.Errorf("%s, want %s: %v", to.Sum, from.Sum, err)
	}
	// Other bytes in a layer are seen.
	if err := ocitest.Replace(dir, to, ocitest.Gzip(ocitest.Tar(map[string][]byte{"app": []byte("Program")}))); err != nil {
		t.Fatal(err)
	}
	if err := to.Verify(); err == nil || !strings.Contains(err.Error(), "layer 0: unpacked it has digest") {
		t.Errorf("a damaged layer: %v", err)
	}
}
