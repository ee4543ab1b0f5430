package storecheck

import (
	"os"
	"path/filepath"
	"testing"

	"go.podman.io/storage"
)

// An additional store that is damaged, empty or absent does not keep the others
// from being used; one that is sound is used (the control).
func TestUnreadableAdditionalStore(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(t *testing.T, store string)
		found  int
	}{
		"sound":           {func(*testing.T, string) {}, 1},
		"images not JSON": {overwrite("vfs-images/images.json"), 0},
		"layers not JSON": {overwrite("vfs-layers/layers.json"), 0},
		"empty": {func(t *testing.T, store string) {
			t.Helper()

			if err := os.RemoveAll(store); err != nil {
				t.Fatal(err)
			}

			if err := os.MkdirAll(store, 0o755); err != nil {
				t.Fatal(err)
			}
		}, 0},
		"absent": {func(t *testing.T, store string) {
			t.Helper()

			if err := os.RemoveAll(store); err != nil {
				t.Fatal(err)
			}
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			written := t.TempDir()
			filled := open(t, written)
			preloaded := image(t, filled, "preloaded")

			if _, err := filled.Shutdown(true); err != nil {
				t.Fatal(err)
			}

			additional := filepath.Join(t.TempDir(), "other")
			if err := os.Rename(written, additional); err != nil {
				t.Fatal(err)
			}

			c.damage(t, filepath.Join(additional, "graph"))

			s := open(t, t.TempDir(), additional)
			pulled := image(t, s, "pulled")

			if _, err := s.CreateContainer("", nil, pulled.ID, "", "", nil); err != nil {
				t.Errorf("a container of the runtime's own image: %v", err)
			}

			found := 0

			images, err := s.Images()
			if err != nil {
				t.Fatal(err)
			}

			for _, i := range images {
				if i.ID == preloaded.ID {
					found++
				}
			}

			if found != c.found {
				t.Errorf("the additional image is found %d times, want %d", found, c.found)
			}

			if _, err := s.Layers(); err != nil {
				t.Errorf("layers: %v", err)
			}

			report, err := s.Check(quick())
			if err != nil {
				t.Fatal(err)
			}

			if len(report.Layers)+len(report.Images)+len(report.Containers) > 0 {
				t.Errorf("a sound store: %+v", report)
			}

			if errs := s.Repair(report, storage.RepairEverything()); len(errs) > 0 {
				t.Error(errs)
			}
		})
	}
}

func overwrite(name string) func(*testing.T, string) {
	return func(t *testing.T, store string) {
		t.Helper()

		if err := os.WriteFile(filepath.Join(store, name), []byte("\x00\x00"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
