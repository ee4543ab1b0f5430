package debian

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
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

func TestDamagedDeb(t *testing.T) {
	path := debiantest.PoolPath("debian", hello())
	whole := hello().Bytes()
	tampered := bytes.Clone(whole)
	tampered[100] ^= 1
	for _, tc := range []struct {
		name   string
		served []byte
		want   string
	}{
		{"tampered", tampered, "damaged or tampered with, discarded"},
		{"truncated", whole[:len(whole)-7], fmt.Sprintf("it has %d bytes there, not %d", len(whole)-7, len(whole))},
		{"longer", append(bytes.Clone(whole), 'x'), fmt.Sprintf("it has %d bytes there, not %d", len(whole)+1, len(whole))},
		{"empty", nil, "it has 0 bytes there"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bad, good := debiantest.New(t, hello(), libc()), debiantest.New(t, hello(), libc())
			bad.Files[path] = tc.served
			badURL := debiantest.Serve(t, bad)
			a := testArchive(t, bad, badURL)
			p := mustResolve(t, a, "hello")[0]
			_, err := a.Fetch(context.Background(), p)
			wantError(t, err, "fetch hello_1.2-3_amd64.deb", badURL, tc.want)
			if Gone(err) != nil {
				t.Errorf("a damaged package is called gone: %v", err)
			}
			if a.Store.Has(p.SHA256) {
				t.Error("it is in the store all the same")
			}
			if _, err := os.Stat(a.Store.Temp("fetch-" + p.SHA256)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the wrong file was not discarded: %v", err)
			}

			a.Mirrors.Base = append(a.Mirrors.Base, debiantest.Serve(t, good)+"/debian")
			if _, err := a.Fetch(context.Background(), p); err != nil {
				t.Errorf("with a good second mirror: %v", err)
			}
		})
	}
}

// breaking serves a repo but hangs up, or goes silent, after some bytes of each
// whole .deb; ranges are served in full.
type breaking struct {
	*debiantest.Repo
	after  int
	silent chan struct{} // if not nil, hold the connection until it is closed
	broken atomic.Int32
}

func (b *breaking) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if !strings.HasSuffix(req.URL.Path, ".deb") || req.Header.Get("Range") != "" {
		b.Repo.ServeHTTP(w, req)
		return
	}
	b.broken.Add(1)
	body := b.Files[strings.TrimPrefix(req.URL.Path, "/")]
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	w.Write(body[:b.after])
	w.(http.Flusher).Flush()
	if b.silent != nil {
		select {
		case <-b.silent:
		case <-req.Context().Done():
		}
	}
	panic(http.ErrAbortHandler)
}

func TestInterruptedDownloadResumes(t *testing.T) {
	for _, silent := range []bool{false, true} {
		t.Run(fmt.Sprintf("silent=%t", silent), func(t *testing.T) {
			r := debiantest.New(t, hello(), libc())
			b := &breaking{Repo: r, after: 200}
			if silent {
				b.silent = make(chan struct{})
				defer close(b.silent)
			}
			a := testArchive(t, r, debiantest.Serve(t, b))
			p := mustResolve(t, a, "hello")[0]
			a.Stall = 200 * time.Millisecond
			if _, err := a.Fetch(context.Background(), p); err != nil {
				t.Fatal(err)
			}
			want := "/debian/" + p.File + " bytes=200-"
			if !slices.Contains(r.Requests(), want) || b.broken.Load() != 1 {
				t.Errorf("broken off %d times; requests %q lack %q", b.broken.Load(), r.Requests(), want)
			}
		})
	}
}

func TestResumeOfWrongBytesStartsAnew(t *testing.T) {
	for _, left := range []string{"not the beginning of a .deb", strings.Repeat("x", 1<<20)} {
		r := debiantest.New(t, hello(), libc())
		a := testArchive(t, r)
		p := mustResolve(t, a, "hello")[0]
		if err := os.WriteFile(a.Store.Temp("fetch-"+p.SHA256), []byte(left), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Fetch(context.Background(), p); err != nil {
			t.Error(err)
		}
	}
}

func TestServerWithoutRanges(t *testing.T) {
	r := debiantest.New(t, hello(), libc())
	plain := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		req.Header.Del("Range")
		r.ServeHTTP(w, req)
	})
	a := testArchive(t, r, debiantest.Serve(t, plain))
	p := mustResolve(t, a, "hello")[0]
	if err := os.WriteFile(a.Store.Temp("fetch-"+p.SHA256), hello().Bytes()[:50], 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Fetch(context.Background(), p); err != nil {
		t.Error(err)
	}
}

func TestServerErrorsPass(t *testing.T) {
	r := debiantest.New(t, hello(), libc())
	var n atomic.Int32
	flaky := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if n.Add(1)%2 == 1 {
			http.Error(w, "busy", http.StatusServiceUnavailable)
			return
		}
		r.ServeHTTP(w, req)
	})
	a := testArchive(t, r, debiantest.Serve(t, flaky))
	if err := a.FetchAll(context.Background(), mustResolve(t, a, "hello")); err != nil {
		t.Error(err)
	}
}

func TestMissingOnOneMirrorThenGone(t *testing.T) {
	r := debiantest.New(t, hello(), libc())
	moved := debiantest.New(t, hello(), libc())
	movedURL, goodURL := debiantest.Serve(t, moved), debiantest.Serve(t, r)
	a := testArchive(t, r, movedURL, goodURL)
	ps := mustResolve2(t, a, goodURL)
	moved.Debs["trixie"] = nil
	moved.Publish()
	if _, err := a.Fetch(context.Background(), ps[1]); err != nil {
		t.Errorf("one mirror lacks it, the other has it: %v", err)
	}
	r.Debs["trixie"] = nil
	r.Publish()
	err := a.FetchAll(context.Background(), ps)
	wantError(t, err, "package hello 1:1.2-3 amd64 is gone", movedURL+"/debian", goodURL+"/debian", "`garboard lock`")
	if g := Gone(fmt.Errorf("build: %w", err)); len(g) != 1 || g[0].Name != "hello" {
		t.Errorf("gone: %v", g)
	}

	a.Mirrors.Base = append(a.Mirrors.Base, debiantest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no", http.StatusForbidden)
	})))
	err = a.FetchAll(context.Background(), ps)
	wantError(t, err, "403")
	if Gone(err) != nil {
		t.Errorf("called gone although one mirror did not say so: %v", err)
	}
}

// mustResolve2 resolves hello from one mirror only.
func mustResolve2(t *testing.T, a *Archive, url string) []Package {
	t.Helper()
	all := a.Mirrors
	a.Mirrors = Mirrors{Base: []string{url + "/debian"}, Security: []string{url + "/debian-security"}}
	defer func() { a.Mirrors = all }()
	return mustResolve(t, a, "hello")
}

func TestCancel(t *testing.T) {
	r := debiantest.New(t, hello(), libc())
	b := &breaking{Repo: r, after: 10, silent: make(chan struct{})}
	defer close(b.silent)
	a := testArchive(t, r, debiantest.Serve(t, b))
	p := mustResolve(t, a, "hello")[0]
	a.Stall = time.Hour
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if _, err := a.Fetch(ctx, p); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestKeys(t *testing.T) {
	keys, err := ArchiveKeys()
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("keys/README.md")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, k := range keys {
		f := fmt.Sprintf("%X", k.PrimaryKey.Fingerprint)
		got = append(got, f)
		if !bytes.Contains(readme, []byte(f)) {
			t.Errorf("keys/README.md does not name %s", f)
		}
		for _, sub := range append(k.Subkeys[:0:0], k.Subkeys...) {
			if sub.PublicKey == nil {
				t.Errorf("%s has an empty subkey", f)
			}
		}
		if k.PrivateKey != nil {
			t.Errorf("%s holds a private key", f)
		}
	}
	slices.Sort(got)
	want := []string{"04B54C3CDCA79751B16BC6B5225629DF75B188BD", "41587F7DB8C774BCCF131416762F67A0B2C39DE4", "5E04A1E3223A19A20706E20F9904613D4CCE68C6"}
	if !slices.Equal(got, want) {
		t.Errorf("keys %v, want %v", got, want)
	}
}
