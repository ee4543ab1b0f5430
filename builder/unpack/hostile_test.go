package unpack

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"garboard.local/builder/preload"
	"garboard.local/builder/source/oci"
	"garboard.local/builder/source/oci/ocitest"
)

// What is wrong with an image is said, and nothing of it is left.
func TestRefusals(t *testing.T) {
	good := layer(ocitest.File("a", "a"))
	damaged := image(t, good)
	if err := ocitest.Replace(strings.TrimPrefix(damaged.Name, "oci:"), damaged, ocitest.Gzip(layer(ocitest.File("a", "b")))); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		img   *oci.Image
		limit int64
		want  string
	}{
		{"path that climbs", image(t, layer(ocitest.File("a/../../b", ""))), 0, "has a .. in it"},
		{"hard link that climbs", image(t, layer(ocitest.Hard("a", "../../etc/passwd"))), 0, "has a .. in it"},
		{"hard link to the machine's", image(t, layer(ocitest.Hard("a", "/etc/passwd"))), 0, "is no file before it in its layer"},
		{"hard link through a link", image(t, layer(ocitest.Symlink("etc", "/etc"), ocitest.Hard("a", "etc/passwd"))), 0, "is no file before it in its layer"},
		{"file through a link", image(t, layer(ocitest.Symlink("etc", "/etc"), ocitest.File("etc/passwd", "x"))), 0, `"etc/passwd" lies below "etc", which is a symlink`},
		{"file below a file", image(t, layer(ocitest.File("a", ""), ocitest.File("a/b", ""))), 0, "lies below"},
		{"more than allowed", image(t, layer(ocitest.File("a", strings.Repeat("a", 1000)))), 999, "more than 999 bytes"},
		{"more than allowed in layers that hide each other", image(t, layer(ocitest.File("a", strings.Repeat("a", 600))), layer(ocitest.File("a", strings.Repeat("b", 600)))), 1000, "more than 1000 bytes"},
		{"no archive", image(t, bytes.Repeat([]byte("x"), 4096)), 0, "cannot be read"},
		{"damaged", damaged, 0, "the image is damaged, fetch it again"},
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
	if _, err := d.Add(t.Context(), "x", "x", image(t, layer(ocitest.File("a", "aa")))); !errors.As(err, &over) {
		t.Errorf("a limit's error is %v", err)
	}
}

// A link that a lower layer has and an upper one has files below is a directory, as
// with overlayfs: nothing goes where the link points to.
func TestLinkBelowDirectory(t *testing.T) {
	outside := t.TempDir()
	d := images(t)
	made, err := d.Add(t.Context(), "x", "x", image(t, layer(ocitest.Symlink("l", outside)), layer(ocitest.File("l/x", "x"))))
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
	i := image(t, layer(ocitest.Dir("a"), ocitest.File("a/b", "b"), ocitest.Symlink("c", "a/b")), layer(ocitest.File("d", "d")))
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

// FuzzUnpack: whatever a layer holds, nothing is written outside of the image's
// directory, and a refused image leaves nothing.
func FuzzUnpack(f *testing.F) {
	f.Add(layer(ocitest.Dir("a"), ocitest.File("a/b", "b"), ocitest.Symlink("c", "/etc"), ocitest.Hard("d", "a/b")))
	f.Add(layer(ocitest.File("../x", "x")))
	f.Add(layer(ocitest.Symlink("l", ".."), ocitest.File("l/x", "x")))
	f.Add(layer(ocitest.File("a", ""), ocitest.Dir("a"), ocitest.File("a/.wh.b", ""), ocitest.File(".wh..wh..opq", "")))
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
