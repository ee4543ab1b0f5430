package component

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestApplyPatch(t *testing.T) {
	const source = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\n"
	const change = "diff --git a/f.txt b/f.txt\n--- a/f.txt\n+++ b/f.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n@@ -8,3 +8,3 @@\n eight\n-nine\n+9\n ten\n"
	for _, tt := range []struct {
		name, patch string
		want        map[string]string // "" is a file that is gone
		err         []string
	}{
		{"two hunks", change, map[string]string{"f.txt": "one\n2\nthree\nfour\nfive\nsix\nseven\neight\n9\nten\n"}, nil},
		{"second hunk conflicts", strings.Replace(change, "-nine", "-neuf", 1), nil, []string{"p.patch", "f.txt", "hunk 2 of 2", "line 9"}},
		{"moved by a line", strings.Replace(change, "-8,3 +8,3", "-7,3 +7,3", 1), nil, []string{"hunk 2 of 2"}},
		{"beyond the end", "diff --git a/f.txt b/f.txt\n--- a/f.txt\n+++ b/f.txt\n@@ -20,2 +20,2 @@\n x\n-y\n+z\n", nil, []string{"hunk 1 of 1"}},
		{"a new file", "diff --git a/d/n.txt b/d/n.txt\nnew file mode 100644\n--- /dev/null\n+++ b/d/n.txt\n@@ -0,0 +1 @@\n+new\n", map[string]string{"d/n.txt": "new\n", "f.txt": source}, nil},
		{"a new file that exists", "diff --git a/f.txt b/f.txt\nnew file mode 100644\n--- /dev/null\n+++ b/f.txt\n@@ -0,0 +1 @@\n+new\n", nil, []string{"f.txt", "already"}},
		{"a file removed", "diff --git a/g.txt b/g.txt\ndeleted file mode 100644\n--- a/g.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-g\n", map[string]string{"g.txt": ""}, nil},
		{"a file renamed", "diff --git a/g.txt b/h.txt\nsimilarity index 100%\nrename from g.txt\nrename to h.txt\n", map[string]string{"g.txt": "", "h.txt": "g\n"}, nil},
		{"a path that leads out", "diff --git a/../x b/../x\nnew file mode 100644\n--- /dev/null\n+++ b/../x\n@@ -0,0 +1 @@\n+new\n", nil, []string{"leads out"}},
		{"no patch", "Just words.\n", nil, []string{"p.patch", "changes no file"}},
		{"cut short", change[:len(change)-12], nil, []string{"p.patch"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			top := t.TempDir()
			dir, patch := filepath.Join(top, "src"), filepath.Join(top, "p.patch")
			writeFile(t, filepath.Join(dir, "f.txt"), source)
			writeFile(t, filepath.Join(dir, "g.txt"), "g\n")
			writeFile(t, patch, tt.patch)
			err := applyPatch(dir, patch)
			if (err != nil) != (tt.err != nil) {
				t.Fatalf("the error is %v", err)
			}
			for _, want := range tt.err {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error %q does not say %q", err, want)
				}
			}
			for name, want := range tt.want {
				data, err := os.ReadFile(filepath.Join(dir, name))
				if string(data) != want || (err == nil) != (want != "") {
					t.Errorf("%s is %q, %v", name, data, err)
				}
			}
			if _, err := os.Stat(filepath.Join(top, "x")); err == nil {
				t.Error("a file outside the source was written")
			}
		})
	}
}
