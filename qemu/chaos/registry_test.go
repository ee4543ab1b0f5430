package chaos

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"garboard.local/qemu/chaos/content"
)

func get(t *testing.T, r *Registry, path string) (int, []byte) {
	t.Helper()
	a, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/v2/%s", r.Port, path))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, b
}

// A client that knows only the specification gets the files whose sum the
// registry tells, and the same ones from the same seed.
func TestRegistry(t *testing.T) {
	r, err := NewRegistry(1, "amd64", []byte("program"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if status, _ := get(t, r, ""); status != http.StatusOK {
		t.Errorf("/v2/: %d", status)
	}
	for _, path := range []string{"chaos/manifests/x", "chaos/manifests/-1", "chaos/blobs/sha256:00", "other/manifests/1"} {
		if status, _ := get(t, r, path); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
	seen := map[string]bool{}
	for i := range 3 {
		_, b := get(t, r, fmt.Sprintf("chaos/manifests/%d", i))
		sum := sha256.Sum256(b)
		if _, again := get(t, r, "chaos/manifests/sha256:"+hex.EncodeToString(sum[:])); !bytes.Equal(b, again) {
			t.Errorf("image %d is another by its digest", i)
		}
		var m struct {
			Config struct{ Digest string }
			Layers []struct{ Digest string }
		}
		if err := json.Unmarshal(b, &m); err != nil || len(m.Layers) < 3 {
			t.Fatalf("%v: %s", err, b)
		}
		if status, _ := get(t, r, "chaos/blobs/"+m.Config.Digest); status != http.StatusOK {
			t.Errorf("configuration: %d", status)
		}
		var dirs []string
		for _, l := range m.Layers {
			_, b := get(t, r, "chaos/blobs/"+l.Digest)
			if sum := sha256.Sum256(b); "sha256:"+hex.EncodeToString(sum[:]) != l.Digest {
				t.Errorf("layer %s has another digest", l.Digest)
			}
			dirs = append([]string{unpack(t, b)}, dirs...)
		}
		files, err := content.Read(dirs...)
		if err != nil {
			t.Fatal(err)
		}
		got := content.Sum(files)
		if want := r.Sum(image(i)); got != want {
			t.Errorf("image %d: sum %s of its %d files, told %s", i, got, len(files), want)
		}
		if _, files, err := buildImage(1, i, "amd64", []byte("program")); err != nil || content.Sum(files) != got {
			t.Errorf("image %d is another when made again (%v)", i, err)
		}
		seen[got] = true
	}
	if len(seen) != 3 {
		t.Errorf("3 images have %d sums", len(seen))
	}
	if r.Sum("docker.io/library/x:1") != "" {
		t.Error("a sum for an image from elsewhere")
	}
}

func unpack(t *testing.T, b []byte) string {
	t.Helper()
	dir := t.TempDir()
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, h.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeSymlink {
			err = os.Symlink(h.Linkname, path)
		} else {
			var data []byte
			if data, err = io.ReadAll(r); err == nil {
				err = errors.Join(os.WriteFile(path, data, 0o600), os.Chmod(path, h.FileInfo().Mode()))
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
