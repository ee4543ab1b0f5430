package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// collectLock is held shared by who marks an entry as used, alone by who removes one.
const collectLock = "collect.lock"

// roundsDown is by how much a file system may make a time earlier.
const roundsDown = 2 * time.Second

// partialAge is how long an interrupted download is kept to go on with.
const partialAge = 7 * 24 * time.Hour

// Usage is what a store holds.
type Usage struct {
	Dir     string    `json:"dir"`
	Blobs   int       `json:"blobs"`   // files that were fetched or built
	Actions int       `json:"actions"` // results of steps
	Bytes   int64     `json:"bytes"`   // on disk
	Oldest  time.Time `json:"oldest"`  // last use of what was used longest ago
	Leases  int       `json:"leases"`  // processes that use it, this one included
}

// Collected is what Collect did.
type Collected struct {
	Removed int   `json:"removed"` // blobs and results
	Freed   int64 `json:"freed"`   // bytes on disk
	Left    int64 `json:"left"`    // bytes on disk
	InUse   int64 `json:"inUse"`   // bytes of what is left that running builds may be using
}

// held is a blob or a result.
type held struct {
	path string
	size int64 // bytes on disk
	used time.Time
}

// Usage adds up what the store holds.
func (s *Store) Usage() (Usage, error) {
	u := Usage{Dir: s.dir}
	all, err := s.list()
	if err != nil {
		return u, fmt.Errorf("cache %s: %w", s.dir, err)
	}
	for _, e := range all {
		if u.Bytes += e.size; u.Oldest.IsZero() || e.used.Before(u.Oldest) {
			u.Oldest = e.used
		}
		if filepath.Base(filepath.Dir(e.path)) == "actions" {
			u.Actions++
		} else {
			u.Blobs++
		}
	}
	alive, err := leases(s.dir)
	u.Leases = len(alive)
	return u, err
}

// Collect removes what killed processes left and then, least recently used
// first, blobs and results until no more than limit bytes are left, or only what
// was used less than age ago or since the oldest running process opened the
// store (this one included). It may run beside builds and other collectors, and
// be killed at any time: an entry goes by rename, whole.
func (s *Store) Collect(ctx context.Context, limit int64, age time.Duration) (Collected, error) {
	var c Collected
	fail := func(err error) (Collected, error) { return c, fmt.Errorf("cache %s: %w", s.dir, err) }
	// The list first: a process that opens the store after the leases were read
	// marks what it uses, and the mark is looked at again.
	all, err := s.list()
	if err != nil {
		return fail(err)
	}
	alive, err := leases(s.dir)
	if err != nil {
		return fail(err)
	}
	if err := s.sweep(alive); err != nil {
		return fail(err)
	}
	before := time.Now().Add(-age)
	for _, since := range alive {
		if since.Before(before) {
			before = since
		}
	}
	before = before.Add(-s.slack)
	for _, e := range all {
		if c.Left += e.size; !e.used.Before(before) {
			c.InUse += e.size
		}
	}
	slices.SortFunc(all, func(a, b held) int { return a.used.Compare(b.used) })
	for _, e := range all {
		if c.Left <= limit || !e.used.Before(before) {
			break
		}
		if err := ctx.Err(); err != nil {
			return c, err
		}
		switch what, err := s.remove(e); {
		case err != nil:
			return fail(err)
		case what == removed:
			c.Removed++
			c.Freed += e.size
			c.Left -= e.size
		case what == vanished:
			c.Left -= e.size
		case what == used:
			c.InUse += e.size
		}
	}
	return c, nil
}

// list finds every blob and result.
func (s *Store) list() ([]held, error) {
	var out []held
	for _, d := range []string{"blobs/sha256", "actions"} {
		entries, err := os.ReadDir(filepath.Join(s.dir, d))
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			h := held{path: filepath.Join(s.dir, d, e.Name())}
			fi, err := os.Lstat(h.path)
			if err == nil {
				h.used = fi.ModTime()
				if fi.IsDir() {
					h.size, err = s.actionSize(e.Name())
				} else {
					h.size = blocks(fi)
				}
			}
			if errors.Is(err, fs.ErrNotExist) {
				continue // another collector was faster
			}
			if err != nil {
				return nil, err
			}
			out = append(out, h)
		}
	}
	return out, nil
}

// fate is what became of an entry that was to be removed.
type fate int

const (
	removed  fate = iota
	vanished      // another collector was faster
	used          // somebody used it since it was listed: it stays
)

// remove takes an entry away unless it was used since it was listed.
func (s *Store) remove(e held) (fate, error) {
	trash := filepath.Join(s.dir, "tmp", s.lease.name+"-trash-"+filepath.Base(e.path))
	what, err := s.rename(e, trash)
	if err != nil || what != removed {
		return what, err
	}
	return removed, errors.Join(os.RemoveAll(trash), removeFile(s.sizeFile(filepath.Base(e.path))))
}

func (s *Store) rename(e held, trash string) (fate, error) {
	unlock, err := lockFile(filepath.Join(s.dir, collectLock), unix.LOCK_EX)
	if err != nil {
		return used, err
	}
	defer unlock()
	fi, err := os.Lstat(e.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return vanished, nil
	case err != nil || !fi.ModTime().Equal(e.used):
		return used, err
	}
	return removed, os.Rename(e.path, trash)
}

// sweep removes what processes that are no more left in tmp, downloads that
// nobody went on with, and lock files that nobody holds.
func (s *Store) sweep(alive map[string]time.Time) error {
	tmp := filepath.Join(s.dir, "tmp")
	entries, err := os.ReadDir(tmp)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		name := e.Name()
		fi, err := e.Info()
		if err != nil {
			continue // its owner removed it
		}
		old := time.Since(fi.ModTime()) > partialAge
		owner, _, owned := strings.Cut(name, "-")
		if _, err := strconv.ParseInt(strings.SplitN(owner, ".", 2)[0], 10, 64); owned && err == nil {
			if _, ok := alive[owner]; ok {
				continue
			}
			// Not among the living when they were counted: it may have begun since.
			fresh, err := leases(s.dir)
			if err != nil {
				return err
			}
			if _, ok := fresh[owner]; ok {
				continue
			}
			old = true
		}
		if old {
			errs = append(errs, os.RemoveAll(filepath.Join(tmp, name)))
		}
	}
	sizes, err := os.ReadDir(filepath.Join(s.dir, "sizes"))
	if err != nil {
		return err
	}
	for _, e := range sizes { // of results that were never finished; what is missing is measured again
		if _, err := os.Stat(filepath.Join(s.dir, "actions", e.Name())); errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, removeFile(s.sizeFile(e.Name())))
		}
	}
	locks := filepath.Join(s.dir, "locks")
	if entries, err = os.ReadDir(locks); err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(locks, e.Name())
		if unlock, err := lockFile(path, unix.LOCK_EX|unix.LOCK_NB); err == nil {
			errs = append(errs, removeFile(path))
			unlock()
		}
	}
	return errors.Join(errs...)
}

func (s *Store) sizeFile(key string) string { return filepath.Join(s.dir, "sizes", key) }

// actionSize is the size of a result, which was written down when it was made.
func (s *Store) actionSize(key string) (int64, error) {
	if b, err := os.ReadFile(s.sizeFile(key)); err == nil {
		if n, err := strconv.ParseInt(string(b), 10, 64); err == nil {
			return n, nil
		}
	}
	n, err := diskUsage(filepath.Join(s.dir, "actions", key))
	if err != nil {
		return 0, err
	}
	return n, os.WriteFile(s.sizeFile(key), strconv.AppendInt(nil, n, 10), 0o644)
}

// diskUsage adds up the space of everything below dir; hard links count once.
func diskUsage(dir string) (int64, error) {
	var n int64
	seen := map[uint64]bool{}
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		if st, ok := fi.Sys().(*syscall.Stat_t); ok && st.Nlink > 1 && !fi.IsDir() {
			if seen[st.Ino] {
				return nil
			}
			seen[st.Ino] = true
		}
		n += blocks(fi)
		return nil
	})
	return n, err
}

// blocks is a file's space on disk in bytes.
func blocks(fi fs.FileInfo) int64 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * 512
	}
	return fi.Size()
}
