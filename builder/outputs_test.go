package builder

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"garboard.local/builder/recipe"
	"garboard.local/builder/store"
)

func TestEveryOutputIsMade(t *testing.T) {
	for _, o := range recipe.Outputs {
		if outputs[o] == nil {
			t.Errorf("recipes may name the output %s, but nothing makes it", o)
		}
	}
	if len(outputs) != len(recipe.Outputs) {
		t.Errorf("%d outputs are made, %d can be named", len(outputs), len(recipe.Outputs))
	}
}

// put writes files below a new directory.
func put(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestDataContent(t *testing.T) {
	dir := put(t, map[string]string{"var/lib/app/data": "1", "etc/kubernetes/manifests/pod.yaml": "2"})
	more := put(t, map[string]string{"file": "3"})
	b := &build{recipe: &recipe.Recipe{Disk: recipe.Disk{Content: []recipe.Overlay{
		{Path: dir, Reason: "r"}, {Path: more, Target: "/var/more", Reason: "r"},
	}}}}
	tree, err := b.dataContent()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range tree.Entries() {
		got = append(got, e.Path)
		want := uint32(0o755)
		switch {
		case e.Path == "lib/garboard": // PID 1's own, as it makes it
			want = 0o700
		case e.Size > 0:
			want = 0o644
		}
		if e.Mode != want || e.UID != 0 {
			t.Errorf("%s has mode %o and owner %d, want %o", e.Path, e.Mode, e.UID, want)
		}
	}
	const upper = "lib/garboard/etc/upper/kubernetes/manifests"
	for _, want := range []string{"lib/app/data", upper + "/pod.yaml", "more/file"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q lacks %s", got, want)
		}
	}
	if slices.Contains(got, "var") || slices.Contains(got, "etc") {
		t.Errorf("%q: the partition is /var, it does not hold it", got)
	}
	b.recipe.Disk.Content = []recipe.Overlay{{Path: more, Reason: "r"}}
	if _, err := b.dataContent(); err == nil || !strings.Contains(err.Error(), "/file: the data partition holds what is in /var and /etc") {
		t.Errorf("a file outside /var and /etc: %v", err)
	}
	b.recipe.Disk.Content = nil
	if tree, err := b.dataContent(); tree != nil || err != nil {
		t.Errorf("without content: %v, %v", tree, err)
	}
}

func TestPlaceKeepsHolesAndRemembersSums(t *testing.T) {
	st, err := store.Open(filepath.Join(t.TempDir(), "store"))
	if err != nil {
		t.Fatal(err)
	}
	b := &build{Options: Options{Store: st}, cached: true}
	from, out := filepath.Join(t.TempDir(), "disk"), t.TempDir()
	const size = rememberFrom + 12345
	f, err := os.Create(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	for _, at := range []int64{0, 1 << 20, size - 5} {
		if _, err := f.WriteAt([]byte("data!"), at); err != nil {
			t.Fatal(err)
		}
	}
	f.Close()
	ctx := context.Background()
	place := func(wantCached bool) {
		t.Helper()
		b.artefact, b.cached = nil, true
		if err := b.place(ctx, out, "disk.raw", from); err != nil {
			t.Fatal(err)
		}
		if b.cached != wantCached {
			t.Errorf("cached %t, want %t", b.cached, wantCached)
		}
		want, err := store.HashFile(from)
		if err != nil {
			t.Fatal(err)
		}
		got, err := store.HashFile(filepath.Join(out, "disk.raw"))
		if err != nil || got != want || b.artefact[0].SHA256 != want {
			t.Errorf("%s is placed as %s and called %s (%v)", want, got, b.artefact[0].SHA256, err)
		}
	}
	place(false)
	var info syscall.Stat_t
	if err := syscall.Stat(filepath.Join(out, "disk.raw"), &info); err != nil || info.Blocks*512 > 4<<20 || info.Size != size {
		t.Errorf("the copy has %d bytes and occupies %d (%v)", info.Size, info.Blocks*512, err)
	}
	place(true)
	// What somebody else changed is put right, in the output as in the source.
	for _, changed := range []string{filepath.Join(out, "disk.raw"), from} {
		f, err := os.OpenFile(changed, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte{'x'}, 1<<20); err != nil {
			t.Fatal(err)
		}
		f.Close()
		place(false)
	}
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	if err := b.place(ctx, t.TempDir(), "disk.raw", from); err == nil {
		t.Error("a build that was interrupted places its file")
	}
}
