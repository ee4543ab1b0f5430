package recipe

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestCheckImages(t *testing.T) {
	ok := Image{Name: "localhost/a:1", Program: "images/a", Reason: "r"}
	with := func(change func(*Image)) Recipe {
		m := ok
		change(&m)
		return Recipe{Images: []Image{ok}, Disk: Disk{Images: []Image{m}}}
	}
	for name, c := range map[string]struct {
		r    Recipe
		want string // part of the error; "" = none
	}{
		"both kinds":      {with(func(m *Image) { *m = Image{Name: "x/b:1", OCI: "./b.tar", Reason: "r"} }), ""},
		"no name":         {with(func(m *Image) { m.Name = "" }), "disk.images[0] (): name and reason"},
		"no reason":       {with(func(m *Image) { m.Reason = "" }), "name and reason"},
		"neither":         {with(func(m *Image) { m.Program = "" }), "either from a program"},
		"both":            {with(func(m *Image) { m.OCI = "x/b:1" }), "either from a program"},
		"oci with a user": {with(func(m *Image) { m.Program, m.OCI, m.User = "", "x/b:1", "1" }), "brings its entrypoint"},
		"white space":     {with(func(m *Image) { m.Program, m.OCI = "", "x/b: 1" }), "white space"},
		"name twice":      {with(func(*Image) {}), "images[0] (localhost/a:1) has that name already"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.r.checkImages()
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// Paths are relative to the recipe that states them, {arch} is replaced, and what is
// in a registry is for the lock.
func TestImagesOfARecipe(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "site"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "base.yaml", minimal+"images:\n  - {name: reg.example/a:1, oci: reg.example/a:1, reason: r}\n")
	file := write(t, filepath.Join(dir, "site"), "site.yaml", "extends: ../base.yaml\nname: site\ndisk:\n  images:\n    - {name: x/b:1, oci: \"./b-{arch}.tar\", reason: r}\n    - {name: x/c:1, oci: /c, reason: r}\n")
	r, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	a, err := r.For("arm64")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range slices.Concat(a.Images, a.Disk.Images) {
		got = append(got, m.OCI)
	}
	if want := []string{"reg.example/a:1", filepath.Join(dir, "site/b-arm64.tar"), "/c"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := a.OCI(); !slices.Equal(got, []string{"reg.example/a:1"}) {
		t.Errorf("for the lock: %q", got)
	}
}
