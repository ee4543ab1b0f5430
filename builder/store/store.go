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
	"time"

	"golang.org/x/sys/unix"
)

// Store is a cache directory. Its methods are safe for concurrent use by
// goroutines and by processes.
type Store struct{ dir string }

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
	for _, d := range []string{"blobs/sha256", "actions", "locks", "tmp"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return nil, fmt.Errorf("cache %s: %w", dir, err)
		}
	}
	return &Store{dir: dir}, nil
}

// Dir is the store's directory.
func (s *Store) Dir() string { return s.dir }

// Blob is the path of the blob with the given hexadecimal sha256, whether or
// not the store holds it.
func (s *Store) Blob(sum string) string { return filepath.Join(s.dir, "blobs/sha256", sum) }

// Has says whether the store holds the blob.
func (s *Store) Has(sum string) bool {
	_, err := os.Stat(s.Blob(sum))
	return err == nil
}

// Put stores what r yields and returns its hexadecimal sha256 and its size in bytes.
func (s *Store) Put(r io.Reader) (sum string, size int64, err error) {
	f, err := os.CreateTemp(filepath.Join(s.dir, "tmp"), "blob-")
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
	return sum, size, os.Rename(f.Name(), s.Blob(sum))
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
	if err := os.Chmod(path, 0o444); err != nil {
		return err
	}
	return os.Rename(path, s.Blob(sum))
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
	if _, err := os.Stat(final); err == nil {
		return final, true, touch(final)
	}
	unlock, err := s.Lock(ctx, key)
	if err != nil {
		return "", false, err
	}
	defer unlock()
	if _, err := os.Stat(final); err == nil {
		return final, true, nil
	}
	tmp, err := os.MkdirTemp(filepath.Join(s.dir, "tmp"), "action-")
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
	return final, false, os.Rename(tmp, final)
}

// Lock takes the named lock of the store, waiting for another process or
// goroutine that holds it until ctx ends.
func (s *Store) Lock(ctx context.Context, name string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(s.dir, "locks", name), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("cache %s: %w", s.dir, err)
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if err != unix.EWOULDBLOCK && err != unix.EINTR {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func touch(p string) error { now := time.Now(); return os.Chtimes(p, now, now) }
