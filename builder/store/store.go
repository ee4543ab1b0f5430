// Package store is the content-addressed cache of everything that was fetched
// or built. It holds two kinds of things below one directory:
//
//   - blobs/sha256/<hex>: a file named by the hash of its bytes;
//   - actions/<hex>: a directory that a step of the build produced, named by
//     the hash of everything that went into the step.
//
// Both appear under their final name by rename(2) only when they are whole, so
// a killed build leaves nothing that looks finished. Two builds may use one
// store at once: a step that both need is run by one while the other waits.
//
// Collect removes what was used longest ago until the rest fits a limit. Every
// process that opened the store holds a lease, a locked file that says since
// when; nothing that was used since the oldest lease began is ever removed.
package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Store is a cache directory. Its methods are safe for concurrent use by
// goroutines and by processes.
type Store struct {
	dir   string
	lease *lease
	made  *atomic.Int64 // bytes that were added
	slack time.Duration // by how much a mark may be earlier than it was set
}

// DefaultDir is $GARBOARD_CACHE, or garboard below the user's cache directory
// ($XDG_CACHE_HOME, ~/.cache).
func DefaultDir() (string, error) {
	if d := os.Getenv("GARBOARD_CACHE"); d != "" {
		return filepath.Abs(d)
	}
	c, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache directory: %w; set GARBOARD_CACHE", err)
	}
	return filepath.Join(c, "garboard"), nil
}

// Open makes the store's directories where they are missing.
func Open(dir string) (*Store, error) {
	for _, d := range []string{"blobs/sha256", "actions", "sizes", "locks", "leases", "tmp"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return nil, fmt.Errorf("cache %s: %w", dir, err)
		}
	}
	l, err := takeLease(dir)
	if err != nil {
		return nil, fmt.Errorf("cache %s: %w", dir, err)
	}
	return &Store{dir: dir, lease: l, made: new(atomic.Int64), slack: roundsDown}, nil
}

// Close gives the lease back: what the store holds may be removed from then on.
// The end of the process does the same, however it comes.
func (s *Store) Close() error { return s.lease.release() }

// Made is how many bytes this Store added since it was opened.
func (s *Store) Made() int64 { return s.made.Load() }

// Dir is the store's directory.
func (s *Store) Dir() string { return s.dir }

// Blob is the path of the blob with the given hexadecimal sha256, whether or
// not the store holds it.
func (s *Store) Blob(sum string) string { return filepath.Join(s.dir, "blobs/sha256", sum) }

// Has says whether the store holds the blob, which then stays while this Store is open.
func (s *Store) Has(sum string) bool { return s.use(s.Blob(sum)) }

// use says whether a blob or a result is there and marks it as used now. It
// excludes Collect, which looks at the mark again before it removes anything.
func (s *Store) use(path string) bool {
	unlock, err := lockFile(filepath.Join(s.dir, collectLock), unix.LOCK_SH)
	if err != nil {
		return false
	}
	defer unlock()
	return s.touch(path) == nil
}

// touch marks a path as used. No mark is older than the lease, though the clock be set back.
func (s *Store) touch(path string) error {
	now := time.Now()
	if now.Before(s.lease.since) {
		now = s.lease.since
	}
	return os.Chtimes(path, now, now)
}

// adopt gives a finished file or directory its final name and marks it as used.
func (s *Store) adopt(tmp, final string, size int64) error {
	if err := s.touch(tmp); err != nil {
		return err
	}
	s.made.Add(size)
	return os.Rename(tmp, final)
}

// Put stores what r yields and returns its hexadecimal sha256 and its size in bytes.
func (s *Store) Put(r io.Reader) (sum string, size int64, err error) {
	f, err := os.CreateTemp(filepath.Join(s.dir, "tmp"), s.lease.name+"-blob-")
	if err != nil {
		return "", 0, err
	}
	defer os.Remove(f.Name())
	h := sha256.New()
	size, err = io.Copy(io.MultiWriter(f, h), r)
	if err = errors.Join(err, f.Chmod(0o444), f.Close()); err != nil {
		return "", 0, fmt.Errorf("cache %s: %w", s.dir, err)
	}
	sum = hex.EncodeToString(h.Sum(nil))
	return sum, size, s.adopt(f.Name(), s.Blob(sum), size)
}

// Adopt moves a finished file into the store if its sha256 is sum, and is an
// error (the file stays) if it is not. The file must be on the store's file
// system; the tmp directory of the store (Temp) is.
func (s *Store) Adopt(path, sum string) error {
	got, err := HashFile(path)
	if err != nil {
		return err
	}
	if got != sum {
		return fmt.Errorf("%s has sha256 %s, not %s", path, got, sum)
	}
	fi, err := os.Stat(path)
	if err != nil {
		return err
	}
	if err := os.Chmod(path, 0o444); err != nil {
		return err
	}
	return s.adopt(path, s.Blob(sum), fi.Size())
}

// Temp is a stable path below the store's tmp directory for a partial download
// of the given name; it survives the process so that a download can resume.
func (s *Store) Temp(name string) string { return filepath.Join(s.dir, "tmp", name) }

// HashFile is the hexadecimal sha256 of a file's bytes.
func HashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Key hashes the inputs of a step into the name of its result. Parts are
// length-prefixed: no two lists of parts give one key by accident.
func Key(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s,", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// HashTree is a key over the names, types, execute bits and contents of every
// file below dir, in sorted order. A missing dir has the key of an empty one.
func HashTree(dir string) (string, error) {
	var parts []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && p == dir {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		if d.Type()&fs.ModeSymlink != 0 {
			t, err := os.Readlink(p)
			parts = append(parts, rel+"\x00link\x00"+t)
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		sum, err := HashFile(p)
		parts = append(parts, fmt.Sprintf("%s\x00%t\x00%s", rel, fi.Mode()&0o111 != 0, sum))
		return err
	})
	sort.Strings(parts)
	return Key(parts...), err
}

// Action returns the directory that holds the result of the step with this
// key, running produce to fill it if the store has none yet. cached says that
// it was there already. While one process produces, others wait for it.
func (s *Store) Action(ctx context.Context, key string, produce func(ctx context.Context, dir string) error) (dir string, cached bool, err error) {
	final := filepath.Join(s.dir, "actions", key)
	if s.use(final) {
		return final, true, nil
	}
	unlock, err := s.Lock(ctx, key)
	if err != nil {
		return "", false, err
	}
	defer unlock()
	if s.use(final) {
		return final, true, nil
	}
	tmp, err := os.MkdirTemp(filepath.Join(s.dir, "tmp"), s.lease.name+"-action-")
	if err != nil {
		return "", false, fmt.Errorf("cache %s: %w", s.dir, err)
	}
	defer os.RemoveAll(tmp)
	if err := os.Chmod(tmp, 0o755); err != nil {
		return "", false, err
	}
	if err := produce(ctx, tmp); err != nil {
		return "", false, err
	}
	if err := ctx.Err(); err != nil {
		return "", false, err
	}
	size, err := diskUsage(tmp)
	if err == nil {
		err = os.WriteFile(s.sizeFile(key), strconv.AppendInt(nil, size, 10), 0o644)
	}
	if err != nil {
		return "", false, fmt.Errorf("cache %s: %w", s.dir, err)
	}
	return final, false, s.adopt(tmp, final, size)
}

// Lock takes the named lock of the store, waiting for another process or
// goroutine that holds it until ctx ends.
func (s *Store) Lock(ctx context.Context, name string) (unlock func(), err error) {
	path := filepath.Join(s.dir, "locks", name)
	for {
		unlock, err = lockFile(path, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return unlock, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("cache %s: %w", s.dir, err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}
