// Package unpack lays container images out as directories, for machines on which units
// of systemd are what runs containers: DIR/IMAGE/rootfs is what a container of the image
// sees, and DIR/IMAGE/config.json says how it is run.
//
// DIR/IMAGE is a symbolic link to a directory that is named by the digest of the image's
// manifest, and appears when it is whole: an image that has not changed is not unpacked
// again, one that has gets a directory of its own while the old one is still in use, and
// a run that is ended in the middle leaves nothing but a temporary directory that the
// next one removes.
//
// Nothing of an image is ever looked up in the file system while it is unpacked. Layers
// are merged in memory first (package preload), into a tree in which everything lies
// below real directories; then the tree is written into an empty directory that nobody
// else can enter. Absolute links and those that climb are written down as they are: they
// mean something only to who has the directory for a root.
package unpack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"garboard.local/builder/preload"
	"garboard.local/builder/progress"
	"garboard.local/builder/source/oci"
)

// Limits of an image where nothing else is said.
const (
	DefaultBytes = 16 << 30
	maxEntries   = 1 << 20
)

// Names below the directory of images. No image's name begins with a dot.
const (
	byDigest   = ".sha256-"
	unfinished = ".unpacking-"
	lockName   = ".lock"
	tempName   = unfinished + "from"
	madeName   = "image.json"
)

// Dir is a directory of unpacked images, held by one process at a time.
type Dir struct {
	path string
	lock *os.File
	// Bytes bounds what an image's layers may unpack to; 0 is DefaultBytes.
	Bytes    int64
	Progress progress.Reporter

	unsynced bool // in tests, which are not about power cuts
}

// Open makes the directory where it is missing, waits for others that work in it, and
// removes what one that was killed has left.
func Open(ctx context.Context, dir string) (*Dir, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("directory of images: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("directory of images: %w", err)
	}
	d := &Dir{path: dir, lock: f, Progress: progress.Discard}
	if err := hold(ctx, f); err != nil {
		return nil, errors.Join(fmt.Errorf("directory of images %s: waiting for another that unpacks there: %w", dir, err), f.Close())
	}
	list, err := os.ReadDir(dir)
	for _, e := range list {
		if strings.HasPrefix(e.Name(), unfinished) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return d, nil
}

// lockPeriod is how often a lock that another holds is tried; flock(2) itself cannot be interrupted.
const lockPeriod = 100 * time.Millisecond

// hold takes the lock; a wait ends with the context.
func hold(ctx context.Context, f *os.File) error {
	again := time.NewTicker(lockPeriod)
	defer again.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err != unix.EWOULDBLOCK && err != unix.EINTR {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-again.C:
		}
	}
}

// Temp is a directory for what images are taken out of; it goes with Close.
func (d *Dir) Temp() (string, error) {
	p := filepath.Join(d.path, tempName)
	return p, os.MkdirAll(p, 0o700)
}

// Close lets others in.
func (d *Dir) Close() error {
	return errors.Join(os.RemoveAll(filepath.Join(d.path, tempName)), d.lock.Close())
}

// Made says what became of an image.
type Made struct {
	Name   string `json:"name"`
	Digest string `json:"digest"` // of its manifest, or of its configuration if it came in an archive of docker save
	Path   string `json:"path"`   // of the directory with rootfs and config.json
	// Unchanged means that it was there.
	Unchanged bool `json:"unchanged,omitempty"`
	// Lost is what could not be written down, for people.
	Lost []string `json:"lost,omitempty"`
}

// made is what lies beside an image that is whole.
type made struct {
	Digest string   `json:"digest"`
	Owner  int      `json:"owner"` // who unpacked it: without being root not everything is there
	Lost   []string `json:"lost,omitempty"`
}

// Add unpacks an image under a name, which is one path element.
func (d *Dir) Add(ctx context.Context, name, title string, img *oci.Image) (Made, error) {
	out := Made{Name: title, Digest: img.Sum}
	_, hex, ok := strings.Cut(img.Sum, ":")
	if !ok {
		return out, fmt.Errorf("image %s: %q is no digest", title, img.Sum)
	}
	link := filepath.Join(d.path, name)
	if fi, err := os.Lstat(link); err == nil && fi.Mode().Type() != fs.ModeSymlink {
		return out, fmt.Errorf("image %s: %s is there and was not unpacked by this command; move it away, or use it as it is", title, link)
	}
	out.Path = filepath.Join(d.path, byDigest+hex)
	total, read := size(img)
	task := d.Progress.Start("unpack", title, total)
	var err error
	if out.Lost, out.Unchanged = whole(out.Path, img.Sum); !out.Unchanged {
		if read {
			out.Lost, err = d.unpack(ctx, out.Path, img, task.Add)
		} else {
			out.Lost, err = d.unpack(ctx, out.Path, img, nil)
		}
	}
	if err == nil {
		err = point(link, byDigest+hex)
	}
	switch {
	case err != nil:
		err = fmt.Errorf("image %s: %w", title, err)
		task.Fail(err)
	case out.Unchanged:
		task.Cached()
	default:
		task.Done(short(img.Sum))
	}
	return out, err
}

func short(digest string) string { return digest[:min(len(digest), len("sha256:")+12)] }

// size is how many bytes the layers are to transfer. Not ok is an archive of docker save:
// its layers may not be compressed, and would be first to be counted.
func size(img *oci.Image) (n int64, ok bool) {
	if img.ManifestBytes == nil {
		return 0, false
	}
	man, err := img.Manifest()
	if err != nil {
		return 0, false
	}
	for _, l := range man.Layers {
		n += l.Size
	}
	return n, true
}

// whole says whether an image was unpacked already, by root if this is root.
func whole(dir, digest string) (lost []string, ok bool) {
	b, err := os.ReadFile(filepath.Join(dir, madeName))
	if err != nil {
		return nil, false
	}
	var m made
	if json.Unmarshal(b, &m) != nil || m.Digest != digest || m.Owner != 0 && os.Geteuid() == 0 {
		return nil, false
	}
	return m.Lost, true
}

func (d *Dir) unpack(ctx context.Context, to string, img *oci.Image, read func(int64)) (lost []string, err error) {
	tmp, err := os.MkdirTemp(d.path, unfinished) // 0700: set-user-ID programs of an image are nobody's to run
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	w, err := newWriter(ctx, tmp)
	if err != nil {
		return nil, err
	}
	defer w.close()
	limit := d.Bytes
	if limit == 0 {
		limit = DefaultBytes
	}
	entries, err := preload.Contents(ctx, img, preload.ContentsOptions{Blobs: w, Bytes: limit, Entries: maxEntries, Read: read})
	if err != nil {
		return nil, err
	}
	if entries, err = withDirs(entries, img.ConfigBytes); err != nil {
		return nil, err
	}
	if err := w.write(entries); err != nil {
		return nil, err
	}
	lost = w.lost()
	b, err := json.MarshalIndent(made{Digest: img.Sum, Owner: os.Geteuid(), Lost: lost}, "", " ")
	err = errors.Join(err,
		os.WriteFile(filepath.Join(w.image(), "config.json"), img.ConfigBytes, 0o644),
		os.WriteFile(filepath.Join(w.image(), madeName), append(b, '\n'), 0o644))
	if err != nil {
		return nil, err
	}
	// What is there under its final name is whole, after a power cut too.
	if !d.unsynced {
		if err := w.sync(); err != nil {
			return nil, err
		}
	}
	if _, serr := os.Lstat(to); serr == nil { // not whole, or less than root can have
		err = os.Rename(to, filepath.Join(tmp, "before"))
	}
	// The temporary directory is one of its own so that this is what appears.
	return lost, errors.Join(err, os.Rename(w.image(), to))
}

// withDirs adds the directories that a container runtime makes when the image has none:
// the working directory, and places for volumes. What lies behind a link is left out.
func withDirs(entries []preload.Entry, config []byte) ([]preload.Entry, error) {
	c, err := v1.ParseConfigFile(bytes.NewReader(config))
	if err != nil {
		return nil, fmt.Errorf("its configuration: %w", err)
	}
	kind := make(map[string]preload.Type, len(entries))
	for _, e := range entries {
		kind[e.Path] = e.Type
	}
	for _, dir := range append(slices.Collect(maps.Keys(c.Config.Volumes)), c.Config.WorkingDir) {
		at := ""
		for part := range strings.SplitSeq(strings.Trim(path.Clean("/"+dir), "/"), "/") {
			if at = path.Join(at, part); at != "" && kind[at] == "" {
				kind[at] = preload.TypeDir
				entries = append(entries, preload.Entry{Path: at, Type: preload.TypeDir, Mode: 0o755, UID: os.Geteuid(), GID: os.Getegid()})
			}
			if kind[at] != preload.TypeDir {
				break
			}
		}
	}
	slices.SortFunc(entries, func(a, b preload.Entry) int { return strings.Compare(a.Path, b.Path) })
	return entries, nil
}

// point makes or changes a symbolic link, at once.
func point(link, to string) error {
	if now, err := os.Readlink(link); err == nil && now == to {
		return nil
	}
	tmp := filepath.Join(filepath.Dir(link), unfinished+"link")
	if err := os.Symlink(to, tmp); err != nil {
		return err
	}
	return os.Rename(tmp, link)
}

// Prune removes unpacked images that neither a name nor keep refers to. keep is given
// the directory's name.
func (d *Dir) Prune(keep func(string) bool) (removed []string, err error) {
	list, err := os.ReadDir(d.path)
	if err != nil {
		return nil, err
	}
	named := map[string]bool{}
	for _, e := range list {
		if to, err := os.Readlink(filepath.Join(d.path, e.Name())); err == nil {
			named[to] = true
		}
	}
	for _, e := range list {
		if n := e.Name(); strings.HasPrefix(n, byDigest) && !named[n] && !keep(n) {
			p := filepath.Join(d.path, n)
			if e := os.RemoveAll(p); e != nil {
				err = errors.Join(err, e)
				continue
			}
			removed = append(removed, p)
		}
	}
	return removed, err
}
