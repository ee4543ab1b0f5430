// Package debiantest serves small Debian archives, signed with a key of their
// own, for tests of what reads the real one.
package debiantest

import (
	"bytes"
	"crypto"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// suites are the suites that a Repo has, with their archives.
var suites = map[string]string{"trixie": "debian", "trixie-updates": "debian", "trixie-security": "debian-security"}

// Repo is an archive: a set of packages, and the files that are served for them.
// Change its fields, then Publish.
type Repo struct {
	Key        *openpgp.Entity   // signs; nil leaves InRelease unsigned
	Now        time.Time         // the Date of its Releases
	ValidUntil time.Time         // of trixie-updates and trixie-security, as on Debian's mirrors
	Debs       map[string][]Deb  // by suite
	Sources    []Source          // in suite trixie
	Files      map[string][]byte // what is served, by path ("debian/dists/trixie/InRelease")
	NoByHash   bool

	mu       sync.Mutex
	requests []string
}

// Source is a source package.
type Source struct {
	Name, Version string
	Files         map[string]string // content by name
}

// NewKey generates a signing key.
func NewKey(t testing.TB, now time.Time) *openpgp.Entity {
	t.Helper()
	e, err := openpgp.NewEntity("test archive", "", "test@example.org", config(now))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func config(now time.Time) *packet.Config {
	return &packet.Config{Algorithm: packet.PubKeyAlgoEdDSA, DefaultHash: crypto.SHA512, Time: func() time.Time { return now }}
}

// New is a Repo with a fresh key and the given packages in suite trixie, published.
func New(t testing.TB, debs ...Deb) *Repo {
	t.Helper()
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	r := &Repo{Key: NewKey(t, now.Add(-time.Hour)), Now: now, ValidUntil: now.AddDate(0, 0, 7), Debs: map[string][]Deb{"trixie": debs}}
	r.Publish()
	return r
}

// Keys is the key ring that verifies the Repo.
func (r *Repo) Keys() openpgp.EntityList { return openpgp.EntityList{r.Key} }

// PoolPath is where a package's .deb is served.
func PoolPath(archive string, d Deb) string {
	return path.Join(archive, poolFile(d))
}

func poolFile(d Deb) string {
	return fmt.Sprintf("pool/%s/%c/%s/%s_%s_%s.deb", d.component(), d.Name[0], d.Name, d.Name, d.Version[strings.Index(d.Version, ":")+1:], d.arch())
}

// Publish makes Files anew from Debs: what was superseded is gone.
func (r *Repo) Publish() {
	r.Files = map[string][]byte{}
	for suite, archive := range suites {
		dist := archive + "/dists/" + suite + "/"
		var release bytes.Buffer
		fmt.Fprintf(&release, "Origin: Debian\nSuite: test\nCodename: %s\nDate: %s\n", suite, date(r.Now))
		if suite != "trixie" {
			fmt.Fprintf(&release, "Valid-Until: %s\n", date(r.ValidUntil))
		}
		if !r.NoByHash {
			release.WriteString("Acquire-By-Hash: yes\n")
		}
		components := r.components(suite)
		fmt.Fprintf(&release, "Architectures: all amd64 arm64\nComponents: %s\nSHA256:\n", strings.Join(components, " "))
		for i := range 2 * len(components) {
			component, arch := components[i/2], []string{"amd64", "arm64"}[i%2]
			var index bytes.Buffer
			for _, d := range r.Debs[suite] {
				if d.component() != component || d.arch() != arch && d.arch() != "all" {
					continue
				}
				b := d.Bytes()
				r.Files[PoolPath(archive, d)] = b
				fmt.Fprintf(&index, "%sFilename: %s\nSize: %d\nSHA256: %s\n\n", d.fields(), poolFile(d), len(b), Sum(b))
			}
			name := component + "/binary-" + arch + "/Packages.xz"
			b := compress(".xz", index.Bytes())
			r.Files[dist+name] = b
			if !r.NoByHash {
				r.Files[dist+path.Dir(name)+"/by-hash/SHA256/"+Sum(b)] = b
			}
			fmt.Fprintf(&release, " %s %d %s\n", Sum(b), len(b), name)
		}
		var index bytes.Buffer
		for _, s := range r.Sources {
			if suite != "trixie" {
				break
			}
			dir := "pool/main/" + s.Name[:1] + "/" + s.Name
			fmt.Fprintf(&index, "Package: %s\nVersion: %s\nDirectory: %s\nChecksums-Sha256:\n", s.Name, s.Version, dir)
			for _, name := range slices.Sorted(maps.Keys(s.Files)) {
				b := []byte(s.Files[name])
				r.Files[archive+"/"+dir+"/"+name] = b
				fmt.Fprintf(&index, " %s %d %s\n", Sum(b), len(b), name)
			}
			index.WriteString("\n")
		}
		sources := compress(".xz", index.Bytes())
		r.Files[dist+"main/source/Sources.xz"] = sources
		fmt.Fprintf(&release, " %s %d main/source/Sources.xz\n", Sum(sources), len(sources))
		r.Files[dist+"InRelease"] = r.Sign(release.Bytes())
	}
}

// components are main and those that packages of the suite are in.
func (r *Repo) components(suite string) []string {
	out := []string{"main"}
	for _, d := range r.Debs[suite] {
		if !slices.Contains(out, d.component()) {
			out = append(out, d.component())
		}
	}
	return out
}

// Sign clear-signs a Release with the Repo's key.
func (r *Repo) Sign(release []byte) []byte {
	if r.Key == nil {
		return release
	}
	var b bytes.Buffer
	w, err := clearsign.Encode(&b, r.Key.PrivateKey, config(r.Now))
	must(err)
	_, err = w.Write(release)
	must(err)
	must(w.Close())
	return b.Bytes()
}

// ServeHTTP serves Files, with ranges.
func (r *Repo) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	r.requests = append(r.requests, strings.TrimSpace(req.URL.Path+" "+req.Header.Get("Range")))
	r.mu.Unlock()
	b, ok := r.Files[strings.TrimPrefix(req.URL.Path, "/")]
	if !ok {
		http.NotFound(w, req)
		return
	}
	http.ServeContent(w, req, "", time.Time{}, bytes.NewReader(b))
}

// Requests lists what was asked for: the path and, after a space, the Range.
func (r *Repo) Requests() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.requests)
}

// Serve starts a server for h and returns its URL; it ends with the test.
func Serve(t testing.TB, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// Sum is the hexadecimal sha256.
func Sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

func date(t time.Time) string { return t.UTC().Format("Mon, 02 Jan 2006 15:04:05 UTC") }
