package promptui

import (
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	s := Select{Label: "Please select an image", Items: []string{"a/x", "b/x"}}
	i, answer, err := s.Run()
	if i != 0 || answer != "" || err == nil {
		t.Fatalf("%d, %q, %v", i, answer, err)
	}
	for _, want := range []string{s.Label.(string), "a/x b/x", "full name"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
}
