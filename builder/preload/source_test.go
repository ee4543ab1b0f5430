package preload

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"garboard.local/builder/source/oci"
	"garboard.local/builder/source/oci/ocitest"
)

// image is an image with an entrypoint.
func image(t testing.TB, arch string, layers ...[]byte) v1.Image {
	t.Helper()
	img := ocitest.Image(arch, layers...)
	cfg, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	cfg = cfg.DeepCopy()
	cfg.Config.Entrypoint = []string{"/bin/app"}
	if img, err = mutate.ConfigFile(img, cfg); err != nil {
		t.Fatal(err)
	}
	return img
}

// layoutOf is an image in a layout directory, opened.
func layoutOf(t testing.TB, img v1.Image) *oci.Image {
	t.Helper()
	return open(t, ocitest.Named, img)
}

// saved is an image as docker save writes it, opened.
func saved(t testing.TB, img v1.Image) *oci.Image {
	t.Helper()
	return open(t, ocitest.Saved, img)
}

func open(t testing.TB, write func(string, map[string]v1.Image) error, img v1.Image) *oci.Image {
	t.Helper()
	cfg, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	place := filepath.Join(t.TempDir(), "image")
	if err := write(place, map[string]v1.Image{"localhost/whatever:9": img}); err != nil {
		t.Fatal(err)
	}
	i, err := oci.Open(place, oci.Choice{Arch: cfg.Architecture}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// plainLayers can lie above each other as they are.
func plainLayers(t testing.TB) [][]byte {
	return [][]byte{
		ocitest.Layer(ocitest.Dir("./"), tar.Header{Typeflag: tar.TypeDir, Name: "bin/", Mode: 0o711, Uid: 7}, ocitest.File("bin/app", "one"), ocitest.Symlink("sh", "bin/app"),
			tar.Header{Typeflag: tar.TypeLink, Name: "bin/hard", Linkname: "bin/app"}, ocitest.File("big", strings.Repeat("big", 3000))),
		ocitest.Layer(ocitest.File("bin/app", "two"), ocitest.File("/etc/conf", "")),
	}
}

// oddLayers need flattening: a whiteout, an opaque directory, one path twice.
func oddLayers(t testing.TB) [][]byte {
	return [][]byte{
		ocitest.Layer(ocitest.Dir("a"), ocitest.File("a/gone", "1"), ocitest.Dir("a/sub"), ocitest.File("a/sub/x", "1"), ocitest.Dir("o"), ocitest.File("o/old", "1"), ocitest.File("bin/app", "one")),
		ocitest.Layer(ocitest.File("a/.wh.gone", ""), ocitest.File("a/.wh.sub", ""), ocitest.Dir("o"), ocitest.File("o/.wh..wh..opq", ""), ocitest.File("o/new", "2"), ocitest.File("t", "1"), ocitest.File("t", "2")),
	}
}

func TestLayoutKeepsDigestAndLayers(t *testing.T) {
	img := image(t, "arm64", plainLayers(t)...)
	entries, infos, err := Build([]Image{{Name: "localhost/two:1", From: layoutOf(t, img)}}, epoch, "arm64", blobs(t))
	if err != nil {
		t.Fatal(err)
	}
	want, _ := img.Digest()
	id, _ := img.ConfigName()
	if infos[0].Digest != want.String() || infos[0].ID != id.Hex {
		t.Errorf("digest %s and ID %s, want %s and %s", infos[0].Digest, infos[0].ID, want, id.Hex)
	}
	seen := map[string]string{}
	for _, e := range entries {
		if _, p, ok := strings.Cut(e.Path, "/diff/"); ok && e.Type == TypeFile {
			seen[p] += text(t, e) + ";"
		}
		if strings.HasSuffix(e.Path, "/diff/bin") && (e.Mode != 0o711 || e.UID != 7) {
			t.Errorf("%s has mode %o and owner %d: a directory that the upper layer does not describe must not hide the lower one's", e.Path, e.Mode, e.UID)
		}
		if strings.HasSuffix(e.Path, "/lower") && !strings.HasPrefix(text(t, e), "l/") {
			t.Errorf("%s holds %q", e.Path, text(t, e))
		}
	}
	if seen["bin/hard"] != "one;" || len(seen["bin/app"]) != len("one;two;") || seen["etc/conf"] != ";" || len(seen["big"]) != 9001 {
		t.Errorf("files %.100v", seen)
	}
}

func TestWhiteoutsAreFlattened(t *testing.T) {
	img := image(t, "amd64", oddLayers(t)...)
	entries, infos, err := Build([]Image{{Name: "localhost/odd:1", From: layoutOf(t, img)}}, epoch, "amd64", blobs(t))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, e := range entries {
		if _, p, ok := strings.Cut(e.Path, "/diff/"); ok && e.Type == TypeFile {
			files[p] = text(t, e)
		}
	}
	if len(files) != 3 || files["bin/app"] != "one" || files["o/new"] != "2" || files["t"] != "2" {
		t.Errorf("a container would see %v", files)
	}
	cfg := config(t, entries, infos[0])
	if len(cfg.RootFS.DiffIDs) != 1 || len(cfg.History) != 1 || cfg.Config.Entrypoint[0] != "/bin/app" {
		t.Errorf("configuration after flattening: %+v", cfg)
	}
}

func TestDockerArchiveKeepsID(t *testing.T) {
	img := image(t, "amd64", plainLayers(t)...)
	id, _ := img.ConfigName()
	_, infos, err := Build([]Image{{Name: "localhost/two:1", From: saved(t, img)}}, epoch, "amd64", blobs(t))
	if err != nil {
		t.Fatal(err)
	}
	if infos[0].ID != id.Hex {
		t.Errorf("ID %s, want %s", infos[0].ID, id.Hex)
	}
}

func TestSourceErrors(t *testing.T) {
	damaged := func(layer []byte) *oci.Image {
		i := layoutOf(t, image(t, "amd64", plainLayers(t)[0]))
		if err := ocitest.Replace(i.Name, i, layer); err != nil {
			t.Fatal(err)
		}
		return i
	}
	lying := image(t, "amd64", plainLayers(t)[0])
	cfg, err := lying.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	cfg = cfg.DeepCopy()
	cfg.RootFS.DiffIDs[0] = sum(nil)
	if lying, err = mutate.ConfigFile(lying, cfg); err != nil {
		t.Fatal(err)
	}
	one := func(h ...tar.Header) *oci.Image { return layoutOf(t, image(t, "amd64", ocitest.Layer(h...))) }
	for _, tt := range []struct {
		name string
		from *oci.Image
		want string
	}{
		{"another architecture", layoutOf(t, image(t, "arm64", plainLayers(t)...)), "it is for linux/arm64, and the store for linux/amd64"},
		{"another layer", damaged(ocitest.Gzip(plainLayers(t)[1])), "layer 0: its blob has digest"},
		{"the same under another compression", damaged(plainLayers(t)[0]), "layer 0: its blob has digest"},
		{"another layer than the configuration says", layoutOf(t, lying), "layer 0: unpacked it has digest"},
		{"half a layer", damaged(nil), "layer 0"},
		{"no layers", layoutOf(t, image(t, "amd64")), "has 0 layers"},
		{"climbing path", one(ocitest.File("a/../../etc/passwd", "x")), "has a .. in it"},
		{"through a symlink", one(ocitest.Symlink("l", "/etc"), ocitest.File("l/passwd", "x")), `"l/passwd" lies below "l", which is a symlink`},
		{"device", one(tar.Header{Typeflag: tar.TypeChar, Name: "null"}), "a device or a fifo"},
		{"attribute", one(tar.Header{Typeflag: tar.TypeReg, Name: "ping", PAXRecords: map[string]string{"SCHILY.xattr.user.mark": "x"}}), "extended attribute user.mark"},
		{"capabilities that are none", one(tar.Header{Typeflag: tar.TypeReg, Name: "ping", PAXRecords: map[string]string{xattrRecord + capabilityAttr: netBind[:19]}}), "in a form that no kernel knows"},
		{"capabilities of a directory", one(tar.Header{Typeflag: tar.TypeDir, Name: "d", PAXRecords: map[string]string{xattrRecord + capabilityAttr: netBind}}), "is no file"},
		{"hard link out", one(tar.Header{Typeflag: tar.TypeLink, Name: "x", Linkname: "../../etc/passwd"}), "has a .. in it"},
		{"hard link to nothing", one(tar.Header{Typeflag: tar.TypeLink, Name: "x", Linkname: "y"}), "is no file before it in its layer"},
		{"whiteout of ..", one(ocitest.File("a/.wh...", "")), "is a whiteout of nothing"},
		{"owner", one(tar.Header{Typeflag: tar.TypeDir, Name: "x", Uid: 1 << 33}), "outside of what a system has"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := Build([]Image{{Name: "localhost/wanted:1", From: tt.from}}, epoch, "amd64", blobs(t))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

// memory keeps blobs nowhere: the fuzzer only wants the tree.
type memory struct{}

func (memory) Put(r io.Reader) (string, int64, error) {
	n, err := io.Copy(io.Discard, r)
	return "x", n, err
}
func (memory) Blob(string) string { return os.DevNull }

// Whatever a layer holds, no path of the tree climbs or goes through a symlink.
func FuzzLayer(f *testing.F) {
	for _, layers := range [][][]byte{plainLayers(f), oddLayers(f)} {
		for _, b := range layers {
			f.Add(b)
		}
	}
	f.Add(ocitest.Layer(ocitest.File("../x", "")))
	f.Add(ocitest.Layer(ocitest.Symlink("l", "/"), ocitest.File("l/x", "")))
	f.Fuzz(func(t *testing.T, b []byte) {
		all := want{all: true, left: &left{bytes: 1 << 20, entries: 1000}}
		if _, r, err := analyse(bytes.NewReader(b), memory{}, all); err == nil {
			safe(t, r)
		}
		l, r, err := analyse(bytes.NewReader(b), memory{}, want{})
		if err != nil {
			return
		}
		if l.diffSize != int64(len(b)) || l.diffID != sum(b) {
			t.Errorf("read %d bytes of %d", l.diffSize, len(b))
		}
		if !r.odd() {
			l.split(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }) // may fail, must end
		}
		safe(t, r)
	})
}

// safe looks for paths that climb or go through something else than a directory.
func safe(t *testing.T, r *raw) {
	t.Helper()
	flat, err := flatten([]*raw{r})
	if err != nil {
		return
	}
	for p, e := range flat {
		if p != e.Path || strings.HasPrefix(p, "/") || strings.Contains("/"+p+"/", "/../") {
			t.Errorf("path %q, entry %q", p, e.Path)
		}
		if p != "" && flat[parent(p)].Type != TypeDir {
			t.Errorf("%q lies in a %q", p, flat[parent(p)].Type)
		}
	}
}

// netBind is cap_net_bind_service=ep as setcap(8) writes it.
const netBind = "\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"

// A file keeps its capabilities, in a layer as it came and in one that was flattened;
// the layer's tar comes out again to the bit, which Build checks.
func TestFileCapabilities(t *testing.T) {
	able := tar.Header{Typeflag: tar.TypeReg, Name: "bin/able", Mode: 0o755, PAXRecords: map[string]string{xattrRecord + capabilityAttr: netBind}}
	for name, layers := range map[string][][]byte{
		"as it is":  {ocitest.Layer(able, ocitest.File("bin/plain", "x"))},
		"flattened": {ocitest.Layer(able, ocitest.File("bin/plain", "x"), ocitest.File("gone", "x")), ocitest.Layer(ocitest.File(".wh.gone", ""))},
	} {
		entries, infos, err := Build([]Image{{Name: "localhost/able:1", From: layoutOf(t, image(t, "amd64", layers...))}}, epoch, "amd64", blobs(t))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		found := 0
		for _, e := range append(entries, infos[0].View.Files...) {
			want := ""
			if path.Base(e.Path) == "able" {
				found++
				want = "0100000200040000000000000000000000000000"
			}
			if e.Capabilities != want {
				t.Errorf("%s: %s has capabilities %q, want %q", name, e.Path, e.Capabilities, want)
			}
		}
		if found != 2 {
			t.Errorf("%s: the file is there %d times, want it in the store and in the view", name, found)
		}
	}
}
