package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The control: where the service is not, nearly everything is wrong.
func TestSeesItsRootSeesWhereItIsNot(t *testing.T) {
	all := ""
	for _, err := range rootedKernel(true) {
		all += err.Error() + "\n"
	}
	for _, want := range []string{"is mounted"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is not among what is wrong on a machine: %s", want, all)
		}
	}
}

func TestInOrder(t *testing.T) {
	for _, tt := range []struct {
		log  string
		want string
	}{
		{"x one\nx two\n", ""}, {"two\none\n", "has no"}, {"one\n", "has no"}, {"one\nWRONG a\ntwo\n", "WRONG a"}, {"", "has no"},
	} {
		file := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(file, []byte(tt.log), 0o600); err != nil {
			t.Fatal(err)
		}
		err := inOrder(file, []string{"one", "two"})
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.log, err, tt.want)
		}
	}
}
