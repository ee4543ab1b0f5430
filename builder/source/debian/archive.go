package debian

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"golang.org/x/sync/errgroup"

	"garboard.local/builder/progress"
	"garboard.local/builder/store"
)

// Suite is one suite of one archive. Names come from here, never from the host.
type Suite struct {
	Name    string // the codename, and the directory below dists/
	Archive string // BaseArchive or SecurityArchive
}

// components are the parts of a suite that are looked at, the first of which it
// must have: Debian's free software, and the firmware that machines need and that
// is not free. Nothing in main depends on the latter (Debian Policy 2.2.1), so it
// enters a lock only by its own name.
var components = []string{"main", "non-free-firmware"}

// Trixie is Debian 13 with its updates.
func Trixie() []Suite {
	return []Suite{
		{"trixie", BaseArchive},
		{"trixie-updates", BaseArchive},
		{"trixie-security", SecurityArchive},
	}
}

// Options say where an Archive is and how patient it is. Store and Mirrors are
// required; every other zero value stands for the default named beside it.
type Options struct {
	Store    *store.Store
	Mirrors  Mirrors
	Suites   []Suite            // Trixie()
	Keys     openpgp.EntityList // ArchiveKeys()
	Client   *http.Client       // one that honours http_proxy and friends
	Progress progress.Reporter  // progress.Discard
	Now      func() time.Time   // time.Now

	Stall    time.Duration // longest wait for the next byte: 30 s
	Attempts int           // rounds over all mirrors: 4
	Backoff  time.Duration // pause before the second round, doubled after each: 1 s
	Parallel int           // downloads at once: 4
}

// Archive is a set of suites on a set of mirrors. Its methods are safe for
// concurrent use.
type Archive struct {
	Options

	mu       sync.Mutex
	releases map[string]*release // by suite
	indexes  map[string]*index   // by architecture
}

// New returns an Archive. It does not touch the network.
func New(o Options) (*Archive, error) {
	if o.Store == nil || len(o.Mirrors.Base) == 0 || len(o.Mirrors.Security) == 0 {
		return nil, errors.New("debian archive: a store and mirrors of both archives are required")
	}
	if o.Suites == nil {
		o.Suites = Trixie()
	}
	if o.Keys == nil {
		keys, err := ArchiveKeys()
		if err != nil {
			return nil, err
		}
		o.Keys = keys
	}
	if o.Client == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.DisableCompression = true // bytes are counted and hashed as they are on the mirror
		o.Client = &http.Client{Transport: t}
	}
	if o.Progress == nil {
		o.Progress = progress.Discard
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Stall == 0 {
		o.Stall = 30 * time.Second
	}
	if o.Attempts == 0 {
		o.Attempts = 4
	}
	if o.Backoff == 0 {
		o.Backoff = time.Second
	}
	if o.Parallel == 0 {
		o.Parallel = 4
	}
	return &Archive{Options: o, releases: map[string]*release{}, indexes: map[string]*index{}}, nil
}

// SuiteNames are the names of the archive's suites, in their order.
func (a *Archive) SuiteNames() []string {
	var out []string
	for _, s := range a.Suites {
		out = append(out, s.Name)
	}
	return out
}

// index loads the package index of an architecture, once.
func (a *Archive) index(ctx context.Context, arch string) (*index, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if ix := a.indexes[arch]; ix != nil {
		return ix, nil
	}
	var parts [][]record
	for _, s := range a.Suites {
		rel, err := a.release(ctx, s)
		if err != nil {
			return nil, err
		}
		for i, c := range components {
			name := c + "/binary-" + arch + "/Packages.xz"
			if _, ok := rel.files[name]; !ok && i > 0 {
				continue
			}
			part, err := a.packages(ctx, s, rel, name)
			if err != nil {
				return nil, fmt.Errorf("suite %s %s: %w", s.Name, arch, err)
			}
			parts = append(parts, part)
		}
	}
	ix := newIndex(a.where(arch), parts...)
	a.indexes[arch] = ix
	return ix, nil
}

// where names what was searched, for errors.
func (a *Archive) where(arch string) string {
	return a.Suites[0].Name + "/" + components[0] + " " + arch
}

// release fetches and verifies the suite's InRelease from the first mirror that
// has one that holds. a.mu is held.
func (a *Archive) release(ctx context.Context, s Suite) (*release, error) {
	if r := a.releases[s.Name]; r != nil {
		return r, nil
	}
	task := a.Progress.Start("verify", s.Name+" InRelease", 0)
	var errs []error
	for _, m := range a.Mirrors.of(s.Archive) {
		url := m + "/dists/" + s.Name + "/InRelease"
		b, err := a.small(ctx, url)
		if err == nil {
			var r *release
			if r, err = parseRelease(b, a.Keys, s.Name, a.Now()); err == nil {
				task.Done(r.date.Format(time.DateOnly))
				a.releases[s.Name] = r
				return r, nil
			}
		}
		errs = append(errs, fmt.Errorf("%s: %w", url, err))
		if ctx.Err() != nil {
			break
		}
	}
	err := fmt.Errorf("suite %s: %w", s.Name, errors.Join(errs...))
	task.Fail(err)
	return nil, err
}

// packages fetches one of the suite's lists of packages, name as its Release has
// it, and reads it.
func (a *Archive) packages(ctx context.Context, s Suite, rel *release, name string) ([]record, error) {
	f, ok := rel.files[name]
	if !ok {
		return nil, fmt.Errorf("its InRelease lists no %s", name)
	}
	reduced, _, err := a.Store.Action(ctx, store.Key("debian-packages", indexFormat, f.sum), func(ctx context.Context, dir string) error {
		dist := "dists/" + s.Name + "/"
		paths := []string{dist + name}
		if rel.byHash {
			paths = []string{dist + path.Dir(name) + "/by-hash/SHA256/" + f.sum, dist + name}
		}
		blob, err := a.fetch(ctx, wanted{name: s.Name + " " + name, archive: s.Archive, paths: paths, sum: f.sum, size: f.size})
		if err != nil {
			return err
		}
		return reducePackages(blob, dir)
	})
	if err != nil {
		return nil, err
	}
	return readPackages(reduced, s.Archive)
}

// Fetch makes sure that the store holds the package's .deb and returns its path.
// Where no mirror has it any more the error is (or wraps) a *GoneError.
func (a *Archive) Fetch(ctx context.Context, p Package) (path string, err error) {
	path, err = a.fetch(ctx, wanted{name: p.fileName(), archive: p.Archive, paths: []string{p.File}, sum: p.SHA256, size: p.Size})
	var g *goneFile
	if errors.As(err, &g) {
		return "", &GoneError{Package: p, Mirrors: g.mirrors}
	}
	return path, err
}

// FetchAll fetches several packages, some at a time. It goes on when packages
// are gone, so that the error (see Gone) names all of them; any other error ends it.
func (a *Archive) FetchAll(ctx context.Context, ps []Package) error {
	missing := slices.DeleteFunc(slices.Clone(ps), func(p Package) bool { return a.Store.Has(p.SHA256) })
	if n := len(ps) - len(missing); n > 0 {
		a.Progress.Start("fetch", fmt.Sprintf("%d Debian packages", n), 0).Cached()
	}
	var mu sync.Mutex
	var gone []error
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(a.Parallel)
	for _, p := range missing {
		g.Go(func() error {
			_, err := a.Fetch(ctx, p)
			var e *GoneError
			if errors.As(err, &e) {
				mu.Lock()
				defer mu.Unlock()
				gone = append(gone, e)
				return nil
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return errors.Join(gone...)
}

// small reads a whole small file (an InRelease), with retries while the mirror
// answers with something that may pass.
func (a *Archive) small(ctx context.Context, url string) ([]byte, error) {
	const limit = 16 << 20
	var last error
	for i := range a.Attempts {
		if i > 0 {
			if err := sleep(ctx, a.Backoff<<(i-1)); err != nil {
				return nil, errors.Join(err, last)
			}
		}
		resp, done, err := a.open(ctx, url, 0)
		if err != nil {
			if last = err; passing(err) {
				continue
			}
			return nil, err
		}
		b, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
		err = errors.Join(err, done())
		if err == nil && len(b) > limit {
			return nil, fmt.Errorf("it is larger than %d bytes", limit)
		}
		if err == nil {
			return b, nil
		}
		last = err
	}
	return nil, last
}
