package unpack

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"golang.org/x/sys/unix"

	"garboard.local/builder/source/oci"
	"garboard.local/builder/source/oci/ocitest"
)

var stamp = time.Unix(1_600_000_000, 0)

// layer is a tar of headers, all of one time, and of the user's own where they say nothing.
func layer(headers ...tar.Header) []byte {
	for i := range headers {
		h := &headers[i]
		h.Format = tar.FormatPAX
		if h.ModTime.IsZero() {
			h.ModTime = stamp
		}
		if h.Uid == 0 && os.Geteuid() != 0 {
			h.Uid, h.Gid = os.Geteuid(), os.Getegid()
		}
	}
	return ocitest.Layer(headers...)
}

// opened is an image as it comes out of a layout.
func opened(t testing.TB, img v1.Image) *oci.Image {
	t.Helper()
	d := filepath.Join(t.TempDir(), "layout")
	if err := ocitest.Named(d, map[string]v1.Image{"1": img}); err != nil {
		t.Fatal(err)
	}
	i, err := oci.Find(t.Context(), "oci:"+d, oci.Choice{Arch: "amd64"}, t.TempDir())
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
		layer(tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o711}, ocitest.Dir("bin/"), tar.Header{Typeflag: tar.TypeReg, Name: "bin/su", Linkname: "su", Mode: 0o4755}, ocitest.Hard("bin/again", "bin/su"),
			ocitest.Symlink("abs", "/bin/su"), ocitest.Symlink("up", "../../../etc/passwd"), ocitest.Dir("old/"), ocitest.File("old/a", "a"), ocitest.Dir("gone/"), ocitest.File("gone/x/y", "y"), ocitest.File("one", "1"),
			tar.Header{Typeflag: tar.TypeFifo, Name: "pipe", Mode: 0o640}, tar.Header{Typeflag: tar.TypeChar, Name: "dev/mem", Devmajor: 1, Devminor: 1}),
		layer(ocitest.File("old/.wh..wh..opq", ""), ocitest.File("old/b", "b"), ocitest.File(".wh.gone", ""), ocitest.File("one", "2"), tar.Header{Typeflag: tar.TypeDir, Name: "closed/", Mode: 0o500}, ocitest.File("closed/in", "in")),
		layer(ocitest.File("abs", "now a file"), tar.Header{Typeflag: tar.TypeDir, Name: "one", Mode: 0o755}, ocitest.File("one/more", "m")))
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
	want := []string{". drwx--x--x", `abs -rwxr-xr-x "now a file"`, "bin drwxr-xr-x", `bin/again urwxr-xr-x "su"`, `bin/su urwxr-xr-x "su"`, "closed " + closed, `closed/in -rwxr-xr-x "in"`, "dev drwxr-xr-x",
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
	granting := ocitest.File("ping", "p")
	// A file capability as setcap(8) writes it: version 2, effective, NET_RAW.
	raw := "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	granting.PAXRecords = map[string]string{"SCHILY.xattr.security.capability": raw, "SCHILY.xattr.trusted.overlay.opaque": "y"}
	granting.Uid, granting.Gid, granting.Mode = 12345, 54321, 0o6755
	d := images(t)
	made, err := d.Add(t.Context(), "x", "x", image(t, layer(granting)))
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

// The same image again is nothing to do; another gets a directory of its own, and the
// old one goes when nobody needs it.
func TestAgainAndAnother(t *testing.T) {
	d := images(t)
	one, two := image(t, layer(ocitest.File("a", "1"))), image(t, layer(ocitest.File("a", "2")))
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

// The working directory and places for volumes are made, as a runtime does; not behind links.
func TestDirectoriesOfTheConfiguration(t *testing.T) {
	base := ocitest.Image("amd64", layer(ocitest.Symlink("l", "/etc"), ocitest.Dir("srv")))
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

// An image out of docker save: what it transfers is not known beforehand.
func TestSaved(t *testing.T) {
	save := filepath.Join(t.TempDir(), "save.tar")
	if err := ocitest.Saved(save, map[string]v1.Image{"localhost/a:1": ocitest.Image("amd64", layer(ocitest.File("a", "a")))}); err != nil {
		t.Fatal(err)
	}
	i, err := oci.Find(t.Context(), "docker-archive:"+save, oci.Choice{Arch: "amd64"}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if n, ok := size(i); ok {
		t.Errorf("%d bytes are to come", n)
	}
	made, err := images(t).Add(t.Context(), "saved", "saved", i)
	if err != nil || made.Digest != i.Sum {
		t.Fatal(made, err)
	}
	if b, err := os.ReadFile(filepath.Join(made.Path, "rootfs/a")); err != nil || string(b) != "a" {
		t.Errorf("%q %v", b, err)
	}
}
