package contents

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"garboard.local/builder/recipe"
	"garboard.local/builder/report"
)

var update = flag.Bool("update", false, "rewrite docs/node-contents.md from the images in GARBOARD_IMAGES")

const document = "../docs/node-contents.md"

// imagesEnv names the directory with node-amd64 and node-arm64; `garboard test
// node` sets it.
const imagesEnv = "GARBOARD_IMAGES"

func nodeRecipe(t *testing.T) *recipe.Recipe {
	t.Helper()
	r, err := recipe.Load("../recipes/node.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func committed(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The half about the running node is what the recipe, PID 1's tables and the
// rules say.
func TestRunningNodeIsDocumented(t *testing.T) {
	want, err := Running(nodeRecipe(t))
	if err != nil {
		t.Fatal(err)
	}
	before, got, found := strings.Cut(committed(t), RunningTitle)
	if got = RunningTitle + got; !found || got != want {
		if *update && found {
			if err := os.WriteFile(document, []byte(before+want), 0o644); err != nil {
				t.Fatal(err)
			}
			return
		}
		t.Errorf("%s is not what it is generated from; go test ./contents -update writes it. First difference:\n%s", document, firstDifference(got, want))
	}
}

// The half about the image is what the manifests of both architectures say; of
// one alone, that every file in it is named.
func TestVMImageIsDocumented(t *testing.T) {
	images := os.Getenv(imagesEnv)
	if images == "" {
		if !testing.Short() {
			t.Fatalf("$%s is not set; run `garboard test node`, or go test -short", imagesEnv)
		}
		t.Log("quick tests: the files of the images are compared by `garboard test node`")
		return
	}
	var manifests []*report.Manifest
	for _, arch := range recipe.Arches {
		dir := filepath.Join(images, "node-"+arch)
		if _, err := os.Stat(dir); err != nil {
			t.Logf("%v: one architecture alone", err)
			continue
		}
		m, err := report.ReadManifest(dir)
		if err != nil {
			t.Fatal(err)
		}
		manifests = append(manifests, m)
	}
	if len(manifests) == 0 {
		t.Fatalf("%s has no image of recipes/node.yaml", images)
	}
	want, err := Document(nodeRecipe(t), manifests)
	if err != nil {
		t.Fatal(err)
	}
	if len(manifests) < len(recipe.Arches) {
		part, _, _ := strings.Cut(want, RunningTitle)
		got := committed(t)
		for _, name := range regexp.MustCompile("`/[^`]+`").FindAllString(part, -1) {
			if !strings.Contains(got, name) {
				t.Errorf("%s does not name %s", document, name)
			}
		}
		return
	}
	if *update {
		if err := os.WriteFile(document, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := committed(t); got != want {
		t.Errorf("%s is not what it is generated from; %s=DIR go test ./contents -update writes it. First difference:\n%s", document, imagesEnv, firstDifference(got, want))
	}
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		switch {
		case i >= len(g):
			return "lacks " + w[i]
		case i >= len(w):
			return "has " + g[i]
		case g[i] != w[i]:
			return "has  " + g[i] + "\nwant " + w[i]
		}
	}
	return "none"
}
