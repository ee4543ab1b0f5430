package builder

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"garboard.local/builder/component"
	"garboard.local/builder/recipe"
	"garboard.local/builder/rootfs"
)

// A program of the recipe's lies where it says, and says where it is from.
func TestAddPrograms(t *testing.T) {
	file := filepath.Join(t.TempDir(), "blob")
	if err := os.WriteFile(file, []byte("program"), 0o644); err != nil {
		t.Fatal(err)
	}
	p := recipe.Program{Program: "images/observer", Path: "/usr/bin/observer", Reason: "r"}
	b := &build{tree: rootfs.New(), recipe: &recipe.Recipe{Programs: []recipe.Program{p}},
		own: map[string]component.Binary{programName(p.Program): {Path: file}}}
	if err := b.addPrograms(nil); err != nil {
		t.Fatal(err)
	}
	if e := b.tree.Get(p.Path); e == nil || e.Mode != 0o755 || e.Source() != file || e.Origin != "garboard images/observer" {
		t.Errorf("%+v", e)
	}
	b.tree = rootfs.New()
	if err := b.tree.Add(rootfs.FromBytes(p.Path, 0o755, []byte("another"), "overlay", "r")); err != nil {
		t.Fatal(err)
	}
	if err := b.addPrograms(nil); err == nil || !strings.Contains(err.Error(), strings.TrimPrefix(p.Path, "/")) {
		t.Errorf("two at one path: %v", err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := b.addPrograms(nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("one that was not compiled: %v", err)
	}
}
