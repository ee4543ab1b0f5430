package debian

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"garboard.local/builder/source/debian/debiantest"
	"garboard.local/builder/store"
)

// hello is a package of some size with one of each kind of entry.
func hello() debiantest.Deb {
	return debiantest.Deb{
		Name: "hello", Version: "1:1.2-3", Source: "hi (1:1.2-2)", Depends: "libc6 (>= 2)",
		Entries: []tar.Header{
			{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755},
			{Name: "./usr/", Typeflag: tar.TypeDir, Mode: 0o755},
			{Name: "./usr/bin/", Typeflag: tar.TypeDir, Mode: 0o755},
			{Name: "./usr/bin/hello", Typeflag: tar.TypeReg, Mode: 0o4755, Gid: 7},
			{Name: "./usr/bin/hi", Typeflag: tar.TypeSymlink, Linkname: "hello", Mode: 0o777},
			{Name: "./usr/bin/hallo", Typeflag: tar.TypeLink, Linkname: "./usr/bin/hello", Mode: 0o4755, Gid: 7},
			{Name: "./var/spool", Typeflag: tar.TypeDir, Mode: 0o1777},
			{Name: "./etc/hello", Typeflag: tar.TypeSymlink, Linkname: "/usr/share/hello", Mode: 0o777},
			{Name: "./lib/libhello.so", Typeflag: tar.TypeReg, Mode: 0o644},
		},
		Contents: map[string]string{"./usr/bin/hello": strings.Repeat("hello\n", 1000), "./lib/libhello.so": "lib"},
	}
}

func libc() debiantest.Deb { return debiantest.Deb{Name: "libc6", Version: "2.41-1"} }

// testArchive reads r from mirrors (r itself on both archives if none is given).
func testArchive(t *testing.T, r *debiantest.Repo, mirrors ...string) *Archive {
	t.Helper()
	st, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if mirrors == nil {
		mirrors = []string{debiantest.Serve(t, r)}
	}
	var m Mirrors
	for _, u := range mirrors {
		m.Base = append(m.Base, u+"/debian")
		m.Security = append(m.Security, u+"/debian-security")
	}
	a, err := New(Options{
		Store: st, Mirrors: m, Keys: r.Keys(), Now: func() time.Time { return r.Now.Add(time.Hour) },
		Stall: 5 * time.Second, Attempts: 3, Backoff: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func mustResolve(t *testing.T, a *Archive, names ...string) []Package {
	t.Helper()
	ps, err := a.Resolve(context.Background(), "amd64", names)
	if err != nil {
		t.Fatal(err)
	}
	return ps
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want one with %q", parts)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q lacks %q", err, p)
		}
	}
}

func TestArchiveGoodPath(t *testing.T) {
	for _, noByHash := range []bool{false, true} {
		t.Run(fmt.Sprintf("noByHash=%t", noByHash), func(t *testing.T) {
			ctx := context.Background()
			r := debiantest.New(t, hello(), libc())
			r.NoByHash = noByHash
			r.Debs["trixie-security"] = []debiantest.Deb{{Name: "libc6", Version: "2.41-1+deb13u1", Compression: "zst"}}
			r.Publish()
			a := testArchive(t, r)
			ps := mustResolve(t, a, "hello")
			if len(ps) != 2 || ps[0].Name != "hello" || ps[1].Name != "libc6" {
				t.Fatalf("closure is %v", ps)
			}
			h, c := ps[0], ps[1]
			b := hello().Bytes()
			want := Package{Name: "hello", Version: "1:1.2-3", Architecture: "amd64", SHA256: debiantest.Sum(b), Size: int64(len(b)),
				File: "pool/main/h/hello/hello_1.2-3_amd64.deb", Archive: "debian", Source: "hi", SourceVersion: "1:1.2-2", Depends: []string{"libc6"}}
			if fmt.Sprint(h) != fmt.Sprint(want) {
				t.Errorf("got  %+v\nwant %+v", h, want)
			}
			if c.Version != "2.41-1+deb13u1" || c.Archive != "debian-security" {
				t.Errorf("libc6 is not the security update: %+v", c)
			}
			if err := a.FetchAll(ctx, ps); err != nil {
				t.Fatal(err)
			}
			for _, p := range ps {
				if !a.Store.Has(p.SHA256) {
					t.Errorf("%s is not in the store", p.Name)
				}
			}
			before := len(r.Requests())
			if err := a.FetchAll(ctx, ps); err != nil || len(r.Requests()) != before {
				t.Errorf("fetched again although cached: %v", err)
			}
			byHash := slices.ContainsFunc(r.Requests(), func(s string) bool { return strings.Contains(s, "/by-hash/") })
			if byHash == noByHash {
				t.Errorf("by-hash used: %t", byHash)
			}
		})
	}
}

func TestReleaseRefused(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(t *testing.T, r *debiantest.Repo)
		want  []string
	}{
		{"bad signature", func(t *testing.T, r *debiantest.Repo) {
			f := r.Files["debian/dists/trixie/InRelease"]
			r.Files["debian/dists/trixie/InRelease"] = bytes.Replace(f, []byte("Suite: test"), []byte("Suite: best"), 1)
		}, []string{"bad signature", "/debian/dists/trixie/InRelease"}},
		{"unknown key", func(t *testing.T, r *debiantest.Repo) {
			k := r.Key
			r.Key = debiantest.NewKey(t, r.Now.Add(-time.Hour))
			r.Publish()
			r.Key = k
		}, []string{"unknown key", "Debian's archive keys"}},
		{"key not valid yet", func(t *testing.T, r *debiantest.Repo) {
			r.Key.PrimaryKey.CreationTime = r.Now.AddDate(1, 0, 0)
		}, []string{"signature"}},
		{"unsigned", func(t *testing.T, r *debiantest.Repo) {
			k := r.Key
			r.Key = nil
			r.Publish()
			r.Key = k
		}, []string{"not a clear-signed file"}},
		{"text before the signed part", func(t *testing.T, r *debiantest.Repo) {
			f := r.Files["debian/dists/trixie/InRelease"]
			signed := bytes.Replace(f, []byte("Codename: trixie\n"), []byte("Codename: other\n"), 1)
			r.Files["debian/dists/trixie/InRelease"] = append([]byte("Codename: trixie\n\n"), signed...)
		}, []string{"bad signature"}},
		{"other suite", func(t *testing.T, r *debiantest.Repo) {
			r.Files["debian/dists/trixie/InRelease"] = r.Files["debian/dists/trixie-updates/InRelease"]
		}, []string{`the Release of "trixie-updates", not of "trixie"`}},
		{"expired", func(t *testing.T, r *debiantest.Repo) {
			r.ValidUntil = r.Now.Add(-time.Minute)
			r.Publish()
		}, []string{"suite trixie-updates", "expired: valid until 2026-06-01", "--mirror", "clock"}},
		{"from the future", func(t *testing.T, r *debiantest.Repo) {
			r.Files["debian/dists/trixie/InRelease"] = r.Sign([]byte("Codename: trixie\nDate: Mon, 01 Jan 2029 00:00:00 UTC\nSHA256:\n"))
		}, []string{"set this machine's clock"}},
		{"no date", func(t *testing.T, r *debiantest.Repo) {
			r.Files["debian/dists/trixie/InRelease"] = r.Sign([]byte("Codename: trixie\nSHA256:\n"))
		}, []string{"field Date"}},
		{"path out of the suite", func(t *testing.T, r *debiantest.Repo) {
			r.Files["debian/dists/trixie/InRelease"] = r.Sign([]byte("Codename: trixie\nDate: Mon, 01 Jun 2026 00:00:00 UTC\nSHA256:\n " + strings.Repeat("0", 64) + " 1 ../x\n"))
		}, []string{"malformed line"}},
		{"missing", func(t *testing.T, r *debiantest.Repo) {
			delete(r.Files, "debian/dists/trixie/InRelease")
		}, []string{"404"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := debiantest.New(t, hello(), libc())
			a := testArchive(t, r)
			tc.spoil(t, r)
			_, err := a.Resolve(context.Background(), "amd64", []string{"hello"})
			wantError(t, err, tc.want...)
		})
	}
}

func TestReleaseFromTheNextMirror(t *testing.T) {
	good := debiantest.New(t, libc())
	stale := debiantest.New(t)
	stale.Key = good.Key
	stale.ValidUntil = stale.Now.Add(-time.Hour)
	stale.Publish()
	a := testArchive(t, good, debiantest.Serve(t, stale), debiantest.Serve(t, good))
	stale.Files["debian/dists/trixie/InRelease"] = []byte("<html>log in to the wireless network</html>")
	mustResolve(t, a, "libc6")
}

func TestWrongPackagesHash(t *testing.T) {
	r := debiantest.New(t, hello(), libc())
	for p, b := range r.Files {
		if strings.HasPrefix(p, "debian/dists/trixie/main/binary-amd64/") {
			b = bytes.Clone(b)
			b[len(b)/2] ^= 1
			r.Files[p] = b
		}
	}
	_, err := testArchive(t, r).Resolve(context.Background(), "amd64", []string{"hello"})
	wantError(t, err, "suite trixie amd64", "Packages.xz", "damaged or tampered with")
}
