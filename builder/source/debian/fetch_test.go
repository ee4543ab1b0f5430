package debian

import (
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
)

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
