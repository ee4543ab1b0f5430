package builder

import (
	"archive/tar"
	"bytes"
	"context"
	"strings"
	"testing"

	"garboard.local/builder/recipe"
	"garboard.local/builder/rootfs"
	"garboard.local/builder/source/debian"
	"garboard.local/builder/source/debian/debiantest"
	"garboard.local/builder/store"
)

// packages puts .debs into a new store and returns a build and library over them.
func packages(t *testing.T, debs ...debiantest.Deb) (*build, *library) {
	t.Helper()
	st, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]debian.Package{}
	for _, d := range debs {
		b := d.Bytes()
		sum, size, err := st.Put(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		byName[d.Name] = debian.Package{Name: d.Name, Version: d.Version, Architecture: "amd64", SHA256: sum, Size: size}
	}
	b := &build{Options: Options{Store: st}, debs: byName, tree: rootfs.New(), recipe: &recipe.Recipe{File: "r.yaml"}}
	return b, &library{ctx: context.Background(), store: st, debs: byName}
}

func deb(name string, contents map[string]string, entries ...tar.Header) debiantest.Deb {
	for p, body := range contents {
		entries = append(entries, tar.Header{Name: p, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(body))})
	}
	return debiantest.Deb{Name: name, Version: "1", Entries: entries, Contents: contents}
}

func symlink(p, to string) tar.Header {
	return tar.Header{Name: p, Linkname: to, Typeflag: tar.TypeSymlink, Mode: 0o777}
}

func paths(t *rootfs.Tree) string {
	var out []string
	for _, e := range t.Entries() {
		if e.Kind != rootfs.Dir {
			out = append(out, e.Path)
		}
	}
	return strings.Join(out, " ")
}

func TestPackagesGiveWhatIsAskedForAndNoMore(t *testing.T) {
	b, lib := packages(t,
		deb("tool", map[string]string{"./usr/bin/tool": "t", "./usr/share/doc/tool": "d", "./lib/tool/a.so": "a", "./lib/tool/b.so": "b"},
			symlink("./usr/bin/alias", "tool"), symlink("./usr/bin/far", "/lib/tool/a.so")))
	for _, pattern := range []string{"/usr/bin/alias", "/usr/bin/far", "/usr/lib/tool/*.so"} {
		if err := b.addPattern(lib, recipe.Package{Name: "tool"}, pattern, "why"); err != nil {
			t.Fatal(err)
		}
	}
	// alias brought tool; far brought a.so, at its merged place.
	if got, want := paths(b.tree), "usr/bin/alias usr/bin/far usr/bin/tool usr/lib/tool/a.so usr/lib/tool/b.so"; got != want {
		t.Errorf("the tree holds %s\nwant %s", got, want)
	}
	if e := b.tree.Get("/usr/bin/tool"); e.Origin != "deb tool 1" || e.Reason != "why" {
		t.Errorf("origin %q, reason %q", e.Origin, e.Reason)
	}
	for _, c := range []struct{ pkg, pattern, want string }{
		{"tool", "/usr/bin/missing", "package tool 1 holds no file /usr/bin/missing; `garboard inspect --package tool`"},
		{"tool", "/usr/bin/[", "syntax error"},
		{"other", "/x", "run `garboard lock`"},
	} {
		err := b.addPattern(lib, recipe.Package{Name: c.pkg}, c.pattern, "why")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s of %s: %v, want %q", c.pattern, c.pkg, err, c.want)
		}
	}
}

func TestSetuidIsDroppedUnlessAskedFor(t *testing.T) {
	suid := func(p string) tar.Header {
		return tar.Header{Name: p, Typeflag: tar.TypeReg, Mode: 0o4755, Size: 1}
	}
	d := debiantest.Deb{Name: "su", Version: "1", Entries: []tar.Header{suid("./usr/bin/su"), suid("./usr/bin/keep")},
		Contents: map[string]string{"./usr/bin/su": "x", "./usr/bin/keep": "y"}}
	b, lib := packages(t, d)
	if err := b.addPattern(lib, recipe.Package{Name: "su", Setuid: []string{"/usr/bin/keep"}}, "/usr/bin/*", "why"); err != nil {
		t.Fatal(err)
	}
	if got := b.tree.Get("/usr/bin/su").Mode; got != 0o755 {
		t.Errorf("su has mode %04o", got)
	}
	if got := b.tree.Get("/usr/bin/keep").Mode; got != 0o4755 {
		t.Errorf("keep has mode %04o", got)
	}
}

func TestConcatJoinsInTheOrderOfNames(t *testing.T) {
	b, lib := packages(t, deb("ca", map[string]string{"./ca/b.crt": "second\n\n", "./ca/a.crt": "first"}))
	p := recipe.Package{Name: "ca", Reason: "why", Concat: map[string]string{"/etc/ca": "/ca/*.crt"}}
	if err := b.concat(lib, p); err != nil {
		t.Fatal(err)
	}
	r, err := b.tree.Get("/etc/ca").Open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var got bytes.Buffer
	got.ReadFrom(r)
	if got.String() != "first\nsecond\n" {
		t.Errorf("%q", got.String())
	}
}

func TestLibrariesAreFoundBesideTheirLink(t *testing.T) {
	b, lib := packages(t,
		deb("libx1", map[string]string{"./usr/lib/t/libx.so.1.2": "x"}, symlink("./usr/lib/t/libx.so.1", "libx.so.1.2")),
		deb("liby1", nil, symlink("./usr/lib/t/liby.so.1", "liby.so.1.2"))) // its file is missing
	found, ok := lib.Find("usr/lib/t/libx.so.1")
	if !ok || len(found) != 2 || found[1].Path != "usr/lib/t/libx.so.1.2" {
		t.Errorf("libx: %v, %v", found, ok)
	}
	if _, ok := lib.Find("usr/lib/t/liby.so.1"); ok {
		t.Error("a link without its file was taken for a library")
	}
	if err := b.addPattern(lib, recipe.Package{Name: "liby1"}, "/usr/lib/t/liby.so.1", "why"); err != nil {
		t.Fatal(err)
	}
	if err := b.tree.Check(); err == nil || !strings.Contains(err.Error(), "liby.so.1.2") {
		t.Errorf("a dangling link: %v", err)
	}
}
