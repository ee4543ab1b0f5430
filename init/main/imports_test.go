package main

import (
	"os/exec"
	"strings"
	"testing"
)

// PID 1 links no Kubernetes machinery, nor what writes tables for it.
func TestImports(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	deps := strings.Fields(string(out))
	if len(deps) < 50 {
		t.Fatalf("only %d packages", len(deps))
	}
	for _, d := range deps {
		for _, bad := range []string{"k8s.io/", "sigs.k8s.io/", "go.yaml.in/", "github.com/coreos/", "garboard.local/pod", "garboard.local/builder"} {
			if strings.HasPrefix(d, bad) {
				t.Errorf("PID 1 imports %s", d)
			}
		}
	}
}
