package unpack

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/sys/unix"

	"garboard.local/builder/preload"
	"garboard.local/builder/source/oci"
	"garboard.local/builder/source/oci/ocitest"
)

var stamp = time.Unix(1_600_000_000, 0)

// layer is a tar of headers; the content of a regular file is its Linkname.
func layer(t testing.TB, headers ...tar.Header) []byte {
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
		if h.ModTime.IsZero() {
			h.ModTime = stamp
		}
		h.Format = tar.FormatPAX
		if h.Uid == 0 && os.Geteuid() != 0 {
			h.Uid, h.Gid = os.Geteuid(), os.Getegid()
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, body)
	}
	w.Close()
	return b.Bytes()
}

func file(p, content string) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: p, Linkname: content}
}
func dir(p string) tar.Header { return tar.Header{Typeflag: tar.TypeDir, Name: p} }
func symlink(p, to string) tar.Header {
	return tar.Header{Typeflag: tar.TypeSymlink, Name: p, Linkname: to}
}
func hard(p, to string) tar.Header {
	return tar.Header{Typeflag: tar.TypeLink, Name: p, Linkname: to}
}

// opened is an image as it comes out of a layout.
func opened(t testing.TB, img v1.Image) *oci.Image {
	t.Helper()
	d := filepath.Join(t.TempDir(), "layout")
	p, err := layout.Write(d, empty.Index)
	if err == nil {
		err = p.AppendImage(img)
	}
	if err != nil {
		t.Fatal(err)
	}
	i, err := oci.Find(t.Context(), "oci:"+d, "amd64", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func image(t testing.TB, layers ...[]byte) *oci.Image {
	return opened(t, ocitest.Image("amd64", layers...))
}

func images(t testing.TB) *Dir {
	t.Helper()
	d, err := Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	d.unsynced = true
	return d
}

// tree is what is in a directory, one line for each file.
func tree(t testing.TB, root string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(root, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := e.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, p)
		line := fmt.Sprintf("%s %v", rel, fi.Mode())
		switch {
		case fi.Mode().IsRegular():
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %q", b)
		case fi.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(p)
			if err != nil {
				return err
			}
			line += " -> " + to
		}
		out = append(out, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The root directory is what a container sees: layers above each other, whiteouts and
// opaque directories carried out, links as they are, modes and times kept.
func TestContainersView(t *testing.T) {
	i := image(t,
		layer(t, dir("./"), dir("bin/"), tar.Header{Typeflag: tar.TypeReg, Name: "bin/su", Linkname: "su", Mode: 0o4755}, hard("bin/again", "bin/su"),
			symlink("abs", "/bin/su"), symlink("up", "../../../etc/passwd"), dir("old/"), file("old/a", "a"), dir("gone/"), file("gone/x/y", "y"), file("one", "1"),
			tar.Header{Typeflag: tar.TypeFifo, Name: "pipe", Mode: 0o640}, tar.Header{Typeflag: tar.TypeChar, Name: "dev/mem", Devmajor: 1, Devminor: 1}),
		layer(t, file("old/.wh..wh..opq", ""), file("old/b", "b"), file(".wh.gone", ""), file("one", "2"), tar.Header{Typeflag: tar.TypeDir, Name: "closed/", Mode: 0o500}, file("closed/in", "in")),
		layer(t, file("abs", "now a file"), tar.Header{Typeflag: tar.TypeDir, Name: "one", Mode: 0o755}, file("one/more", "m")))
	d := images(t)
	made, err := d.Add(t.Context(), "x", "x", i)
	if err != nil {
		t.Fatal(err)
	}
	closed := "dr-x------"
	if os.Geteuid() != 0 {
		closed = "drwx------"
	}
	got := tree(t, filepath.Join(d.path, "x", "rootfs"))
	want := []string{". drwxr-xr-x", `abs -rwxr-xr-x "now a file"`, "bin drwxr-xr-x", `bin/again urwxr-xr-x "su"`, `bin/su urwxr-xr-x "su"`, "closed " + closed, `closed/in -rwxr-xr-x "in"`, "dev drwxr-xr-x",
		"old drwxr-xr-x", `old/b -rwxr-xr-x "b"`, "one drwxr-xr-x", `one/more -rwxr-xr-x "m"`, "pipe prw-r-----", "up Lrwxrwxrwx -> ../../../etc/passwd"}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	var su, again unix.Stat_t
	if err := errors.Join(unix.Stat(filepath.Join(made.Path, "rootfs/bin/su"), &su), unix.Stat(filepath.Join(made.Path, "rootfs/bin/again"), &again)); err != nil || su.Ino != again.Ino || su.Mtim.Sec != stamp.Unix() {
		t.Errorf("hard link: inodes %d and %d, time %d, %v", su.Ino, again.Ino, su.Mtim.Sec, err)
	}
	if fi, err := os.Stat(made.Path); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("the image's directory: %v %v; programs of an image with set-user-ID are nobody's to reach", fi.Mode(), err)
	}
	if !strings.Contains(strings.Join(made.Lost, "; "), "devices are left out (/dev/mem)") {
		t.Errorf("lost: %q", made.Lost)
	}
	if b, err := os.ReadFile(filepath.Join(d.path, "x/config.json")); err != nil || !bytes.Contains(b, []byte("amd64")) {
		t.Errorf("configuration: %s %v", b, err)
	}
}

// Owners, capabilities and other attributes: as root they are the image's, otherwise
// it is said that they are not.
func TestOwnersAndAttributes(t *testing.T) {
	granting := file("ping", "p")
	// A file capability as setcap(8) writes it: version 2, effective, NET_RAW.
	raw := "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	granting.PAXRecords = map[string]string{"SCHILY.xattr.security.capability": raw, "SCHILY.xattr.trusted.overlay.opaque": "y"}
	granting.Uid, granting.Gid, granting.Mode = 12345, 54321, 0o6755
	d := images(t)
	made, err := d.Add(t.Context(), "x", "x", image(t, layer(t, granting)))
	if err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	p := filepath.Join(made.Path, "rootfs/ping")
	if err := unix.Stat(p, &st); err != nil {
		t.Fatal(err)
	}
	said := strings.Join(made.Lost, "\n")
	if os.Geteuid() == 0 {
		value := make([]byte, 64)
		n, err := unix.Getxattr(p, "security.capability", value)
		if err != nil || string(value[:n]) != raw || st.Uid != 12345 || st.Gid != 54321 || st.Mode&0o7777 != 0o6755 {
			t.Errorf("%d:%d mode %#o, capability %q %v", st.Uid, st.Gid, st.Mode, value[:max(n, 0)], err)
		}
		if !strings.Contains(said, "1 extended attributes") || len(made.Lost) != 1 {
			t.Errorf("lost: %q", made.Lost)
		}
		return
	}
	if int(st.Uid) != os.Geteuid() || st.Mode&0o7777 != 0o755 || !strings.Contains(said, "other owners") || !strings.Contains(said, "capabilities of files") {
		t.Errorf("%d mode %#o, lost: %q", st.Uid, st.Mode, made.Lost)
	}
}

// What is wrong with an image is said, and nothing of it is left.
func TestRefusals(t *testing.T) {
	good := layer(t, file("a", "a"))
	damaged := func() *oci.Image {
		i := image(t, good)
		layers, err := i.Layers()
		if err != nil {
			t.Fatal(err)
		}
		h, err := layers[0].Digest()
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		z.Write(layer(t, file("a", "b")))
		z.Close()
		_, d, _ := strings.Cut(i.Name, "oci:")
		if d == "" {
			d = i.Name
		}
		if err := os.WriteFile(filepath.Join(d, "blobs/sha256", h.Hex), b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return i
	}
	for _, c := range []struct {
		name  string
		img   *oci.Image
		limit int64
		want  string
	}{
		{"path that climbs", image(t, layer(t, file("a/../../b", ""))), 0, "has a .. in it"},
		{"hard link that climbs", image(t, layer(t, hard("a", "../../etc/passwd"))), 0, "has a .. in it"},
		{"hard link to the machine's", image(t, layer(t, hard("a", "/etc/passwd"))), 0, "is no file before it in its layer"},
		{"hard link through a link", image(t, layer(t, symlink("etc", "/etc"), hard("a", "etc/passwd"))), 0, "is no file before it in its layer"},
		{"file through a link", image(t, layer(t, symlink("etc", "/etc"), file("etc/passwd", "x"))), 0, `"etc/passwd" lies below "etc", which is a symlink`},
		{"file below a file", image(t, layer(t, file("a", ""), file("a/b", ""))), 0, "lies below"},
		{"more than allowed", image(t, layer(t, file("a", strings.Repeat("a", 1000)))), 999, "more than 999 bytes"},
		{"more than allowed in layers that hide each other", image(t, layer(t, file("a", strings.Repeat("a", 600))), layer(t, file("a", strings.Repeat("b", 600)))), 1000, "more than 1000 bytes"},
		{"no archive", image(t, bytes.Repeat([]byte("x"), 4096)), 0, "cannot be read"},
		{"damaged", damaged(), 0, "the image is damaged, fetch it again"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := images(t)
			d.Bytes = c.limit
			if _, err := d.Add(t.Context(), "x", "x", c.img); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one that says %q", err, c.want)
			}
			left, err := os.ReadDir(d.path)
			if err != nil || len(left) != 1 || left[0].Name() != lockName {
				t.Errorf("left are %v, %v", left, err)
			}
		})
	}
	var over *preload.LimitError
	d := images(t)
	d.Bytes = 1
	if _, err := d.Add(t.Context(), "x", "x", image(t, layer(t, file("a", "aa")))); !errors.As(err, &over) {
		t.Errorf("a limit's error is %v", err)
	}
}

// A link that a lower layer has and an upper one has files below is a directory, as
// with overlayfs: nothing goes where the link points to.
func TestLinkBelowDirectory(t *testing.T) {
	outside := t.TempDir()
	d := images(t)
	made, err := d.Add(t.Context(), "x", "x", image(t, layer(t, symlink("l", outside)), layer(t, file("l/x", "x"))))
	if err != nil {
		t.Fatal(err)
	}
	if got := tree(t, outside); len(got) != 1 {
		t.Errorf("written outside: %q", got)
	}
	if got := tree(t, filepath.Join(made.Path, "rootfs")); len(got) != 3 {
		t.Errorf("root: %q", got)
	}
}

// The same image again is nothing to do; another gets a directory of its own, and the
// old one goes when nobody needs it.
func TestAgainAndAnother(t *testing.T) {
	d := images(t)
	one, two := image(t, layer(t, file("a", "1"))), image(t, layer(t, file("a", "2")))
	first, err := d.Add(t.Context(), "x", "x", one)
	if err != nil || first.Unchanged {
		t.Fatal(first, err)
	}
	mark := filepath.Join(first.Path, "rootfs/mark")
	if err := os.WriteFile(mark, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if again, err := d.Add(t.Context(), "x", "x", one); err != nil || !again.Unchanged || again.Path != first.Path {
		t.Errorf("again: %+v %v", again, err)
	}
	if _, err := os.Stat(mark); err != nil {
		t.Errorf("it was unpacked again: %v", err)
	}
	second, err := d.Add(t.Context(), "x", "x", two)
	if err != nil || second.Path == first.Path {
		t.Fatal(second, err)
	}
	if b, err := os.ReadFile(filepath.Join(d.path, "x/rootfs/a")); err != nil || string(b) != "2" {
		t.Errorf("%q %v", b, err)
	}
	if removed, err := d.Prune(func(string) bool { return true }); err != nil || len(removed) != 0 {
		t.Errorf("removed %q, %v", removed, err)
	}
	removed, err := d.Prune(func(string) bool { return false })
	if err != nil || !slices.Equal(removed, []string{first.Path}) {
		t.Errorf("removed %q, %v", removed, err)
	}
	if err := os.Mkdir(filepath.Join(d.path, "own"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Add(t.Context(), "own", "own", one); err == nil || !strings.Contains(err.Error(), "was not unpacked by this command") {
		t.Errorf("somebody's own directory: %v", err)
	}
}

// ended is a context that ends when it was asked a few times.
type ended struct {
	context.Context
	left int
}

func (e *ended) Err() error {
	if e.left--; e.left < 0 {
		return context.Canceled
	}
	return nil
}

// Whenever it is interrupted, nothing is left; what a kill left, the next run removes.
func TestInterrupted(t *testing.T) {
	i := image(t, layer(t, dir("a"), file("a/b", "b"), symlink("c", "a/b")), layer(t, file("d", "d")))
	d := images(t)
	for n := 0; ; n++ {
		_, err := d.Add(&ended{t.Context(), n}, "x", "x", i)
		if err == nil {
			if n < 5 {
				t.Errorf("only %d interruptions were possible", n)
			}
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if left, _ := os.ReadDir(d.path); len(left) != 1 {
			t.Fatalf("interrupted at %d, left are %v", n, left)
		}
	}
	stale := filepath.Join(d.path, unfinished+"1")
	if err := errors.Join(os.MkdirAll(filepath.Join(stale, "blobs"), 0o700), d.Close()); err != nil {
		t.Fatal(err)
	}
	again, err := Open(t.Context(), d.path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(stale); !os.IsNotExist(err) {
		t.Errorf("what a kill left is still there: %v", err)
	}
	// One at a time; who waits can be interrupted.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, d.path); !errors.Is(err, context.Canceled) {
		t.Errorf("a second one: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// The working directory and places for volumes are made, as a runtime does; not behind links.
func TestDirectoriesOfTheConfiguration(t *testing.T) {
	base := ocitest.Image("amd64", layer(t, symlink("l", "/etc"), dir("srv")))
	c, err := base.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c = c.DeepCopy()
	c.Config.WorkingDir, c.Config.Volumes = "/srv/app/", map[string]struct{}{"/data": {}, "/l/x": {}, "/": {}, "../../up": {}}
	img, err := mutate.ConfigFile(base, c)
	if err != nil {
		t.Fatal(err)
	}
	d := images(t)
	made, err := d.Add(t.Context(), "x", "x", opened(t, img))
	if err != nil {
		t.Fatal(err)
	}
	got := tree(t, filepath.Join(made.Path, "rootfs"))
	want := []string{". drwxr-xr-x", "data drwxr-xr-x", "l Lrwxrwxrwx -> /etc", "srv drwxr-xr-x", "srv/app drwxr-xr-x", "up drwxr-xr-x"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// An image out of docker save, and one of several in a layout, by name and platform.
func TestPlaces(t *testing.T) {
	a, b := ocitest.Image("amd64", layer(t, file("a", "a"))), ocitest.Image("amd64", layer(t, file("b", "b")))
	other := ocitest.Image("arm64", layer(t, file("c", "c")))
	dirName := filepath.Join(t.TempDir(), "layout")
	p, err := layout.Write(dirName, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	named := func(n string) layout.Option {
		return layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": n})
	}
	index := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: b, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}}},
		mutate.IndexAddendum{Add: other, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "arm64"}}})
	if err := errors.Join(p.AppendImage(a, named("one")), p.AppendIndex(index, named("two"))); err != nil {
		t.Fatal(err)
	}
	save := filepath.Join(t.TempDir(), "save.tar")
	tag, err := name.NewTag("localhost/a:1")
	if err == nil {
		err = tarball.WriteToFile(save, tag, a)
	}
	if err != nil {
		t.Fatal(err)
	}
	for place, want := range map[string]string{
		"oci:" + dirName + ":three": "named are one, two", "oci:" + dirName: "holds 2 images", "oci:/nonexistent": "no such file", "oci:" + save: "is oci-archive:FILE",
		"docker-archive:" + dirName: "is oci:DIR", "docker-archive:" + save + ":localhost/b:1": "localhost/b:1", "tar:" + save: "is no way to name one", "alpine": "name it as", "docker:alpine": "//REGISTRY",
	} {
		if _, err := oci.Find(t.Context(), place, "amd64", t.TempDir()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one that says %q", place, err, want)
		}
	}
	d := images(t)
	for _, place := range []string{"docker-archive:" + save, "docker-archive:" + save + ":localhost/a:1"} {
		i, err := oci.Find(t.Context(), place, "amd64", t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		made, err := d.Add(t.Context(), "saved", "saved", i)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(filepath.Join(made.Path, "rootfs/a")); err != nil || string(b) != "a" {
			t.Errorf("%s: %q %v", place, b, err)
		}
	}
	for place, want := range map[string]string{"one amd64": "a", "two amd64": "b", "two arm64": "c"} {
		label, arch, _ := strings.Cut(place, " ")
		i, err := oci.Find(t.Context(), "oci:"+dirName+":"+label, arch, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		made, err := d.Add(t.Context(), label, label, i)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(made.Path, "rootfs", want)); err != nil {
			t.Error(err)
		}
	}
}

// FuzzUnpack: whatever a layer holds, nothing is written outside of the image's
// directory, and a refused image leaves nothing.
func FuzzUnpack(f *testing.F) {
	f.Add(layer(f, dir("a"), file("a/b", "b"), symlink("c", "/etc"), hard("d", "a/b")))
	f.Add(layer(f, file("../x", "x")))
	f.Add(layer(f, symlink("l", ".."), file("l/x", "x")))
	f.Add(layer(f, file("a", ""), dir("a"), file("a/.wh.b", ""), file(".wh..wh..opq", "")))
	f.Fuzz(func(t *testing.T, b []byte) {
		base := t.TempDir()
		d, err := Open(t.Context(), filepath.Join(base, "images"))
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		d.Bytes, d.unsynced = 1<<20, true
		_, err = d.Add(t.Context(), "x", "x", image(t, b))
		left, lerr := os.ReadDir(d.path)
		if want := map[bool]int{true: 3, false: 1}[err == nil]; lerr != nil || len(left) != want {
			t.Errorf("error %v, left are %v", err, left)
		}
		if around, err := os.ReadDir(base); err != nil || len(around) != 1 {
			t.Errorf("written outside: %v %v", around, err)
		}
		if fi, err := os.Stat(base); err != nil || fi.Mode().Perm() != 0o755 {
			t.Errorf("changed outside: %v %v", fi.Mode(), err)
		}
	})
}
