package content

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func lay(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if target, link := strings.CutPrefix(text, "->"); link {
			if err := os.Symlink(target, path); err != nil {
				t.Fatal(err)
			}
		} else if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

const records = `[{"id":"base"},{"id":"top","parent":"base"}]`

func TestStoreTellsWholeFromDamaged(t *testing.T) {
	want := Sum([]File{
		Of("payload", 0o644, []byte("program")), Of("data/a", 0o644, []byte("upper")), Of("data/empty", 0o644, nil),
		Link("data/link", "a"),
	})
	for _, tt := range []struct {
		name   string
		damage func(t *testing.T, store string)
		same   bool
	}{
		{"whole", func(*testing.T, string) {}, true},
		{"truncated", func(t *testing.T, s string) {
			if err := os.Truncate(filepath.Join(s, "overlay/base/diff/payload"), 3); err != nil {
				t.Fatal(err)
			}
		}, false},
		{"zeros", func(t *testing.T, s string) {
			lay(t, s, map[string]string{"overlay/top/diff/data/a": "\x00\x00\x00\x00\x00"})
		}, false},
		{"empty file gone", func(t *testing.T, s string) { os.Remove(filepath.Join(s, "overlay/top/diff/data/empty")) }, false},
		{"mode", func(t *testing.T, s string) { os.Chmod(filepath.Join(s, "overlay/base/diff/payload"), 0o600) }, false},
		{"one too many", func(t *testing.T, s string) { lay(t, s, map[string]string{"overlay/top/diff/data/b": ""}) }, false},
		{"outside", func(t *testing.T, s string) { lay(t, s, map[string]string{"overlay/top/diff/etc/hosts": "x"}) }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := t.TempDir()
			lay(t, s, map[string]string{
				"overlay-layers/layers.json": records,
				"overlay-images/images.json": `[{"id":"i","layer":"top","names":["n"]}]`,
				"overlay/base/diff/payload":  "program", "overlay/base/diff/data/a": "lower",
				"overlay/top/diff/data/a": "upper", "overlay/top/diff/data/empty": "", "overlay/top/diff/data/link": "->a",
			})
			tt.damage(t, s)
			images, err := Store(s)
			if err != nil || len(images) != 1 || len(images[0].Layers) != 2 {
				t.Fatalf("%+v, %v", images, err)
			}
			files, err := Read(images[0].Layers...)
			if err != nil {
				t.Fatal(err)
			}
			if got := Sum(files); (got == want) != tt.same {
				t.Errorf("sum %s, of the whole image %s; want the same: %t", got, want, tt.same)
			}
		})
	}
}

func TestStoreRecords(t *testing.T) {
	for _, tt := range []struct{ name, layers, images, want string }{
		{"none", "", "", ""},
		{"cut off", `[{"id":"ba`, `[]`, "layers.json"},
		{"layer gone", `[]`, `[{"id":"i","layer":"top"}]`, "unknown"},
		{"circle", `[{"id":"a","parent":"b"},{"id":"b","parent":"a"}]`, `[{"id":"i","layer":"a"}]`, "ancestor"},
	} {
		s := t.TempDir()
		if tt.layers != "" {
			lay(t, s, map[string]string{"overlay-layers/layers.json": tt.layers, "overlay-images/images.json": tt.images})
		}
		_, err := Store(s)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}
