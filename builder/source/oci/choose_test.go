package oci_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"garboard.local/builder/source/oci"
	"garboard.local/builder/source/oci/ocitest"
)

// label is an image of which one file says what it is.
func label(arch, what string) v1.Image {
	return ocitest.Image(arch, ocitest.Tar(map[string][]byte{what: nil}))
}

// item is an image or an index in a layout, with names.
type item struct {
	what     mutate.Appendable
	ref      string // org.opencontainers.image.ref.name
	full     string // io.containerd.image.name
	platform string
}

func index(items ...item) v1.ImageIndex {
	out := v1.ImageIndex(empty.Index)
	for _, i := range items {
		d := v1.Descriptor{Annotations: map[string]string{}}
		if i.ref != "" {
			d.Annotations["org.opencontainers.image.ref.name"] = i.ref
		}
		if i.full != "" {
			d.Annotations["io.containerd.image.name"] = i.full
		}
		if i.platform != "" {
			system, arch, _ := strings.Cut(i.platform, "/")
			d.Platform = &v1.Platform{OS: system, Architecture: arch}
		}
		out = mutate.AppendManifests(out, mutate.IndexAddendum{Add: i.what, Descriptor: d})
	}
	return out
}

func layoutDir(t *testing.T, items ...item) string {
	t.Helper()
	dir := t.TempDir()
	if _, err := layout.Write(dir, index(items...)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func savedFile(t *testing.T, images map[string]v1.Image) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "save.tar")
	if err := ocitest.Saved(file, images); err != nil {
		t.Fatal(err)
	}
	return file
}

// nameless takes a name out of what docker save writes.
func nameless(t *testing.T, file, name string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// In a tar the length must stay; white space means nothing in JSON.
	old, err := json.Marshal([]string{name})
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Replace(b, old, []byte("[]"+strings.Repeat(" ", len(old)-2)), 1)
	if bytes.Equal(b, changed) {
		t.Fatalf("%s has no %s", file, old)
	}
	if err := os.WriteFile(file, changed, 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// One rule says which image is meant, in whatever form they come.
func TestChoice(t *testing.T) {
	one, two, arm := label("amd64", "one"), label("amd64", "two"), label("arm64", "arm")
	ref := func(name string, img v1.Image) item { return item{what: img, ref: name} }
	full := func(name, ref string, img v1.Image) item { return item{what: img, full: name, ref: ref} }
	pair := layoutDir(t, ref("1", one), ref("2", two))
	artifact := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), "application/vnd.example.signature.v1+json")
	savedPair := savedFile(t, map[string]v1.Image{"localhost/x:1": one, "localhost/x:2": two})
	deep := index(ref("", one))
	for range 5 {
		deep = index(item{what: deep})
	}
	for _, c := range []struct {
		title, place string
		name         string
		must         bool
		want         string // the file in the image; "" is an error
		err          string
	}{
		{"a single image needs no name", layoutDir(t, ref("else", one)), "localhost/x:1", false, "one", ""},
		{"nor a name of its own", layoutDir(t, ref("", one)), "localhost/x:1", false, "one", ""},
		{"nor in what docker save writes", savedFile(t, map[string]v1.Image{"localhost/y:9": one}), "localhost/x:1", false, "one", ""},
		{"unless it must have it", layoutDir(t, ref("else", one)), "localhost/x:1", true, "", `no image for linux/amd64 that is named "localhost/x:1"; named are else: ask for one of those`},
		{"and there", savedFile(t, map[string]v1.Image{"localhost/y:9": one}), "localhost/x:1", true, "", "named are localhost/y:9"},
		{"the architecture comes first", layoutDir(t, ref("1", arm), ref("2", one)), "localhost/x:1", false, "one", ""},
		{"of names too", savedFile(t, map[string]v1.Image{"localhost/x:1": arm, "localhost/x:2": one}), "localhost/x:1", false, "one", ""},
		{"by the tag", pair, "localhost/x:2", false, "two", ""},
		{"by the annotation's words", pair, "2", true, "two", ""},
		{"by the full name before the tag", layoutDir(t, ref("localhost/x:1", one), ref("1", two)), "localhost/x:1", false, "one", ""},
		{"by containerd's name", layoutDir(t, full("docker.io/library/a:1", "1", one), full("docker.io/library/b:1", "1", two)), "docker.io/library/b:1", false, "two", ""},
		{"whose tag alone says nothing", layoutDir(t, full("docker.io/library/a:1", "1", one), full("docker.io/library/b:2", "2", two)), "docker.io/library/c:2", false, "", "holds 2 images for linux/amd64 and none is named docker.io/library/c:2"},
		{"a short name is a full one", savedFile(t, map[string]v1.Image{"nginx:1": one, "other:1": two}), "docker.io/library/nginx:1", false, "one", ""},
		{"by RepoTags", savedPair, "localhost/x:2", false, "two", ""},
		{"not by their tags alone", savedPair, "localhost/y:2", false, "", "holds 2 images for linux/amd64 and none is named localhost/y:2, but localhost/x:1, localhost/x:2; keep one, or save it under that name"},
		{"none of the name", pair, "localhost/x:3", false, "", "none is named localhost/x:3, but 1, 2; keep one, or save it under that name"},
		{"no tag is no tag", layoutDir(t, ref("", one), ref("latest", two)), "localhost/x", false, "", "none is named localhost/x"},
		{"no name", pair, "", false, "", "it holds 2 images for linux/amd64: 1, 2; keep one"},
		{"no names at all", layoutDir(t, ref("", one), ref("", two)), "localhost/x:1", false, "", "none is named localhost/x:1, but sha256:"},
		{"two of one name", layoutDir(t, ref("1", one), ref("1", two)), "localhost/x:1", false, "", "2 images for linux/amd64 that localhost/x:1 can mean"},
		{"one under two names", layoutDir(t, ref("1", one), ref("2", one)), "localhost/x:3", false, "one", ""},
		{"one under two names, by the second", layoutDir(t, ref("1", one), ref("2", one), ref("3", two)), "localhost/x:2", false, "one", ""},
		{"in an index of the name", layoutDir(t, item{what: ocitest.Index(one, arm), ref: "1"}, ref("2", two)), "localhost/x:1", false, "one", ""},
		{"attestations and signatures are none", layoutDir(t, ref("1", one), item{what: two, ref: "1", platform: "unknown/unknown"}, ref("1", artifact)), "localhost/x:1", false, "one", ""},
		{"a configuration knows better than an index", layoutDir(t, item{what: arm, platform: "linux/amd64"}, ref("", one)), "", false, "one", ""},
		{"a tag is no short name", layoutDir(t, ref("nginx", one), ref("2", two)), "docker.io/library/nginx:latest", false, "", "none is named docker.io/library/nginx:latest"},
		{"a short name in a layout", layoutDir(t, ref("nginx:latest", one), ref("2", two)), "docker.io/library/nginx:latest", false, "one", ""},
		{"attestations are for no platform", layoutDir(t, ref("1", arm), item{what: two, platform: "unknown/unknown"}), "", false, "", "only for linux/arm64; fetch"},
		{"a signature alone", layoutDir(t, ref("1", artifact)), "", false, "", "it holds no image"},
		{"nothing", layoutDir(t), "localhost/x:1", false, "", "it holds no image"},
		{"nothing for it", layoutDir(t, ref("1", arm), item{what: one, platform: "windows/amd64"}), "localhost/x:1", true, "", "no image for linux/amd64, only for linux/arm64, windows/amd64; fetch it with --platform linux/amd64"},
		{"saved for another", savedFile(t, map[string]v1.Image{"localhost/x:1": arm}), "localhost/x:1", false, "", "no image for linux/amd64, only for linux/arm64; fetch it with --platform linux/amd64"},
		{"saved, one without a name", nameless(t, savedFile(t, map[string]v1.Image{"localhost/x:1": one, "localhost/x:2": two}), "localhost/x:1"), "localhost/x:2", false, "two", ""},
		{"saved, the one without a name", nameless(t, savedFile(t, map[string]v1.Image{"localhost/x:1": one, "localhost/x:2": arm}), "localhost/x:1"), "localhost/x:1", false, "", "has no name, by which alone one of several can be taken"},
		{"too deep", layoutDir(t, item{what: deep}), "", false, "", "nested more than 4 deep"},
	} {
		t.Run(c.title, func(t *testing.T) {
			i, err := oci.Open(c.place, oci.Choice{Arch: "amd64", Name: c.name, Must: c.must}, t.TempDir())
			if c.want == "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || !strings.HasPrefix(err.Error(), "image "+c.place+": ") {
					t.Errorf("error %v, want one that says %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			checkFile(t, i, c.want)
		})
	}
}

// checkFile looks whether an image is the one that a file in it names, and whole.
func checkFile(t *testing.T, i *oci.Image, want string) {
	t.Helper()
	layers, diffIDs, err := oci.Layers(i)
	if err != nil || len(layers) != 1 {
		t.Fatal(len(layers), err)
	}
	h, _, err := v1.SHA256(bytes.NewReader(ocitest.Tar(map[string][]byte{want: nil})))
	if err != nil || diffIDs[0] != h {
		t.Errorf("this is not %s: its layer is %s, not %s, %v", want, diffIDs[0], h, err)
	}
	if err := i.Verify(); err != nil {
		t.Error(err)
	}
	id, err := i.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	if got, _, err := v1.SHA256(bytes.NewReader(i.ConfigBytes)); err != nil || got != id {
		t.Errorf("configuration %s, want %s, %v", got, id, err)
	}
	sum := id
	if i.ManifestBytes != nil {
		if sum, _, err = v1.SHA256(bytes.NewReader(i.ManifestBytes)); err != nil {
			t.Fatal(err)
		}
	}
	if sum.String() != i.Sum {
		t.Errorf("it stands for %s, which has %s", i.Sum, sum)
	}
}

// A configuration that knows more layers than there are is no image's.
func TestLayers(t *testing.T) {
	img := label("amd64", "one")
	c, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c = c.DeepCopy()
	c.RootFS.DiffIDs = append(c.RootFS.DiffIDs, c.RootFS.DiffIDs[0])
	if img, err = mutate.ConfigFile(img, c); err != nil {
		t.Fatal(err)
	}
	i, err := oci.Open(layoutDir(t, item{what: img}), amd64, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := i.Verify(); err == nil || !strings.Contains(err.Error(), "it has 1 layers, and its configuration knows 2: the image is damaged") {
		t.Errorf("error %v", err)
	}
}

// What vouches for an image is looked at when it is opened.
func TestDamage(t *testing.T) {
	img := label("amd64", "one")
	of := ocitest.Index(img)
	list, lerr := of.Digest()
	manifest, err := img.Digest()
	config, cerr := img.ConfigName()
	if err := errors.Join(err, cerr, lerr); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		damage v1.Hash
		want   string
	}{{"index", list, "its index has digest sha256:"}, {"manifest", manifest, "its manifest has digest sha256:"}, {"configuration", config, "its configuration has digest sha256:"}} {
		for what, i := range map[string]item{"alone": {what: img}, "with its platform": {what: img, platform: "linux/amd64"}, "in an index": {what: of}} {
			if c.damage == list && i.what != of {
				continue
			}
			t.Run(c.name+" "+what, func(t *testing.T) {
				dir := layoutDir(t, i)
				blob := filepath.Join(dir, "blobs", c.damage.Algorithm, c.damage.Hex)
				b, err := os.ReadFile(blob)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(blob, append(b, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
				if _, err := oci.Open(dir, amd64, t.TempDir()); err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasSuffix(err.Error(), "not "+c.damage.String()+": the image is damaged, fetch it again") {
					t.Errorf("error %v, want %q", err, c.want)
				}
				if err := os.Remove(blob); err != nil {
					t.Fatal(err)
				}
				if _, err := oci.Open(dir, amd64, t.TempDir()); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("it is gone: %v", err)
				}
			})
		}
	}
}
