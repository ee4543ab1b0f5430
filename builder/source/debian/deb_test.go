package debian

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"garboard.local/builder/source/debian/debiantest"
	"garboard.local/builder/store"
)

// stored puts a .deb into a store and returns the Package that pins it.
func stored(t *testing.T, st *store.Store, d debiantest.Deb) Package {
	t.Helper()
	b := d.Bytes()
	sum, size, err := st.Put(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return Package{Name: d.Name, Version: d.Version, Architecture: "amd64", SHA256: sum, Size: size, File: "pool/main/x/" + d.Name + ".deb"}
}

func openStore(t *testing.T) *store.Store {
	t.Helper()
	st, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func TestFiles(t *testing.T) {
	for _, compression := range []string{"xz", "zst", "gz", "none"} {
		t.Run(compression, func(t *testing.T) {
			st := openStore(t)
			d := hello()
			d.Compression = compression
			p := stored(t, st, d)
			for range 2 { // the second time from the cache
				c, err := Files(context.Background(), st, p)
				if err != nil {
					t.Fatal(err)
				}
				if c.Source != "hi" || c.SourceVersion != "1:1.2-2" || c.Version != "1:1.2-3" || c.Description != "test package" {
					t.Errorf("control fields: %+v", c)
				}
				sum := debiantest.Sum([]byte(strings.Repeat("hello\n", 1000)))
				lib := debiantest.Sum([]byte("lib"))
				want := []File{
					{Path: "usr", Type: TypeDir, Mode: 0o755},
					{Path: "usr/bin", Type: TypeDir, Mode: 0o755},
					{Path: "usr/bin/hello", Type: TypeFile, Mode: 0o4755, GID: 7, Size: 6000, SHA256: sum},
					{Path: "usr/bin/hi", Type: TypeSymlink, Mode: 0o777, Link: "hello"},
					{Path: "usr/bin/hallo", Type: TypeHardlink, Mode: 0o4755, GID: 7, Link: "usr/bin/hello", Size: 6000, SHA256: sum},
					{Path: "var/spool", Type: TypeDir, Mode: 0o1777},
					{Path: "etc/hello", Type: TypeSymlink, Mode: 0o777, Link: "/usr/share/hello"},
					{Path: "lib/libhello.so", Type: TypeFile, Mode: 0o644, Size: 3, SHA256: lib},
				}
				if fmt.Sprint(c.Files) != fmt.Sprint(want) {
					t.Errorf("got  %v\nwant %v", c.Files, want)
				}
				b, err := os.ReadFile(c.Content(c.Files[4]))
				if err != nil || debiantest.Sum(b) != sum {
					t.Errorf("content of the hard link: %v", err)
				}
			}
		})
	}
}

func TestFilesOfAnotherPackage(t *testing.T) {
	st := openStore(t)
	p := stored(t, st, hello())
	p.Version = "9"
	_, err := Files(context.Background(), st, p)
	wantError(t, err, "its .deb says that it is hello 1:1.2-3", "`garboard lock`")
}

func TestDebRefused(t *testing.T) {
	dir := func(n string) tar.Header { return tar.Header{Name: n, Typeflag: tar.TypeDir, Mode: 0o755} }
	file := func(n string) tar.Header { return tar.Header{Name: n, Typeflag: tar.TypeReg, Mode: 0o644} }
	link := func(n, to string) tar.Header { return tar.Header{Name: n, Typeflag: tar.TypeSymlink, Linkname: to} }
	hard := func(n, to string) tar.Header { return tar.Header{Name: n, Typeflag: tar.TypeLink, Linkname: to} }
	for _, tc := range []struct {
		name    string
		entries []tar.Header
		want    string
	}{
		{"traversal", []tar.Header{file("./usr/../../etc/passwd")}, "leads out of the package"},
		{"absolute", []tar.Header{file("/etc/passwd")}, `malformed path "/etc/passwd"`},
		{"twice", []tar.Header{file("./a"), file("a")}, `"a" comes twice`},
		{"file and directory", []tar.Header{file("./a"), dir("./a/")}, `"a" comes twice`},
		{"through a link", []tar.Header{link("./a", "/etc"), file("./a/passwd")}, `"a/passwd" lies below "a", which is a symlink`},
		{"through a later link", []tar.Header{file("./a/b/passwd"), link("./a", "/etc")}, `lies below "a", which is a symlink`},
		{"below a file", []tar.Header{file("./a"), file("./a/b")}, "which is a file"},
		{"hard link out", []tar.Header{hard("./a", "../../etc/passwd")}, "leads out of the package"},
		{"hard link to nothing", []tar.Header{hard("./a", "./b")}, `"a" is a hard link to "b", which is no file before it`},
		{"hard link to a link", []tar.Header{link("./b", "/etc/passwd"), hard("./a", "./b")}, "which is no file before it"},
		{"device", []tar.Header{{Name: "./null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}}, "are not taken"},
		{"fifo", []tar.Header{{Name: "./f", Typeflag: tar.TypeFifo}}, "are not taken"},
		{"root is a link", []tar.Header{link("./", "/")}, "the root is not a directory"},
		{"too many entries", []tar.Header{dir("1"), dir("2"), dir("3"), dir("4"), dir("5")}, "more than 4 entries"},
		{"too large", []tar.Header{file("./large"), file("./a")}, "more than 100 bytes in all"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := debiantest.Deb{Name: "x", Version: "1", Entries: tc.entries, Contents: map[string]string{"./large": strings.Repeat("x", 101)}}
			lim := debLimits
			lim.entries, lim.bytes = 4, 100
			_, err := readDeb(bytes.NewReader(d.Bytes()), lim, drain)
			wantError(t, err, tc.want)
		})
	}

	whole := hello().Bytes()
	for _, tc := range []struct {
		name string
		deb  []byte
		want string
	}{
		{"no archive", []byte("hello"), "not a .deb"},
		{"truncated", whole[:len(whole)-40], "data.tar.xz"},
		{"no data", debiantest.Ar([]debiantest.Member{{Name: "debian-binary", Data: []byte("2.0\n")}}), "control.tar or data.tar is missing"},
		{"other format", debiantest.Ar([]debiantest.Member{{Name: "debian-binary", Data: []byte("3.0\n")}}), "not a .deb of format 2"},
		{"negative size", bytes.Replace(whole, []byte("4         `"), []byte("-60       `"), 1), "absurd size"},
		{"unknown member", debiantest.Ar([]debiantest.Member{{Name: "debian-binary", Data: []byte("2.0\n")}, {Name: "extra", Data: nil}}), `unexpected "extra"`},
		{"unknown compression", bytes.Replace(whole, []byte("data.tar.xz "), []byte("data.tar.br "), 1), "unknown compression"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := readDeb(bytes.NewReader(tc.deb), debLimits, drain)
			wantError(t, err, tc.want)
		})
	}
}

func drain(_ File, r io.Reader) error {
	if r == nil {
		return nil
	}
	_, err := io.Copy(io.Discard, r)
	return err
}

// FuzzDeb: whatever comes, the reader ends, keeps to its limits and yields no
// path that leads out.
func FuzzDeb(f *testing.F) {
	for _, c := range []string{"xz", "zst", "gz", "none"} {
		d := hello()
		d.Compression = c
		f.Add(d.Bytes())
	}
	lim := limits{entries: 100, bytes: 1 << 20, members: 8, window: 1 << 23}
	f.Fuzz(func(t *testing.T, b []byte) {
		n := 0
		_, _ = readDeb(bytes.NewReader(b), lim, func(e File, r io.Reader) error {
			if n++; n > lim.entries {
				t.Fatal("more entries than allowed")
			}
			if e.Path == "" || e.Path[0] == '/' || strings.HasPrefix(e.Path+"/", "../") || strings.Contains(e.Path, "/../") {
				t.Fatalf("path %q", e.Path)
			}
			return drain(e, r)
		})
	})
}

// FuzzDebEntries: two entries of any kind, one after the other, either are
// refused or can be written below a directory without leaving it.
func FuzzDebEntries(f *testing.F) {
	f.Add("./a", byte(tar.TypeSymlink), "/etc", "./a/passwd", byte(tar.TypeReg), "")
	f.Add("usr/", byte(tar.TypeDir), "", "usr/b", byte(tar.TypeLink), "usr/a")
	f.Fuzz(func(t *testing.T, name1 string, type1 byte, link1, name2 string, type2 byte, link2 string) {
		var data bytes.Buffer
		w := tar.NewWriter(&data)
		for _, h := range []tar.Header{{Name: name1, Typeflag: type1, Linkname: link1}, {Name: name2, Typeflag: type2, Linkname: link2}} {
			if w.WriteHeader(&h) != nil {
				return
			}
		}
		if w.Close() != nil {
			return
		}
		b := debiantest.Ar([]debiantest.Member{
			{Name: "debian-binary", Data: []byte("2.0\n")},
			{Name: "control.tar.gz", Data: debiantest.Deb{Name: "x", Version: "1"}.Control()},
			{Name: "data.tar", Data: data.Bytes()},
		})
		kinds := map[string]string{}
		_, err := readDeb(bytes.NewReader(b), debLimits, func(e File, r io.Reader) error {
			if !filepath.IsLocal(e.Path) || e.Type == TypeHardlink && !filepath.IsLocal(e.Link) {
				t.Fatalf("leads out: %+v", e)
			}
			if kinds[e.Path] != "" {
				t.Fatalf("%q twice", e.Path)
			}
			kinds[e.Path] = e.Type
			return drain(e, r)
		})
		for p := range kinds {
			if k := kinds[filepath.Dir(p)]; err == nil && k != "" && k != TypeDir {
				t.Errorf("%q lies below a %s", p, k)
			}
		}
	})
}

func FuzzPackages(f *testing.F) {
	f.Add([]byte("Package: a\nVersion: 1\nArchitecture: all\nFilename: pool/a.deb\nSize: 3\nSHA256: " + strings.Repeat("0", 64) + "\nDepends: b (>= 1) | c:any, d\nProvides: x (= 2)\n\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		recs, err := parsePackages(bytes.NewReader(b), BaseArchive)
		if err != nil {
			return
		}
		ix := newIndex("fuzz", recs)
		for n := range ix.byName {
			ps, err := ix.resolve(Request{Arch: "amd64", Names: []string{n}})
			for _, p := range ps {
				if e := p.Validate(); e != nil && err == nil {
					t.Error(e)
				}
			}
		}
	})
}

func FuzzRelease(f *testing.F) {
	r := debiantest.New(f, hello())
	f.Add(r.Files["debian/dists/trixie/InRelease"])
	f.Add([]byte("-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\nx\n-----BEGIN PGP SIGNATURE-----\n\nwsB=\n-----END PGP SIGNATURE-----\n"))
	keys, now := r.Keys(), r.Now
	good := r.Files["debian/dists/trixie/InRelease"]
	f.Fuzz(func(t *testing.T, b []byte) {
		rel, err := parseRelease(b, keys, "trixie", now)
		if err == nil && !bytes.Contains(good, []byte(rel.files["main/binary-amd64/Packages.xz"].sum)) {
			t.Error("accepted a Release that nobody signed")
		}
		_, _ = parseHashes(string(b))
	})
}
