package debian

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"garboard.local/builder/progress"
)

// wanted is a file of which everything but the place is known.
type wanted struct {
	name    string   // for people
	archive string   // whose mirrors are tried
	paths   []string // below the mirror, first choice first
	sum     string   // hexadecimal sha256
	size    int64    // bytes
}

// statusError is an answer that is not the file.
type statusError struct{ code int }

func (e *statusError) Error() string {
	return fmt.Sprintf("the mirror answered %d %s", e.code, http.StatusText(e.code))
}

// absent says that the mirror does not have the file.
func absent(err error) bool {
	var s *statusError
	return errors.As(err, &s) && (s.code == http.StatusNotFound || s.code == http.StatusGone)
}

// wrongError is a file that is not the one that was asked for.
type wrongError struct{ what string }

func (e *wrongError) Error() string { return e.what }

// passing says that the same request may succeed in a while.
func passing(err error) bool {
	var s *statusError
	if errors.As(err, &s) {
		return s.code >= 500 || s.code == http.StatusTooManyRequests || s.code == http.StatusRequestTimeout
	}
	var w *wrongError
	return !errors.As(err, &w)
}

var errStalled = errors.New("no byte came for too long")

// fetch brings a file into the store and returns its path there. An interrupted
// download goes on where it stopped, in this process or a later one, from any
// mirror: what counts is the hash at the end.
func (a *Archive) fetch(ctx context.Context, w wanted) (string, error) {
	task := a.Progress.Start("fetch", w.name, w.size)
	if a.Store.Has(w.sum) {
		task.Cached()
		return a.Store.Blob(w.sum), nil
	}
	unlock, err := a.Store.Lock(ctx, "fetch-"+w.sum)
	if err != nil {
		task.Fail(err)
		return "", err
	}
	defer unlock()
	if a.Store.Has(w.sum) { // another build was faster
		task.Cached()
		return a.Store.Blob(w.sum), nil
	}
	if err := a.fromMirrors(ctx, w, task); err != nil {
		err = fmt.Errorf("fetch %s: %w", w.name, err)
		task.Fail(err)
		return "", err
	}
	task.Done("")
	return a.Store.Blob(w.sum), nil
}

// fromMirrors tries every place until one gives the file, in rounds with a
// growing pause between them. Places that lack the file or hold another one are
// not asked again.
func (a *Archive) fromMirrors(ctx context.Context, w wanted, task progress.Task) error {
	mirrors := a.Mirrors.of(w.archive)
	var urls []string
	for _, m := range mirrors {
		for _, p := range w.paths {
			urls = append(urls, m+"/"+p)
		}
	}
	failed := map[string]error{}
	for round := 0; ; round++ {
		for _, url := range urls {
			if failed[url] != nil && !passing(failed[url]) {
				continue
			}
			err := a.fromURL(ctx, w, url, task)
			if err == nil {
				return nil
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			failed[url] = err
		}
		var errs []error
		lacking, hope := 0, false
		for _, url := range urls {
			errs = append(errs, fmt.Errorf("%s: %w", url, failed[url]))
			if absent(failed[url]) {
				lacking++
			}
			hope = hope || passing(failed[url])
		}
		if lacking == len(urls) {
			return &goneFile{w.name, mirrors}
		}
		if !hope || round+1 >= a.Attempts {
			return errors.Join(errs...)
		}
		if err := sleep(ctx, a.Backoff<<round); err != nil {
			return err
		}
	}
}

// fromURL downloads from one place, going on from what an earlier try left. A
// resumed file that turns out wrong is tried once more from its beginning: the
// fault may lie in the part that was there.
func (a *Archive) fromURL(ctx context.Context, w wanted, url string, task progress.Task) error {
	resumed, err := a.download(ctx, w, url, task)
	var wrong *wrongError
	if resumed && errors.As(err, &wrong) {
		_, err = a.download(ctx, w, url, task)
	}
	return err
}

func (a *Archive) download(ctx context.Context, w wanted, url string, task progress.Task) (resumed bool, err error) {
	partial := a.Store.Temp("fetch-" + w.sum)
	f, err := os.OpenFile(partial, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return false, err
	}
	defer f.Close()
	have, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return false, err
	}
	var counted int64 // what this try told the progress bar
	discard := func(format string, args ...any) error {
		task.Add(-counted)
		return errors.Join(&wrongError{fmt.Sprintf(format, args...)}, os.Remove(partial))
	}
	if have > w.size {
		have = 0
	}
	if have < w.size {
		resp, done, err := a.open(ctx, url, have)
		var status *statusError
		if errors.As(err, &status) && status.code == http.StatusRequestedRangeNotSatisfiable {
			return have > 0, discard("it has fewer bytes there than the %d that came before", have)
		}
		if err != nil {
			return have > 0, err
		}
		if resp.StatusCode == http.StatusPartialContent {
			if want := fmt.Sprintf("bytes %d-%d/%d", have, w.size-1, w.size); resp.Header.Get("Content-Range") != want {
				done()
				return true, discard("the mirror answered the range %q, not %q", resp.Header.Get("Content-Range"), want)
			}
		} else {
			have = 0
			if resp.ContentLength >= 0 && resp.ContentLength != w.size {
				done()
				return false, discard("it has %d bytes there, not %d: truncated or another file", resp.ContentLength, w.size)
			}
		}
		resumed = have > 0
		if err := f.Truncate(have); err != nil {
			done()
			return resumed, err
		}
		if _, err := f.Seek(have, io.SeekStart); err != nil {
			done()
			return resumed, err
		}
		counted = have
		task.Add(have)
		n, err := io.Copy(io.MultiWriter(f, counter{task, &counted}), io.LimitReader(resp.Body, w.size-have+1))
		have += n
		if err = errors.Join(err, done()); err != nil || have < w.size {
			task.Add(-counted)
			if err == nil {
				err = io.ErrUnexpectedEOF
			}
			return resumed, fmt.Errorf("the download broke off at %d of %d bytes: %w", have, w.size, err)
		}
		if have > w.size {
			return resumed, discard("it has more than the %d bytes that are expected", w.size)
		}
	} else {
		resumed = true
	}
	if err := f.Close(); err != nil {
		return resumed, err
	}
	if err := a.Store.Adopt(partial, w.sum); err != nil {
		return resumed, discard("damaged or tampered with, discarded: %v", err)
	}
	return resumed, nil
}

type counter struct {
	task  progress.Task
	total *int64
}

func (c counter) Write(p []byte) (int, error) {
	*c.total += int64(len(p))
	c.task.Add(int64(len(p)))
	return len(p), nil
}

// open asks for a URL from the given byte on. The body's reads fail when no byte
// comes for a.Stall; done closes it and says so if that was why.
func (a *Archive) open(ctx context.Context, url string, from int64) (resp *http.Response, done func() error, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(a.Stall, func() { cancel(fmt.Errorf("%w (%s)", errStalled, a.Stall)) })
	stop := func() error {
		timer.Stop()
		cause := context.Cause(ctx)
		cancel(nil)
		if errors.Is(cause, errStalled) {
			return cause
		}
		return nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		stop()
		return nil, nil, err
	}
	if from > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
	}
	resp, err = a.Client.Do(req)
	if err != nil {
		if e := stop(); e != nil {
			err = e
		}
		return nil, nil, err
	}
	if resp.StatusCode != http.StatusOK && (from == 0 || resp.StatusCode != http.StatusPartialContent) {
		resp.Body.Close()
		stop()
		return nil, nil, &statusError{resp.StatusCode}
	}
	body := resp.Body
	resp.Body = watched{body, func() { timer.Reset(a.Stall) }}
	return resp, func() error { body.Close(); return stop() }, nil
}

type watched struct {
	io.ReadCloser
	alive func()
}

func (w watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if n > 0 {
		w.alive()
	}
	return n, err
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// goneFile says that every mirror answered that it does not have a file.
type goneFile struct {
	name    string
	mirrors []string
}

func (e *goneFile) Error() string {
	return fmt.Sprintf("none of %s has it (a mirror that is being updated? try again in some minutes)", strings.Join(e.mirrors, ", "))
}

// GoneError says that no mirror has a package any more, most likely because a
// newer version has superseded it.
type GoneError struct {
	Package Package
	Mirrors []string // base URLs that answered 404 or 410
}

func (e *GoneError) Error() string {
	return fmt.Sprintf("package %s %s %s is gone from every mirror (%s): a newer version has superseded it; run `garboard lock` to pin that one",
		e.Package.Name, e.Package.Version, e.Package.Architecture, strings.Join(e.Mirrors, ", "))
}

// Gone lists the packages of all *GoneErrors in err's tree, each once, sorted by
// name and architecture; nil if there is none.
func Gone(err error) []Package {
	var out []Package
	var walk func(error)
	walk = func(err error) {
		switch e := err.(type) {
		case nil:
		case *GoneError:
			if !slices.ContainsFunc(out, func(p Package) bool { return p.SHA256 == e.Package.SHA256 }) {
				out = append(out, e.Package)
			}
		case interface{ Unwrap() []error }:
			for _, e := range e.Unwrap() {
				walk(e)
			}
		case interface{ Unwrap() error }:
			walk(e.Unwrap())
		}
	}
	walk(err)
	slices.SortFunc(out, comparePackages)
	return out
}
