package recipe

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// docs/hardening.md and the hardening part of recipes/node.yaml say the same.
func TestHardeningIsDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../docs/hardening.md")
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z0-9_.*]+)` \\| ([0-9a-z/]+) \\|").FindAllStringSubmatch(string(doc), -1) {
		said[m[1]] = m[2]
	}
	text, err := os.ReadFile("../../recipes/node.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, part, found := strings.Cut(string(text), "  # Hardening;")
	if !found || len(said) == 0 {
		t.Fatal("the recipe or the table has no hardening part")
	}
	for _, m := range regexp.MustCompile(`key: "?([a-z0-9_.*]+)"?, value: "?([0-9a-z/]+)"?[,}]`).FindAllStringSubmatch(part, -1) {
		if said[m[1]] != m[2] {
			t.Errorf("%s=%s is in the recipe, docs/hardening.md says %q", m[1], m[2], said[m[1]])
		}
		delete(said, m[1])
	}
	for k, v := range said {
		t.Errorf("docs/hardening.md says %s=%s, the recipe does not", k, v)
	}
}
