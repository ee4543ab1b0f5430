package lock

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func TestOCIImagesArePinned(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0a", 32)
	ask := func(_ context.Context, ref, arch string) (string, error) {
		if ref == "r/none" {
			return "", errors.New("no such image")
		}
		return digest, nil
	}
	got, err := resolveOCI(t.Context(), ask, map[string][]string{"amd64": {"r/k:1"}, "arm64": {"r/k:1"}})
	if err != nil || len(got) != 1 || len(got["r/k:1"]) != 2 {
		t.Fatalf("%v, %v", got, err)
	}
	l := &Lock{OCI: got}
	if d, err := l.Digest("r/k:1", "arm64"); err != nil || d != digest {
		t.Errorf("%q, %v", d, err)
	}
	if _, err := l.Digest("r/k:2", "arm64"); err == nil || !strings.Contains(err.Error(), "image r/k:2 for arm64 is not in garboard.lock; run `garboard lock`") {
		t.Errorf("an image that is not locked: %v", err)
	}
	if _, err := resolveOCI(t.Context(), ask, map[string][]string{"amd64": {"r/none"}}); err == nil {
		t.Error("an image that is not there was pinned")
	}
	if none, err := resolveOCI(t.Context(), nil, nil); none != nil || err != nil {
		t.Errorf("%v, %v", none, err)
	}
	moved := &Lock{OCI: map[string]map[string]string{"r/k:1": {"arm64": "sha256:" + strings.Repeat("0b", 32)}}}
	if c := Diff(l, moved); len(c) != 2 || c[0].Section != "oci amd64" || c[0].New != "" || c[1].Section != "oci arm64" || c[1].New == c[1].Old {
		t.Errorf("changes %v", c)
	}
	for _, bad := range []map[string]map[string]string{{"r": {"vax": digest}}, {"r": {"amd64": "latest"}}, {"r": {"amd64": digest + "0"}}} {
		if validateOCI(bad) == nil {
			t.Errorf("%v was accepted", bad)
		}
	}
}
