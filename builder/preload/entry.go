package preload

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// Type is the type of an entry in a tree.
type Type string

// The types that a tree can hold.
const (
	TypeFile    Type = "file"
	TypeDir     Type = "dir"
	TypeSymlink Type = "symlink"
)

// Entry is one path of the store, below the store's root.
type Entry struct {
	Path     string      // slash-separated, without a leading slash
	Type     Type        //
	Mode     fs.FileMode // permission bits with fs.ModeSetuid, ModeSetgid and ModeSticky
	UID, GID int         //
	Link     string      // a symlink's target, as it is stored
	// Capabilities of a file, as the extended attribute has them, in hexadecimal; "" = none.
	Capabilities string
	Content      []byte // a file's bytes, where ContentPath is ""
	ContentPath  string // the file on the build host that holds a file's bytes
	Extra        *Extra // of entries that Contents makes
}

// Open reads a file entry's bytes.
func (e Entry) Open() (io.ReadCloser, error) {
	if e.Type != TypeFile {
		return nil, fmt.Errorf("%s is a %s and has no content", e.Path, e.Type)
	}
	if e.ContentPath != "" {
		return os.Open(e.ContentPath)
	}
	return io.NopCloser(bytes.NewReader(e.Content)), nil
}

// UnixMode is the mode as chmod(2) takes it.
func (e Entry) UnixMode() uint32 { return uint32(tarMode(e.Mode)) }

// Under is the entries with their paths below root, such as
// usr/lib/garboard/images, after an entry for root itself.
func Under(root string, entries []Entry) []Entry {
	root = strings.Trim(path.Clean("/"+root), "/")
	out := make([]Entry, 0, len(entries)+1)
	out = append(out, Entry{Path: root, Type: TypeDir, Mode: 0o755})
	for _, e := range entries {
		e.Path = path.Join(root, e.Path)
		out = append(out, e)
	}
	return out
}

// tarMode is a mode's bits in a tar header, which are those of chmod(2).
func tarMode(m fs.FileMode) int64 {
	out := int64(m.Perm())
	for bit, set := range modeBits {
		if m&set != 0 {
			out |= bit
		}
	}
	return out
}

// fileMode is tarMode's inverse; bits of a file's type are dropped.
func fileMode(bits int64) fs.FileMode {
	out := fs.FileMode(bits & 0o777)
	for bit, set := range modeBits {
		if bits&bit != 0 {
			out |= set
		}
	}
	return out
}

var modeBits = map[int64]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky}

// tree is the files of one layer, or of layers merged. The key "" is the root
// directory, which is always there; the entries' own Path is the key.
type tree map[string]Entry

func newTree() tree { return tree{"": {Type: TypeDir, Mode: 0o755}} }

// paths are the tree's keys, directories before what they hold.
func (t tree) paths() []string {
	out := make([]string, 0, len(t))
	for p := range t {
		out = append(out, p)
	}
	slices.Sort(out)
	return out
}

// complete adds the directories that entries lie in and nobody described. They
// look like the same directory in the nearest of the lower trees, as they
// would hide that one's owner and mode otherwise.
func (t tree) complete(lower ...tree) error {
	for _, p := range t.paths() {
		for d := parent(p); p != "" && d != ""; d = parent(d) {
			if e, ok := t[d]; ok {
				if e.Type != TypeDir {
					return fmt.Errorf("%q lies below %q, which is a %s; name the real directory", p, d, e.Type)
				}
				continue
			}
			t[d] = Entry{Path: d, Type: TypeDir, Mode: 0o755}
			for _, l := range slices.Backward(lower) {
				if e, ok := l[d]; ok {
					if e.Type == TypeDir {
						t[d] = e
					}
					break
				}
			}
		}
	}
	return nil
}

// owners are the users and groups that own something in the tree.
func (t tree) owners() (uids, gids []uint32) {
	u, g := idset{}, idset{}
	for _, e := range t {
		u[uint32(e.UID)], g[uint32(e.GID)] = true, true
	}
	return u.sorted(), g.sorted()
}

func (t tree) removeBelow(dir string) {
	for p := range t {
		if p != "" && p != dir && (dir == "" || strings.HasPrefix(p, dir+"/")) {
			delete(t, p)
		}
	}
}

// parent is the directory that holds p, "" for the root.
func parent(p string) string {
	if d := path.Dir(p); d != "." {
		return d
	}
	return ""
}

// cleanPath is a path of an archive or a layer in the form of a tree's key. A
// path that climbs is an error even where it would stay inside.
func cleanPath(p string) (string, error) {
	if slices.Contains(strings.Split(p, "/"), "..") {
		return "", fmt.Errorf("path %q has a .. in it: nothing that makes images writes such a path; do not trust the image", p)
	}
	if strings.ContainsRune(p, 0) {
		return "", fmt.Errorf("path %q has a NUL in it", p)
	}
	return strings.TrimPrefix(path.Clean("/"+p), "/"), nil
}
