package cgroup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A part is made once, lies in the service's group, and is ended by its own file.
func TestPart(t *testing.T) {
	tree := Tree{Root: t.TempDir()}
	if _, err := tree.Part("a", "preStop"); err == nil {
		t.Error("a part of a service that has no group")
	}
	dir := filepath.Join(tree.Root, Service("a"))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		p, err := tree.Part("a", "preStop")
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Kill(); err == nil && !exists(filepath.Join(dir, "preStop/cgroup.kill")) {
			t.Error("killed by nothing")
		} else if err != nil && !strings.Contains(err.Error(), filepath.Join(dir, "preStop/cgroup.kill")) {
			t.Error(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "preStop/cgroup.kill"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	if b, err := os.ReadFile(filepath.Join(dir, "preStop/cgroup.kill")); err != nil || string(b) != "1" {
		t.Errorf("%q, %v", b, err)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
