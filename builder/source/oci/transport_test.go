package oci_test

import (
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"garboard.local/builder/source/oci"
	"garboard.local/builder/source/oci/ocitest"
	"garboard.local/builder/store"
)

// tarOf is the archive of a layout.
func tarOf(t *testing.T, dir string) string {
	t.Helper()
	files, err := ocitest.Files(dir)
	if err != nil {
		t.Fatal(err)
	}
	return save(t, ocitest.Tar(files))
}

// Places as containers-transports(5) names them.
func TestFind(t *testing.T) {
	one, two, arm := label("amd64", "one"), label("amd64", "two"), label("arm64", "arm")
	dir := layoutDir(t, item{what: one, ref: "one"}, item{what: ocitest.Index(two, arm), ref: "two"})
	archive, saved := tarOf(t, dir), savedFile(t, map[string]v1.Image{"localhost/a:1": one})
	several := savedFile(t, map[string]v1.Image{"localhost/a:1": one, "localhost/a:2": two})
	colon := filepath.Join(t.TempDir(), "a:b")
	if err := os.Symlink(layoutDir(t, item{what: one}), colon); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ place, arch, name, want, err string }{
		{"oci:" + dir + ":one", "amd64", "", "one", ""},
		{"oci:" + dir + ":two", "amd64", "one", "two", ""},
		{"oci:" + dir + ":two", "arm64", "", "arm", ""},
		{"oci:" + dir, "arm64", "", "arm", ""},
		{"oci:" + dir, "amd64", "localhost/x:one", "one", ""},
		{"oci:" + colon, "amd64", "", "one", ""},
		{"oci-archive:" + archive + ":two", "amd64", "", "two", ""},
		{"oci-archive:" + saved, "amd64", "", "one", ""},
		{"docker-archive:" + saved, "amd64", "", "one", ""},
		{"docker-archive:" + saved + ":localhost/a:1", "amd64", "", "one", ""},
		{"docker-archive:" + several, "amd64", "localhost/a:2", "two", ""},
		{"oci:" + dir + ":three", "amd64", "", "", "named are one, two"},
		{"oci:" + dir, "amd64", "", "", "holds 2 images for linux/amd64: one, two; keep one, or take one by its name, as oci:" + dir + ":NAME"},
		{"oci-archive:" + archive, "amd64", "", "", "or take one by its name, as oci-archive:" + archive + ":NAME"},
		{"oci:/nonexistent", "amd64", "", "", "no such file"},
		{"oci:" + saved, "amd64", "", "", "is oci-archive:FILE"},
		{"docker-archive:" + dir, "amd64", "", "", "is oci:DIR"},
		{"docker-archive:" + saved + ":localhost/b:1", "amd64", "", "", "localhost/b:1"},
		{"docker-archive:" + archive, "amd64", "", "", "its manifest.json, which docker save writes: file manifest.json not found"},
		{"tar:" + saved, "amd64", "", "", "is no way to name one"},
		{"alpine", "amd64", "", "", "name it as"},
		{"docker:alpine", "amd64", "", "", "//REGISTRY"},
	} {
		t.Run(c.place+" "+c.arch+" "+c.name, func(t *testing.T) {
			temp := t.TempDir()
			i, err := oci.Find(t.Context(), c.place, oci.Choice{Arch: c.arch, Name: c.name}, temp)
			if c.want == "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want one that says %q", err, c.err)
				}
			} else if err != nil {
				t.Fatal(err)
			} else {
				checkFile(t, i, c.want)
				if err := i.Close(); err != nil || i.Name != c.place {
					t.Errorf("%s: %v", i.Name, err)
				}
			}
			if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// What is kept needs no registry and no second unpacking, and is looked at again.
func TestCached(t *testing.T) {
	one, two, arm := label("amd64", "one"), label("amd64", "two"), label("arm64", "arm")
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	ref := strings.TrimPrefix(server.URL, "http://") + "/app:1"
	tag, err := name.NewTag(ref)
	if err != nil {
		t.Fatal(err)
	}
	push := func(items ...v1.Image) {
		t.Helper()
		if err := remote.WriteIndex(tag, ocitest.Index(items...)); err != nil {
			t.Fatal(err)
		}
	}
	push(one, two, arm)
	if _, err := oci.Resolve(t.Context(), ref, "amd64"); err == nil || !strings.Contains(err.Error(), "holds 2 images for linux/amd64") || !strings.Contains(err.Error(), "by its digest, as ") {
		t.Errorf("two for one architecture: %v", err)
	}
	push(one, arm)
	digest, err := oci.Resolve(t.Context(), ref, "amd64")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(tag, arm); err != nil {
		t.Fatal(err)
	}
	if _, err := oci.Resolve(t.Context(), ref, "amd64"); err == nil || !strings.Contains(err.Error(), "it has no image for linux/amd64, only for linux/arm64") {
		t.Errorf("an image alone, for another architecture: %v", err)
	}
	st, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	for n, cached := range []bool{false, true} {
		i, was, err := oci.Fetch(t.Context(), st, ref, digest, "amd64")
		if err != nil || was != cached || i.Sum != digest || i.Name != ref {
			t.Fatalf("%d: %+v %v %v", n, i, was, err)
		}
		checkFile(t, i, "one")
		server.Close()
	}
	archive := tarOf(t, layoutDir(t, item{what: one, ref: "1"}, item{what: two, ref: "2"}))
	for tag, want := range map[string]string{"1": "one", "2": "two"} {
		i, err := oci.OpenCached(t.Context(), st, archive, oci.Choice{Arch: "amd64", Name: "localhost/x:" + tag})
		if err != nil {
			t.Fatal(err)
		}
		checkFile(t, i, want)
		if err := errors.Join(i.Close(), i.Verify()); err != nil {
			t.Errorf("closed, it is still kept: %v", err)
		}
	}
	if _, err := oci.OpenCached(t.Context(), st, archive, amd64); err == nil || !strings.HasPrefix(err.Error(), "image "+archive+": it holds 2 images") {
		t.Errorf("which: %v", err)
	}
	// What is kept under a digest and has another is not taken.
	dir, _, err := st.Action(t.Context(), store.Key("oci layout 1", digest), nil)
	if err != nil {
		t.Fatal(err)
	}
	files, err := ocitest.Files(layoutDir(t, item{what: two}))
	if err != nil {
		t.Fatal(err)
	}
	for p, b := range files {
		p = filepath.Join(dir, p)
		if err := errors.Join(os.Chmod(filepath.Dir(p), 0o755), os.RemoveAll(p), os.WriteFile(p, b, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := oci.Fetch(t.Context(), st, ref, digest, "amd64"); err == nil || !strings.Contains(err.Error(), "the image is damaged, fetch it again") {
		t.Errorf("another image is kept: %v", err)
	}
}
