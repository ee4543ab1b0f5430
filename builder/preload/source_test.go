package preload

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// archive is a tar of headers; the content of a regular file is its Linkname.
func archive(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		body := ""
		if h.Typeflag == tar.TypeReg {
			body, h.Linkname = h.Linkname, ""
			h.Size = int64(len(body))
		}
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, body)
	}
	w.Close()
	return b.Bytes()
}

func regular(p, content string) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: p, Linkname: content}
}
func directory(p string) tar.Header { return tar.Header{Typeflag: tar.TypeDir, Name: p} }
func symlink(p, to string) tar.Header {
	return tar.Header{Typeflag: tar.TypeSymlink, Name: p, Linkname: to}
}

// image is an OCI image of gzipped layers.
func image(t testing.TB, arch string, layers ...[]byte) v1.Image {
	t.Helper()
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, b := range layers {
		l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }, tarball.WithMediaType(types.OCILayer))
		if err != nil {
			t.Fatal(err)
		}
		if img, err = mutate.AppendLayers(img, l); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	cfg = cfg.DeepCopy()
	cfg.OS, cfg.Architecture, cfg.Config.Entrypoint = "linux", arch, []string{"/bin/app"}
	if img, err = mutate.ConfigFile(img, cfg); err != nil {
		t.Fatal(err)
	}
	return img
}

// ociLayout writes images into a layout directory, each under a tag.
func ociLayout(t testing.TB, images map[string]v1.Image) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "layout")
	p, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	for ref, img := range images {
		if err := p.AppendImage(img, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": ref})); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func dockerArchive(t testing.TB, images map[string]v1.Image) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), "save.tar")
	byTag := map[name.Tag]v1.Image{}
	for ref, img := range images {
		tag, err := name.NewTag(ref)
		if err != nil {
			t.Fatal(err)
		}
		byTag[tag] = img
	}
	if err := tarball.MultiWriteToFile(p, byTag); err != nil {
		t.Fatal(err)
	}
	return p
}

// plainLayers can lie above each other as they are.
func plainLayers(t testing.TB) [][]byte {
	return [][]byte{
		archive(t, directory("./"), tar.Header{Typeflag: tar.TypeDir, Name: "bin/", Mode: 0o711, Uid: 7}, regular("bin/app", "one"), symlink("sh", "bin/app"),
			tar.Header{Typeflag: tar.TypeLink, Name: "bin/hard", Linkname: "bin/app"}, regular("big", strings.Repeat("big", 3000))),
		archive(t, regular("bin/app", "two"), regular("/etc/conf", "")),
	}
}

// oddLayers need flattening: a whiteout, an opaque directory, one path twice.
func oddLayers(t testing.TB) [][]byte {
	return [][]byte{
		archive(t, directory("a"), regular("a/gone", "1"), directory("a/sub"), regular("a/sub/x", "1"), directory("o"), regular("o/old", "1"), regular("bin/app", "one")),
		archive(t, regular("a/.wh.gone", ""), regular("a/.wh.sub", ""), directory("o"), regular("o/.wh..wh..opq", ""), regular("o/new", "2"), regular("t", "1"), regular("t", "2")),
	}
}

func TestLayoutKeepsDigestAndLayers(t *testing.T) {
	img := image(t, "arm64", plainLayers(t)...)
	dir := ociLayout(t, map[string]v1.Image{"1": img, "2": image(t, "arm64", plainLayers(t)[0]), "other": image(t, "amd64", plainLayers(t)...)})
	entries, infos, err := Build([]Image{{Name: "localhost/two:1", From: dir}}, epoch, "arm64", blobs(t))
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
	entries, infos, err := Build([]Image{{Name: "localhost/odd:1", From: ociLayout(t, map[string]v1.Image{"1": img})}}, epoch, "amd64", blobs(t))
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
	for _, images := range []map[string]v1.Image{
		{"localhost/whatever:9": img},
		{"localhost/two:1": img, "localhost/two:2": image(t, "amd64", plainLayers(t)[0])},
	} {
		_, infos, err := Build([]Image{{Name: "localhost/two:1", From: dockerArchive(t, images)}}, epoch, "amd64", blobs(t))
		if err != nil {
			t.Fatal(err)
		}
		if infos[0].ID != id.Hex {
			t.Errorf("ID %s, want %s", infos[0].ID, id.Hex)
		}
	}
}

func TestSourceErrors(t *testing.T) {
	two := map[string]v1.Image{"localhost/x:1": image(t, "amd64", plainLayers(t)...), "localhost/x:2": image(t, "amd64", plainLayers(t)[0])}
	damaged := ociLayout(t, map[string]v1.Image{"1": two["localhost/x:2"]})
	layers, _ := two["localhost/x:2"].Layers()
	d, _ := layers[0].Digest()
	other, _ := image(t, "amd64", plainLayers(t)[1]).Layers()
	r, _ := other[0].Compressed()
	b, _ := io.ReadAll(r)
	if err := os.WriteFile(filepath.Join(damaged, "blobs", d.Algorithm, d.Hex), b, 0o600); err != nil {
		t.Fatal(err)
	}
	one := func(h ...tar.Header) string {
		return ociLayout(t, map[string]v1.Image{"1": image(t, "amd64", archive(t, h...))})
	}
	notTar := filepath.Join(t.TempDir(), "x")
	os.WriteFile(notTar, []byte("hello"), 0o600)
	for _, tt := range []struct{ name, from, want string }{
		{"layout for another architecture", ociLayout(t, map[string]v1.Image{"1": image(t, "arm64", plainLayers(t)...)}), "holds only linux/arm64; fetch it with --platform linux/amd64"},
		{"archive for another architecture", dockerArchive(t, map[string]v1.Image{"localhost/x:1": image(t, "arm64", plainLayers(t)...)}), "is for linux/arm64 and the node for linux/amd64"},
		{"archive of others", dockerArchive(t, two), "holds 2 images and none is named localhost/wanted:1"},
		{"no layout", t.TempDir(), "no OCI layout"},
		{"no archive", notTar, "no docker-archive"},
		{"damaged layer", damaged, "layer 0"},
		{"no layers", ociLayout(t, map[string]v1.Image{"1": image(t, "amd64")}), "has 0 layers"},
		{"climbing path", one(regular("a/../../etc/passwd", "x")), "has a .. in it"},
		{"through a symlink", one(symlink("l", "/etc"), regular("l/passwd", "x")), `"l/passwd" lies below "l", which is a symlink`},
		{"device", one(tar.Header{Typeflag: tar.TypeChar, Name: "null"}), "a device or a fifo"},
		{"capability", one(tar.Header{Typeflag: tar.TypeReg, Name: "ping", PAXRecords: map[string]string{"SCHILY.xattr.security.capability": "x"}}), "extended attribute security.capability"},
		{"hard link out", one(tar.Header{Typeflag: tar.TypeLink, Name: "x", Linkname: "../../etc/passwd"}), "has a .. in it"},
		{"hard link to nothing", one(tar.Header{Typeflag: tar.TypeLink, Name: "x", Linkname: "y"}), "is no file before it in its layer"},
		{"whiteout of ..", one(regular("a/.wh...", "")), "is a whiteout of nothing"},
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
	f.Add(archive(f, regular("../x", "")))
	f.Add(archive(f, symlink("l", "/"), regular("l/x", "")))
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
