package component

import (
	"os"
	"path/filepath"
	"testing"
)

// What parseConfig takes can be used: paths stay inside, flags can be made.
func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(fakeConfig))
	f.Add([]byte(patchingConfig + "lean: true\n"))
	f.Add([]byte("module: a.b/c\nbinaries: {x: ./...}\nstamp: {a.B: \"'\"}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parseConfig(data)
		if err != nil {
			return
		}
		for from, to := range c.Copy {
			if !filepath.IsLocal(from) || !filepath.IsLocal(to) {
				t.Errorf("copy %q to %q", from, to)
			}
		}
		for _, dir := range c.Replace {
			if !filepath.IsLocal(dir) {
				t.Errorf("replace by %q", dir)
			}
		}
		for _, dir := range c.Patch {
			if !filepath.IsLocal(dir) {
				t.Errorf("patches in %q", dir)
			}
		}
		for name := range c.Binaries {
			if filepath.Base(name) != name {
				t.Errorf("binary %q", name)
			}
		}
	})
}

// A patch, whatever it says, writes and removes nothing outside the source.
func FuzzApplyPatch(f *testing.F) {
	f.Add([]byte(helloPatch))
	f.Add([]byte("diff --git a/../x b/../x\ndeleted file mode 100644\n--- a/../x\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"))
	f.Add([]byte("diff --git a/text/text.go b/x\nsimilarity index 100%\nrename from text/text.go\nrename to x\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		top := t.TempDir()
		writeFile(t, filepath.Join(top, "x"), "x\n")
		writeFile(t, filepath.Join(top, "p.patch"), string(data))
		writeFile(t, filepath.Join(top, "src/text/text.go"), upstream["text/text.go"])
		_ = applyPatch(filepath.Join(top, "src"), filepath.Join(top, "p.patch"))
		entries, err := os.ReadDir(top)
		if err != nil || len(entries) != 3 {
			t.Fatalf("beside the source lie %v, %v", entries, err)
		}
		if x, err := os.ReadFile(filepath.Join(top, "x")); string(x) != "x\n" || err != nil {
			t.Errorf("a file beside the source is %q, %v", x, err)
		}
	})
}
