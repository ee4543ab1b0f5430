package oci_test

import (
	"bytes"
	"io"
	"maps"
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"garboard.local/builder/source/oci"
	"garboard.local/builder/source/oci/ocitest"
)

// FuzzOpen gives archives that others might have written. What is opened can be
// read or says why not.
func FuzzOpen(f *testing.F) {
	f.Add(archive(f, nil))
	f.Add(ocitest.Tar(map[string][]byte{"manifest.json": []byte(`[{"Config":"c","RepoTags":null,"Layers":["l"]}]`), "c": []byte("{}"), "l": nil}))
	f.Add(ocitest.Tar(map[string][]byte{"oci-layout": []byte("{}"), "index.json": []byte(`{"manifests":[{"mediaType":"application/vnd.oci.image.index.v1+json","digest":"sha256:x"}]}`)}))
	f.Fuzz(func(t *testing.T, b []byte) {
		try(t, save(t, b), oci.Choice{Arch: "amd64", Name: "localhost/x:1"})
	})
}

// FuzzChoice lets others write the list of the images that are there, index.json of a
// layout and manifest.json of docker save.
func FuzzChoice(f *testing.F) {
	dir := f.TempDir()
	one, two, arm := label("amd64", "one"), label("amd64", "two"), label("arm64", "arm")
	if _, err := layout.Write(dir, index(item{what: one, ref: "1"}, item{what: two, full: "localhost/x:2", platform: "linux/amd64"}, item{what: ocitest.Index(one, arm), ref: "localhost/x:3"})); err != nil {
		f.Fatal(err)
	}
	blobs, err := ocitest.Files(dir)
	if err != nil {
		f.Fatal(err)
	}
	saved := filepath.Join(f.TempDir(), "save.tar")
	if err := ocitest.Saved(saved, map[string]v1.Image{"localhost/x:1": one, "localhost/x:2": two}); err != nil {
		f.Fatal(err)
	}
	b, err := os.ReadFile(saved)
	if err != nil {
		f.Fatal(err)
	}
	parts, err := ocitest.Untar(b)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(blobs["index.json"], "localhost/x:1", false)
	f.Add(blobs["index.json"], "localhost/x:2", true)
	f.Add(blobs["index.json"], "localhost/x:3", true)
	f.Add(parts["manifest.json"], "localhost/x:2", false)
	f.Fuzz(func(t *testing.T, list []byte, name string, must bool) {
		for at, files := range map[string]map[string][]byte{"index.json": blobs, "manifest.json": parts} {
			files = maps.Clone(files)
			files[at] = list
			try(t, save(t, ocitest.Tar(files)), oci.Choice{Arch: "amd64", Name: name, Must: must})
		}
	})
}

// try opens an image: what comes of it is for the architecture, and its manifest and
// configuration are those that its digest stands for.
func try(t *testing.T, file string, w oci.Choice) {
	t.Helper()
	temp := t.TempDir()
	i, err := oci.Open(file, w, temp)
	if err == nil {
		look(t, i)
		err = i.Close()
		if err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func look(t *testing.T, i *oci.Image) {
	t.Helper()
	c, err := v1.ParseConfigFile(bytes.NewReader(i.ConfigBytes))
	if err != nil || c.OS != "linux" || c.Architecture != "amd64" {
		t.Errorf("configuration %q: %v", i.ConfigBytes, err)
	}
	vouches := i.ConfigBytes
	if i.ManifestBytes != nil {
		vouches = i.ManifestBytes
	}
	if h, _, err := v1.SHA256(bytes.NewReader(vouches)); err != nil || h.String() != i.Sum {
		t.Errorf("it stands for %s, and has %s, %v", i.Sum, h, err)
	}
	layers, err := i.Layers()
	if err != nil {
		return
	}
	for _, l := range layers {
		drain(l)
	}
}

func drain(l v1.Layer) {
	r, err := l.Uncompressed()
	if err != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, r, 1<<20) // errors are what damaged layers are for
	_ = r.Close()
}
