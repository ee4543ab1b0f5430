package rootfs

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestLoadModulesInOrder(t *testing.T) {
	dir := t.TempDir()
	order := "loop.ko\nnetfs.ko\n../evil.ko\nerofs.ko\n"
	if err := os.WriteFile(filepath.Join(dir, "order"), []byte(order), 0o644); err != nil {
		t.Fatal(err)
	}
	var got []string
	err := LoadModules(dir, func(p string) error {
		got = append(got, filepath.Base(p))
		if filepath.Base(p) == "netfs.ko" {
			return errors.New("exec format error")
		}
		return nil
	})
	if want := []string{"loop.ko", "netfs.ko", "erofs.ko"}; !slices.Equal(got, want) {
		t.Errorf("loaded %q, want %q: one bad module must not stop the rest", got, want)
	}
	if err == nil || !strings.Contains(err.Error(), "netfs.ko") || !strings.Contains(err.Error(), "evil.ko") {
		t.Errorf("error does not name both: %v", err)
	}
}

func TestNoOrderFileMeansNothingToLoad(t *testing.T) {
	if err := LoadModules(t.TempDir(), func(string) error { return errors.New("called") }); err != nil {
		t.Error(err)
	}
}
