package builder

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNothingThatMakesArtefactsReadsTheClock: every time in an artefact is the
// lock's. `garboard repro` shows another day to the programs from Debian; our own
// code reads the clock past the C library, so its source is looked at.
func TestNothingThatMakesArtefactsReadsTheClock(t *testing.T) {
	allowed := map[string]bool{"builder/build.go": true} // how long a build took
	files := 0
	for _, dir := range []string{"builder", "builder/component", "builder/image", "builder/licence", "builder/preload", "builder/recipe", "builder/report", "builder/rootfs", "kernel", "pod"} {
		found, err := filepath.Glob(filepath.Join("..", dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			name := strings.TrimPrefix(filepath.ToSlash(f), "../")
			if strings.HasSuffix(f, "_test.go") || allowed[name] {
				continue
			}
			src, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			files++
			for _, at := range clockReads(t, f, src) {
				t.Errorf("%s: reads the clock; take the lock's time", at)
			}
		}
	}
	if files < 30 {
		t.Errorf("only %d files were looked at", files)
	}
	if len(clockReads(t, "control.go", []byte("package p\nimport \"time\"\nvar _ = time.Since(time.Now())\n"))) != 2 {
		t.Error("the control is not found")
	}
}

func clockReads(t *testing.T, name string, src []byte) (at []string) {
	t.Helper()
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, name, src, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" && (s.Sel.Name == "Now" || s.Sel.Name == "Since" || s.Sel.Name == "Until") {
				at = append(at, set.Position(s.Pos()).String())
			}
		}
		return true
	})
	return at
}
