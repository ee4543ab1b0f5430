package image

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// The table in docs/outputs.md is the layout of a disk image.
func TestLayoutInDocs(t *testing.T) {
	b, err := os.ReadFile("../../docs/outputs.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "\n## Disk image\n")
	section, _, _ := strings.Cut(rest, "\n## ")
	var got []string
	for line := range strings.Lines(section) {
		if len(line) > 3 && line[:2] == "| " && line[2] >= '1' && line[2] <= '9' {
			got = append(got, strings.TrimSpace(line))
		}
	}
	parts, size, err := Layout("amd64", Sizes{})
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, p := range parts {
		want = append(want, fmt.Sprintf("| %d | %s | %s | %d | %d | %s |", p.Number, p.Name, p.Type, p.Start/MiB, p.Size/MiB, p.Purpose))
	}
	if !slices.Equal(got, want) {
		t.Errorf("docs/outputs.md has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	arm, _, err := Layout("arm64", Sizes{})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"arm64 has " + string(arm[rootAPartition-1].Type), fmt.Sprintf("Default %dGiB", size>>30), fmt.Sprintf("At least %d MiB", SmallestData/MiB),
		fmt.Sprintf("default %dMiB each; %dMiB at least for the ESP", DefaultESPSize/MiB, SmallestESP/MiB),
	} {
		if !strings.Contains(section, text) {
			t.Errorf("docs/outputs.md does not say %q", text)
		}
	}
}
