package preload

import (
	"archive/tar"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"garboard.local/builder/source/oci"
	"garboard.local/builder/source/oci/ocitest"
	"garboard.local/builder/store"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 678, time.FixedZone("elsewhere", 3600))

// blobs is a store in a temporary directory.
func blobs(t *testing.T) *store.Store {
	t.Helper()
	s, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// source is a file with the given bytes.
func sourceFile(t *testing.T, content string) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), "source")
	if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

// program is an image as the recipe makes them: one static binary.
func program(t *testing.T, name, content string) Image {
	t.Helper()
	return Image{
		Name:   name,
		Config: Config{Entrypoint: []string{"/app"}, User: "65535:65535", Env: []string{"GOMAXPROCS=1"}, Labels: map[string]string{"b": "2", "a": "1"}},
		Layers: []Layer{{Files: []LayerFile{{Path: "/app", Mode: 0o755, Source: sourceFile(t, content)}}}},
	}
}

func find(t *testing.T, entries []Entry, p string) Entry {
	t.Helper()
	i := slices.IndexFunc(entries, func(e Entry) bool { return e.Path == p })
	if i < 0 {
		t.Fatalf("no entry %s in the store", p)
	}
	return entries[i]
}

func text(t *testing.T, e Entry) string {
	t.Helper()
	r, err := e.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestStoreLayout(t *testing.T) {
	entries, infos, err := Build([]Image{program(t, "localhost/garboard/pause:1", "pause")}, epoch, "amd64", blobs(t))
	if err != nil {
		t.Fatal(err)
	}
	info := infos[0]
	id := text(t, find(t, entries, "overlay-layers/layers.json"))
	var layers []layerRecord
	if err := json.Unmarshal([]byte(id), &layers); err != nil || len(layers) != 1 {
		t.Fatalf("layers.json: %v, %d layers", err, len(layers))
	}
	l := layers[0]
	home := "overlay/" + l.ID
	short := text(t, find(t, entries, home+"/link"))
	want := []string{
		"overlay", "overlay-images", "overlay-images/" + info.ID,
		"overlay-images/" + info.ID + "/" + dataFile("manifest-"+info.Digest),
		"overlay-images/" + info.ID + "/" + dataFile("sha256:"+info.ID),
		"overlay-images/" + info.ID + "/manifest",
		"overlay-images/images.json", "overlay-images/images.lock",
		"overlay-layers", "overlay-layers/" + l.ID + ".tar-split.gz", "overlay-layers/layers.json", "overlay-layers/layers.lock",
		home, home + "/diff", home + "/diff/app", home + "/empty", home + "/link",
		"overlay/l", "overlay/l/" + short,
	}
	slices.Sort(want)
	var got []string
	for _, e := range entries {
		got = append(got, e.Path)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the store holds\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if link := find(t, entries, "overlay/l/"+short); link.Type != TypeSymlink || link.Link != "../"+l.ID+"/diff" || len(short) != 26 {
		t.Errorf("short name %q is %+v", short, link)
	}
	if "sha256:"+l.ID != l.DiffID || l.Blob != l.DiffID || l.DiffSize != info.Size || l.BlobSize != info.Size {
		t.Errorf("layer record %+v, image size %d", l, info.Size)
	}
	if app := find(t, entries, home+"/diff/app"); app.Mode != 0o755 || text(t, app) != "pause" {
		t.Errorf("/app is %+v", app)
	}
	cfg := config(t, entries, info)
	when := time.Date(2026, 1, 2, 2, 4, 5, 0, time.UTC)
	if cfg.OS != "linux" || cfg.Architecture != "amd64" || !cfg.Created.Equal(when) || cfg.Config.User != "65535:65535" || cfg.Config.Env[0] != "GOMAXPROCS=1" || cfg.Config.Labels["a"] != "1" {
		t.Errorf("configuration %+v", cfg)
	}
}

func config(t *testing.T, entries []Entry, info Info) *v1.ConfigFile {
	t.Helper()
	b := text(t, find(t, entries, "overlay-images/"+info.ID+"/"+dataFile("sha256:"+info.ID)))
	if got := sum([]byte(b)).Hex; got != info.ID {
		t.Errorf("the configuration has digest %s, the image ID is %s", got, info.ID)
	}
	cfg, err := v1.ParseConfigFile(strings.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestSameTwice(t *testing.T) {
	build := func() map[string]string {
		entries, _, err := Build([]Image{
			program(t, "localhost/garboard/pause:1", "pause"),
			program(t, "localhost/garboard/hello:1", strings.Repeat("hello", 5000)),
		}, epoch, "arm64", blobs(t))
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for _, e := range entries {
			c := ""
			if e.Type == TypeFile {
				c = text(t, e)
			}
			out[e.Path] = string(e.Type) + e.Mode.String() + e.Link + c
		}
		return out
	}
	if a, b := build(), build(); !maps.Equal(a, b) {
		t.Error("two builds of the same images in different directories differ")
	}
}

func TestLayersAreSharedAndNamesJoined(t *testing.T) {
	a := program(t, "localhost/garboard/a:1", "x")
	b, c := a, a
	b.Name, c.Name = "localhost/garboard/b:1", "localhost/garboard/c:1"
	c.Config.User = "0"
	entries, infos, err := Build([]Image{a, b, c}, epoch, "amd64", blobs(t))
	if err != nil {
		t.Fatal(err)
	}
	if infos[0].ID != infos[1].ID || infos[0].ID == infos[2].ID {
		t.Errorf("IDs %s, %s, %s", infos[0].ID, infos[1].ID, infos[2].ID)
	}
	var images []imageRecord
	if err := json.Unmarshal([]byte(text(t, find(t, entries, "overlay-images/images.json"))), &images); err != nil {
		t.Fatal(err)
	}
	names := map[string][]string{}
	for _, r := range images {
		names[r.ID] = r.Names
	}
	if want := map[string][]string{infos[0].ID: {a.Name, b.Name}, infos[2].ID: {c.Name}}; !reflect.DeepEqual(names, want) {
		t.Errorf("names %v, want %v", names, want)
	}
	n := 0
	for _, e := range entries {
		if path.Base(e.Path) == "app" {
			n++
		}
	}
	if n != 1 {
		t.Errorf("one layer is in the store %d times", n)
	}
}

func TestBuildErrors(t *testing.T) {
	good := program(t, "localhost/garboard/a:1", "x")
	with := func(change func(*Image)) Image {
		img := good
		img.Layers = []Layer{{Files: slices.Clone(good.Layers[0].Files)}}
		change(&img)
		return img
	}
	file := func(f LayerFile) Image {
		return with(func(i *Image) { i.Layers[0].Files = append(i.Layers[0].Files, f) })
	}
	for _, tt := range []struct {
		name   string
		arch   string
		images []Image
		want   string
	}{
		{"same name twice", "amd64", []Image{good, good}, "two images are named localhost/garboard/a:1"},
		{"short name", "amd64", []Image{with(func(i *Image) { i.Name = "nginx" })}, `did you mean "docker.io/library/nginx:latest"?`},
		{"architecture", "riscv64", []Image{good}, `no nodes of architecture "riscv64"`},
		{"no layers", "amd64", []Image{{Name: good.Name}}, "it has no layers"},
		{"layers and archive", "amd64", []Image{with(func(i *Image) { i.From = &oci.Image{Name: "x.tar"} })}, "both layers and an image x.tar"},
		{"climbing path", "amd64", []Image{file(LayerFile{Path: "/a/../../etc/passwd", Source: "x"})}, "has a .. in it"},
		{"path twice", "amd64", []Image{file(LayerFile{Path: "app", Source: "x"})}, `two files for "/app"`},
		{"below a file", "amd64", []Image{file(LayerFile{Path: "/app/x", Type: TypeDir})}, `"app/x" lies below "app", which is a file`},
		{"below a symlink", "amd64", []Image{with(func(i *Image) {
			i.Layers[0].Files = append(i.Layers[0].Files, LayerFile{Path: "/l", Type: TypeSymlink, Link: "/etc"}, LayerFile{Path: "/l/passwd", Type: TypeDir})
		})}, `lies below "l", which is a symlink`},
		{"other bytes", "amd64", []Image{with(func(i *Image) { i.Layers[0].Files[0].SHA256 = strings.Repeat("0", 64) })}, "not 0000"},
		{"no bytes", "amd64", []Image{file(LayerFile{Path: "/x"})}, `"/x" names no source`},
		{"device", "amd64", []Image{file(LayerFile{Path: "/x", Type: "device"})}, `unknown type "device"`},
		{"mode of chmod(2)", "amd64", []Image{file(LayerFile{Path: "/x", Mode: 0o4755, Source: "x"})}, "fs.ModeSetuid"},
		{"source gone", "amd64", []Image{file(LayerFile{Path: "/x", Source: "no/such/file"})}, "no/such/file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := Build(tt.images, epoch, tt.arch, blobs(t))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestUnder(t *testing.T) {
	got := Under("/usr/lib/garboard/images/", []Entry{{Path: "overlay/l", Type: TypeDir, Mode: 0o755}})
	want := []Entry{{Path: "usr/lib/garboard/images", Type: TypeDir, Mode: 0o755}, {Path: "usr/lib/garboard/images/overlay/l", Type: TypeDir, Mode: 0o755}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
}

func TestUnixMode(t *testing.T) {
	e := Entry{Mode: 0o751 | os.ModeSetuid | os.ModeSticky}
	if got := e.UnixMode(); got != 0o5751 {
		t.Errorf("mode %o, want 5751", got)
	}
	if got := fileMode(0o105751); got != e.Mode {
		t.Errorf("back: %v, want %v", got, e.Mode)
	}
}

// What a container sees of an image: what higher layers put in the place of lower ones',
// also a file where a directory was.
func TestView(t *testing.T) {
	layers := [][]byte{
		ocitest.Layer(ocitest.Dir("./"), ocitest.File("bin/app", "one"), ocitest.Dir("d"), ocitest.File("d/x", "1"), ocitest.Symlink("l", "bin/app"), tar.Header{Typeflag: tar.TypeDir, Name: "own/", Mode: 0o711, Uid: 7}),
		ocitest.Layer(ocitest.File("bin/app", "two"), ocitest.File("d", "a file now"), ocitest.File("own/more", "2")),
	}
	entries, infos, err := Build([]Image{{Name: "localhost/two:1", From: layoutOf(t, image(t, "arm64", layers...))}}, epoch, "arm64", blobs(t))
	if err != nil {
		t.Fatal(err)
	}
	v := infos[0].View
	var got []string
	for _, e := range v.Files {
		line := fmt.Sprintf("%s %s", e.Path, e.Type)
		switch e.Type {
		case TypeFile:
			r, err := e.Open()
			if err != nil {
				t.Fatal(err)
			}
			b, _ := io.ReadAll(r)
			r.Close()
			line += " " + string(b)
		case TypeDir:
			line += fmt.Sprintf(" %o %d", e.Mode, e.UID)
		case TypeSymlink:
			line += " " + e.Link
		}
		got = append(got, line)
	}
	want := []string{" dir 755 0", "bin dir 755 0", "bin/app file two", "d file a file now", "l symlink bin/app", "own dir 711 7", "own/more file 2"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if !strings.Contains(string(v.Config), "/bin/app") || len(v.Layers) != 2 {
		t.Errorf("configuration %s, layers %q", v.Config, v.Layers)
	}
	for i, l := range v.Layers { // the topmost first
		at := slices.IndexFunc(entries, func(e Entry) bool { return e.Path == l })
		if at < 0 || entries[at].Type != TypeSymlink {
			t.Fatalf("no %s in the store", l)
		}
		file := path.Join(path.Dir(l), entries[at].Link, "bin/app")
		at = slices.IndexFunc(entries, func(e Entry) bool { return e.Path == file })
		if at < 0 {
			t.Fatalf("no %s in the store", file)
		}
		r, err := entries[at].Open()
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(r)
		r.Close()
		if want := []string{"two", "one"}[i]; string(b) != want {
			t.Errorf("layer %d has %q, want %q", i, b, want)
		}
	}
}
