package recipe

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPrograms(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"{program: images/x, path: /x, reason: r}", ""},
		{"{program: images/x, path: /x}", "program, path and reason are needed"},
		{"{program: images/x, path: x, reason: r}", "not a clean absolute one"},
		{"{program: images/x, path: /, reason: r}", "not a clean absolute one"},
		{"{program: images/x, path: /a/../x, reason: r}", "not a clean absolute one"},
		{"{package: images/x, path: /x, reason: r}", "package"},
	} {
		file := filepath.Join(t.TempDir(), "r.yaml")
		if err := os.WriteFile(file, []byte("name: n\nkernel: {package: k}\noutputs: [initramfs]\nprograms:\n  - "+tt.text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		r, err := Load(file)
		if tt.want == "" && (err != nil || len(r.Programs) != 1) || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "programs[0]")) {
			t.Errorf("%s: %v, want %q", tt.text, err, tt.want)
		}
	}
}
