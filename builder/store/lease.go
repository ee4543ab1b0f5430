package store

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// lease says that a process uses the store, and since when: a file below
// leases/, named by the time in nanoseconds and a random word, on which the
// process holds a lock (flock(2)) that ends with it, however it ends.
type lease struct {
	name  string
	since time.Time
	path  string
	given sync.Once
	fd    int // bare: an os.File that nobody reaches any more is closed by the garbage collector
}

func takeLease(dir string) (*lease, error) {
	since := time.Now()
	l := &lease{since: since, name: fmt.Sprintf("%d.%s", since.UnixNano(), strings.ToLower(rand.Text()[:10]))}
	l.path = filepath.Join(dir, "leases", l.name)
	// Locked before it has its name: nobody takes it for a dead process's.
	tmp := filepath.Join(dir, "tmp", "lease-"+l.name)
	fd, err := unix.Open(tmp, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, &os.PathError{Op: "create", Path: tmp, Err: err}
	}
	l.fd = fd
	err = flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		err = os.Rename(tmp, l.path)
	}
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd), removeFile(tmp))
	}
	return l, nil
}

func (l *lease) release() error {
	var err error
	l.given.Do(func() { err = errors.Join(os.Remove(l.path), unix.Close(l.fd)) })
	return err
}

// leases are those of living processes, by name; the files of dead ones are removed.
func leases(dir string) (map[string]time.Time, error) {
	entries, err := os.ReadDir(filepath.Join(dir, "leases"))
	if err != nil {
		return nil, err
	}
	out := map[string]time.Time{}
	for _, e := range entries {
		path := filepath.Join(dir, "leases", e.Name())
		f, err := os.Open(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		err = flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
		if err == nil { // nobody holds it
			err = errors.Join(removeFile(path), f.Close())
			if err != nil {
				return nil, err
			}
			continue
		}
		f.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		var ns int64
		if _, err := fmt.Sscanf(e.Name(), "%d.", &ns); err != nil {
			return nil, fmt.Errorf("%s is not the name of a lease: %w", path, err)
		}
		out[e.Name()] = time.Unix(0, ns)
	}
	return out, nil
}

// lockFile opens a file, made where missing, and locks it (flock(2)).
func lockFile(path string, how int) (unlock func(), err error) {
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
		if err != nil {
			return nil, err
		}
		if err := flock(int(f.Fd()), how); err != nil {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		// Collect may have removed the file between the two steps.
		have, err1 := f.Stat()
		want, err2 := os.Stat(path)
		if err1 == nil && err2 == nil && os.SameFile(have, want) {
			return func() { f.Close() }, nil
		}
		f.Close()
		if err := errors.Join(err1, err2); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
}

func flock(fd, how int) error {
	for {
		if err := unix.Flock(fd, how); err != unix.EINTR {
			return err
		}
	}
}

func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// Scratch makes a directory of this process's own on the store's file system.
// Collect removes it when the process is no more.
func (s *Store) Scratch(name string) (string, error) {
	return os.MkdirTemp(filepath.Join(s.dir, "tmp"), s.lease.name+"-"+name+"-")
}
