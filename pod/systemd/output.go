package systemd

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coreos/go-systemd/v22/unit"

	"garboard.local/pod"
)

// Change is what Write did to one file.
type Change struct {
	Path    string `json:"path"` // on the machine
	Removed bool   `json:"removed,omitempty"`
}

// Write puts the files of pods below root ("/" is this machine) and removes what
// earlier manifests of these pods left there. With prune it also removes what
// belongs to other pods. Files that are the same are not touched.
func Write(root string, plans []*pod.Plan, files []pod.File, prune bool) ([]Change, error) {
	var changes []Change
	keep, ours := map[string]bool{}, map[string]bool{}
	for _, p := range plans {
		ours[p.Namespace+"/"+p.Name] = true
		if err := os.MkdirAll(filepath.Join(root, pod.DataDir), 0o755); err != nil {
			return nil, err
		}
		// Closed before anything is in it: a secret is for root and the pod alone.
		if err := private(filepath.Join(root, p.DataDir())); err != nil {
			return nil, err
		}
	}
	for _, f := range files {
		keep[f.Path] = true
		changed, err := put(filepath.Join(root, f.Path), f)
		if err != nil {
			return changes, err
		}
		if changed {
			changes = append(changes, Change{Path: f.Path})
		}
	}
	orphans, err := orphans(root, func(owner, path string) bool { return (prune || ours[owner]) && !keep[path] })
	for _, o := range orphans {
		if e := remove(root, o); e != nil {
			err = errors.Join(err, e)
			continue
		}
		changes = append(changes, Change{Path: o, Removed: true})
	}
	return changes, err
}

func private(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.Chmod(dir, 0o700)
}

// put writes a file, whole or not at all; it says whether anything changed.
func put(name string, f pod.File) (bool, error) {
	mode := fs.FileMode(f.Mode)
	if old, err := os.ReadFile(name); err == nil && bytes.Equal(old, f.Content) {
		if fi, err := os.Lstat(name); err == nil && fi.Mode() == mode {
			return false, nil
		}
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return false, err
	}
	t, err := os.CreateTemp(filepath.Dir(name), ".garboard-") // 0600
	if err != nil {
		return false, err
	}
	defer os.Remove(t.Name())
	_, err = t.Write(f.Content)
	if err = errors.Join(err, t.Chmod(mode), t.Close()); err == nil {
		err = os.Rename(t.Name(), name)
	}
	if err != nil {
		return false, fmt.Errorf("write %s: %w", name, err)
	}
	return true, nil
}

// Owner is the pod, as NAMESPACE/NAME, that a unit's content belongs to; "" if
// it is nobody's whose units are written here.
func Owner(content []byte) string {
	lines := bytes.SplitAfterN(content, []byte("\n"), 3)
	if len(lines) < 3 {
		return ""
	}
	opts, err := unit.DeserializeOptions(bytes.NewReader(bytes.Join(lines[:2], nil)))
	if err != nil || len(opts) != 1 || opts[0].Section != ownSection || opts[0].Name != podKey {
		return ""
	}
	return opts[0].Value
}

// orphans are the paths of files of pods that match.
func orphans(root string, match func(owner, path string) bool) ([]string, error) {
	var out []string
	units, err := os.ReadDir(filepath.Join(root, UnitDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, u := range units {
		if !u.Type().IsRegular() {
			continue
		}
		path := filepath.Join(UnitDir, u.Name())
		b, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return nil, err
		}
		if owner := Owner(b); owner != "" && match(owner, path) {
			out = append(out, path)
		}
	}
	data := filepath.Join(root, pod.DataDir)
	err = filepath.WalkDir(data, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(data, p)
		if err != nil {
			return err
		}
		id, _, inside := strings.Cut(rel, "/")
		namespace, name, ok := strings.Cut(id, "_")
		if path := filepath.Join(pod.DataDir, rel); inside && ok && match(namespace+"/"+name, path) {
			out = append(out, path)
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	slices.Sort(out)
	return out, err
}

// remove deletes a file, the links by which a unit was enabled, and directories
// that it leaves empty.
func remove(root, path string) error {
	if err := os.Remove(filepath.Join(root, path)); err != nil {
		return err
	}
	links, _ := filepath.Glob(filepath.Join(root, UnitDir, "*.wants"))
	for _, l := range links {
		l = filepath.Join(l, filepath.Base(path))
		if fi, err := os.Lstat(l); err == nil && fi.Mode().Type() == fs.ModeSymlink && strings.HasPrefix(path, UnitDir) {
			if err := os.Remove(l); err != nil {
				return err
			}
		}
	}
	for d := filepath.Dir(path); strings.HasPrefix(d, pod.DataDir+"/"); d = filepath.Dir(d) {
		if os.Remove(filepath.Join(root, d)) != nil {
			break // not empty
		}
	}
	return nil
}
