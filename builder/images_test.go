package builder

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"garboard.local/builder/lock"
	"garboard.local/builder/progress"
	"garboard.local/builder/recipe"
	"garboard.local/builder/rootfs"
	"garboard.local/builder/source/oci/ocitest"
	"garboard.local/builder/store"
)

// imageBuild is a build of nothing but container images.
func imageBuild(t *testing.T, r recipe.Recipe) *build {
	t.Helper()
	st, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return &build{Options: Options{Store: st, Progress: progress.Lines(io.Discard), Lock: &lock.Lock{}}, arch: "amd64", recipe: &r, epoch: time.Unix(1, 0), tree: rootfs.New()}
}

// app is an image of others for both architectures; the one for arm64 must not be taken.
func app(content string) []v1.Image {
	return []v1.Image{
		ocitest.Image("amd64", ocitest.Tar(map[string][]byte{"bin/app": []byte(content)})),
		ocitest.Image("arm64", ocitest.Tar(map[string][]byte{"bin/app": []byte("for another machine")})),
	}
}

// layoutArchive is a layout in a tar archive.
func layoutArchive(t *testing.T, images ...v1.Image) string {
	t.Helper()
	dir := t.TempDir()
	if err := ocitest.Layout(dir, ocitest.Index(images...)); err != nil {
		t.Fatal(err)
	}
	files, err := ocitest.Files(dir)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "app.tar")
	if err := os.WriteFile(file, ocitest.Tar(files), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestImagesOfOthers(t *testing.T) {
	dir := t.TempDir()
	if err := ocitest.Layout(dir, ocitest.Index(app("in a directory")...)); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	ref := strings.TrimPrefix(server.URL, "http://") + "/team/app:2"
	tag, err := name.NewTag(ref)
	if err != nil {
		t.Fatal(err)
	}
	pushed := app("in a registry")
	if err := remote.WriteIndex(tag, ocitest.Index(pushed...)); err != nil {
		t.Fatal(err)
	}
	digest, err := pushed[0].Digest()
	if err != nil {
		t.Fatal(err)
	}

	b := imageBuild(t, recipe.Recipe{
		Images: []recipe.Image{{Name: "example.com/dir:1", OCI: dir, Reason: "r"}},
		Disk: recipe.Disk{Images: []recipe.Image{
			{Name: "example.com/archive:1", OCI: layoutArchive(t, app("in an archive")...), Reason: "r"},
			{Name: "example.com/registry:1", OCI: ref, Reason: "r"},
		}},
	})
	if err := b.fetchImages(t.Context()); err == nil || !strings.Contains(err.Error(), "garboard lock") {
		t.Fatalf("an image that the lock does not pin: %v", err)
	}
	b.Lock.OCI = map[string]map[string]string{ref: {"amd64": digest.String()}}
	if err := b.fetchImages(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.Close() // from now on the cache has it
	if err := b.fetchImages(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.layImages(t.Context()); err != nil {
		t.Fatal(err)
	}
	contents := func(list []rootfs.Entry, below string) (found []string) {
		for _, e := range list {
			if !strings.HasPrefix(e.Path, below) {
				t.Errorf("%s does not lie below %s", e.Path, below)
			}
			if strings.HasSuffix(e.Path, "/diff/bin/app") {
				found = append(found, content(t, &e))
			}
		}
		return found
	}
	if got := contents(b.images.root, "usr/lib/garboard/images"); len(got) != 1 || got[0] != "in a directory" {
		t.Errorf("in the root image: %q", got)
	}
	got := strings.Join(contents(b.images.data, "lib/garboard/images"), ", ")
	if !strings.Contains(got, "in an archive") || !strings.Contains(got, "in a registry") || strings.Contains(got, "another machine") {
		t.Errorf("on the data partition: %s", got)
	}
	tree, err := b.dataContent()
	if err != nil {
		t.Fatal(err)
	}
	for p, mode := range map[string]uint32{"lib/garboard": 0o700, "lib/garboard/images": 0o755, "lib/garboard/images/overlay-images/images.json": 0o644} {
		if e := tree.Get(p); e == nil || e.Mode != mode {
			t.Errorf("%s: %+v, want mode %o", p, e, mode)
		}
	}
	all := b.listedImages()
	if len(all) != 3 || all[0].Name != "example.com/archive:1" || all[0].Source != "app.tar" || all[0].Store != dataStore ||
		all[1].Store != rootStore || all[2].SourceDigest != digest.String() || all[2].Digest != digest.String() {
		t.Errorf("listed: %+v", all)
	}
}

// Several images for one architecture in one place are told apart by the recipe's names.
func TestImagesByName(t *testing.T) {
	file := filepath.Join(t.TempDir(), "save.tar")
	if err := ocitest.Saved(file, map[string]v1.Image{"example.com/a:1": app("one")[0], "example.com/a:2": app("two")[0], "example.com/a:3": app("three")[1]}); err != nil {
		t.Fatal(err)
	}
	b := imageBuild(t, recipe.Recipe{
		Images: []recipe.Image{{Name: "example.com/a:2", OCI: file, Reason: "r"}},
		Disk:   recipe.Disk{Images: []recipe.Image{{Name: "example.com/a:1", OCI: file, Reason: "r"}}},
	})
	if err := b.fetchImages(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.layImages(t.Context()); err != nil {
		t.Fatal(err)
	}
	for want, list := range map[string][]rootfs.Entry{"two": b.images.root, "one": b.images.data} {
		found := 0
		for _, e := range list {
			if strings.HasSuffix(e.Path, "/diff/bin/app") {
				if found++; content(t, &e) != want {
					t.Errorf("%s is %s, want %s", e.Path, content(t, &e), want)
				}
			}
		}
		if found != 1 {
			t.Errorf("%s is there %d times", want, found)
		}
	}
	b.recipe.Images[0].Name = "example.com/a:3" // for another architecture
	if err := b.fetchImages(t.Context()); err == nil || !strings.Contains(err.Error(), "container image example.com/a:3: image "+file+": it holds 2 images for linux/amd64 and none is named example.com/a:3") {
		t.Errorf("not there: %v", err)
	}
}

func TestPins(t *testing.T) {
	crio := rootfs.Entry{Path: crioDrops, Kind: rootfs.Dir, Mode: 0o755, Origin: "o", Reason: "r"}
	ours := []recipe.Image{{Name: "localhost/garboard/pause:1", Program: "images/pause"}}
	others := []recipe.Image{{Name: "example.com/app:1", OCI: "example.com/app:1"}}
	for name, c := range map[string]struct {
		dirs []rootfs.Entry
		r    recipe.Recipe
		want string
	}{
		"ours alone": {[]rootfs.Entry{crio}, recipe.Recipe{Images: ours}, ""},
		"containerd": {nil, recipe.Recipe{Images: others}, ""},
		"on the disk": {[]rootfs.Entry{crio}, recipe.Recipe{Images: ours, Disk: recipe.Disk{Images: others}},
			`pinned_images = ["localhost/garboard/*", "example.com/app:1"]`},
	} {
		t.Run(name, func(t *testing.T) {
			b := imageBuild(t, c.r)
			for _, e := range c.dirs {
				if err := b.tree.Add(e); err != nil {
					t.Fatal(err)
				}
			}
			if err := b.addPins(nil); err != nil {
				t.Fatal(err)
			}
			e := b.tree.Get(pinsFile)
			switch {
			case c.want == "" && e != nil:
				t.Errorf("%s was written", pinsFile)
			case c.want != "" && !strings.Contains(content(t, e), c.want):
				t.Errorf("%q, want %s", content(t, e), c.want)
			}
		})
	}
}
