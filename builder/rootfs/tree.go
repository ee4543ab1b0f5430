// Package rootfs is a root file system as data: a tree of entries with mode,
// owner, content, origin and the reason why each is there.
package rootfs

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"sort"
	"strings"
	"time"

	"garboard.local/builder/store"
)

// Kind is the type of an entry.
type Kind string

// The kinds of entries. A root image needs no devices: devtmpfs makes them.
const (
	File    Kind = "file"
	Dir     Kind = "dir"
	Symlink Kind = "symlink"
)

// Entry is one path of the tree.
type Entry struct {
	Path string `json:"path"` // without a leading slash
	Kind Kind   `json:"kind"`
	Mode uint32 `json:"mode"` // permission bits with setuid, setgid and sticky
	UID  int    `json:"uid,omitempty"`
	GID  int    `json:"gid,omitempty"`
	Link string `json:"link,omitempty"` // target of a symlink
	// Capabilities of a file (security.capability, capabilities(7)), in hexadecimal.
	Capabilities string `json:"capabilities,omitempty"`
	Size         int64  `json:"size,omitempty"` // bytes
	SHA256       string `json:"sha256,omitempty"`
	Origin       string `json:"origin"` // "deb crun 1.21-1", "component kubelet v1.36.3", "overlay base"
	Reason       string `json:"reason"`
	// Inner says that it belongs to a root directory within this one, of a container:
	// what it refers to (links, libraries) is that one's affair.
	Inner bool `json:"-"`

	content []byte
	source  string
}

// Tree is a root file system. The zero value is not usable; call New.
type Tree struct{ m map[string]*Entry }

// New is a tree that holds nothing but its root directory.
func New() *Tree { return &Tree{m: map[string]*Entry{}} }

// FromFile is a file entry whose bytes lie at source on the build host.
func FromFile(p string, mode uint32, source, sum, origin, reason string) (Entry, error) {
	fi, err := os.Stat(source)
	if err != nil {
		return Entry{}, err
	}
	if sum == "" {
		if sum, err = store.HashFile(source); err != nil {
			return Entry{}, err
		}
	}
	return Entry{Path: clean(p), Kind: File, Mode: mode, Size: fi.Size(), SHA256: sum, Origin: origin, Reason: reason, source: source}, nil
}

// FromBytes is a file entry with the given content.
func FromBytes(p string, mode uint32, b []byte, origin, reason string) Entry {
	h := sha256.Sum256(b)
	return Entry{Path: clean(p), Kind: File, Mode: mode, Size: int64(len(b)), SHA256: hex.EncodeToString(h[:]), Origin: origin, Reason: reason, content: b}
}

// Open reads a file entry's content.
func (e *Entry) Open() (io.ReadCloser, error) {
	if e.source != "" {
		return os.Open(e.source)
	}
	return io.NopCloser(bytes.NewReader(e.content)), nil
}

// Source is the path of the content on the build host, or "" where it is in memory.
func (e *Entry) Source() string { return e.source }

func clean(p string) string { return strings.TrimPrefix(path.Clean("/"+p), "/") }

// Add puts an entry into the tree together with the directories above it. Two
// entries for one path are an error, except a directory that both sides
// describe alike and a file that is the same to the byte and mode.
func (t *Tree) Add(e Entry) error {
	e.Path = clean(e.Path)
	if e.Reason == "" {
		return fmt.Errorf("root image: /%s (from %s) has no reason to be there", e.Path, e.Origin)
	}
	if e.Path == "" {
		return fmt.Errorf("root image: %s describes / itself", e.Origin)
	}
	if old, ok := t.m[e.Path]; ok {
		same := old.Kind == e.Kind && old.Mode == e.Mode && old.UID == e.UID && old.GID == e.GID && old.Link == e.Link && old.SHA256 == e.SHA256 && old.Capabilities == e.Capabilities
		if !same {
			return fmt.Errorf("root image: two entries for /%s: %s from %s, and %s from %s", e.Path, describe(old), old.Origin, describe(&e), e.Origin)
		}
		return nil
	}
	if err := t.parents(e); err != nil {
		return err
	}
	t.m[e.Path] = &e
	return nil
}

// Put puts an entry in the place of what the tree has there, as a layer above another
// does: the directories above it are there.
func (t *Tree) Put(e Entry) {
	e.Path = clean(e.Path)
	t.m[e.Path] = &e
}

func describe(e *Entry) string {
	switch e.Kind {
	case Symlink:
		return fmt.Sprintf("a symlink to %s", e.Link)
	case Dir:
		return fmt.Sprintf("a directory of mode %04o", e.Mode)
	}
	return fmt.Sprintf("a file of mode %04o, %d bytes, sha256 %.12s", e.Mode, e.Size, e.SHA256)
}

// Append adds bytes to the end of a regular file that is in the tree.
func (t *Tree) Append(p string, b []byte, origin string) error {
	old := t.Get(p)
	if old == nil || old.Kind != File {
		return fmt.Errorf("root image: /%s, to which %s adds, is no file of it", clean(p), origin)
	}
	r, err := old.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	all, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	e := FromBytes(p, old.Mode, append(all, b...), old.Origin+", "+origin, old.Reason)
	e.UID, e.GID = old.UID, old.GID
	t.m[e.Path] = &e
	return nil
}

func (t *Tree) parents(e Entry) error {
	for d := path.Dir(e.Path); d != "."; d = path.Dir(d) {
		p, ok := t.m[d]
		if !ok {
			t.m[d] = &Entry{Path: d, Kind: Dir, Mode: 0o755, Origin: e.Origin, Reason: "holds /" + e.Path}
			continue
		}
		if p.Kind != Dir {
			return fmt.Errorf("root image: /%s (from %s) lies below /%s, which is %s from %s; name the real directory", e.Path, e.Origin, d, describe(p), p.Origin)
		}
	}
	return nil
}

// Get is the entry at a path, or nil.
func (t *Tree) Get(p string) *Entry { return t.m[clean(p)] }

// Entries are all entries in the order of their paths, directories before what they hold.
func (t *Tree) Entries() []*Entry {
	out := make([]*Entry, 0, len(t.m))
	for _, e := range t.m {
		out = append(out, e)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Path < out[j].Path })
	return out
}

// Size is the number of bytes that the files have.
func (t *Tree) Size() (n int64) {
	for _, e := range t.m {
		n += e.Size
	}
	return n
}

// Key is a hash over everything that ends up in an image of the tree.
func (t *Tree) Key() string {
	var parts []string
	for _, e := range t.Entries() {
		parts = append(parts, fmt.Sprintf("%s %s %o %d %d %q %s", e.Path, e.Kind, e.Mode, e.UID, e.GID, e.Link, e.SHA256))
		if e.Capabilities != "" {
			parts = append(parts, "capabilities "+e.Capabilities)
		}
	}
	return store.Key(parts...)
}

// Resolve follows symlinks inside the tree and returns the path they lead to;
// ok is false where a link leads nowhere.
func (t *Tree) Resolve(p string) (string, bool) {
	return resolve(p, func(q string) (string, bool, bool) {
		e, ok := t.m[q]
		if !ok {
			return "", false, false
		}
		return e.Link, e.Kind == Symlink, true
	})
}

// resolve walks p one element at a time; look tells what lies at a path.
func resolve(p string, look func(string) (link string, isLink, exists bool)) (string, bool) {
	todo := strings.Split(clean(p), "/")
	cur := ""
	for hops := 0; len(todo) > 0; {
		el := todo[0]
		todo = todo[1:]
		if el == "" || el == "." {
			continue
		}
		if el == ".." {
			cur = clean(path.Dir("/" + cur))
			continue
		}
		next := clean(cur + "/" + el)
		link, isLink, exists := look(next)
		if !exists {
			return next, false
		}
		if !isLink {
			cur = next
			continue
		}
		if hops++; hops > 40 {
			return next, false
		}
		if path.IsAbs(link) {
			cur = ""
		}
		todo = append(strings.Split(link, "/"), todo...)
	}
	return cur, true
}

// runtimeDirs are filled at boot: a link into one of them is not dangling.
var runtimeDirs = []string{"proc", "run", "var", "dev", "sys", "tmp"}

// Check reports symlinks that lead nowhere.
func (t *Tree) Check() error {
	for _, e := range t.Entries() {
		if e.Kind != Symlink || e.Inner {
			continue
		}
		to, ok := t.Resolve(e.Path)
		if top, _, _ := strings.Cut(to, "/"); !ok && !slices.Contains(runtimeDirs, top) {
			return fmt.Errorf("root image: /%s (from %s) is a symlink to %s, which leads to /%s, which is not in the image; add that file or drop the link", e.Path, e.Origin, e.Link, to)
		}
	}
	return nil
}

// WriteTar writes the tree as a POSIX tar archive in which every time is mtime.
func (t *Tree) WriteTar(w io.Writer, mtime time.Time) error {
	tw := tar.NewWriter(w)
	// Without it mkfs.erofs lets everybody write to the root directory.
	root := &tar.Header{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755, ModTime: mtime, Format: tar.FormatPAX}
	if err := tw.WriteHeader(root); err != nil {
		return fmt.Errorf("/: %w", err)
	}
	for _, e := range t.Entries() {
		h := &tar.Header{Name: e.Path, Mode: int64(e.Mode), Uid: e.UID, Gid: e.GID, ModTime: mtime, Format: tar.FormatPAX}
		switch e.Kind {
		case Dir:
			h.Typeflag, h.Name = tar.TypeDir, e.Path+"/"
		case Symlink:
			h.Typeflag, h.Linkname = tar.TypeSymlink, e.Link
		case File:
			h.Typeflag, h.Size = tar.TypeReg, e.Size
		}
		if e.Capabilities != "" {
			b, err := hex.DecodeString(e.Capabilities)
			if err != nil {
				return fmt.Errorf("/%s: capabilities: %w", e.Path, err)
			}
			h.PAXRecords = map[string]string{"SCHILY.xattr.security.capability": string(b)}
		}
		if err := tw.WriteHeader(h); err != nil {
			return fmt.Errorf("/%s: %w", e.Path, err)
		}
		if e.Kind != File {
			continue
		}
		r, err := e.Open()
		if err != nil {
			return fmt.Errorf("/%s: %w", e.Path, err)
		}
		_, err = io.Copy(tw, r)
		r.Close()
		if err != nil {
			return fmt.Errorf("/%s: %w", e.Path, err)
		}
	}
	return tw.Close()
}
