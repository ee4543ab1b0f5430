package release

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"garboard.local/builder/report"
)

// places are the names that take part in putting a release into its place.
type places struct {
	final string // what the user named
	fresh string // the new release while it is written
	old   string // the earlier one, where two names cannot be exchanged at once
}

func place(output string) places {
	beside := filepath.Join(filepath.Dir(output), "."+filepath.Base(output))
	return places{final: output, fresh: beside + ".garboard-new", old: beside + ".garboard-old"}
}

// Check says why a release may not be written to a directory, which holds nothing
// or an earlier release: a wrong name must not cost anybody's files.
func Check(output string) error {
	entries, err := os.ReadDir(output)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		return nil
	}
	refuse := func(why string) error {
		return fmt.Errorf("%s is not empty and no earlier release: %s; move it away, or name another directory", output, why)
	}
	sums, err := report.ReadSums(output)
	if err != nil {
		return refuse("it has no readable " + report.SumsName)
	}
	known := map[string]bool{report.SumsName: true, SignatureName: true}
	for _, a := range sums {
		known[a.Name] = true
	}
	if !known[SourcesName] || !known[LicencesName] {
		return refuse("its " + report.SumsName + " is not a release's")
	}
	for _, e := range entries {
		if !known[e.Name()] || e.IsDir() {
			return refuse("it holds " + e.Name())
		}
	}
	return nil
}

// prepare mends what a killed run left and makes the directory to be filled.
func (p places) prepare() error {
	if err := os.MkdirAll(filepath.Dir(p.final), 0o755); err != nil {
		return err
	}
	if _, err := os.Lstat(p.final); errors.Is(err, fs.ErrNotExist) {
		if err := os.Rename(p.old, p.final); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := Check(p.final); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(p.old), os.RemoveAll(p.fresh), os.Mkdir(p.fresh, 0o755)); err != nil {
		return err
	}
	return os.Chmod(p.fresh, 0o755)
}

// swap gives the new release its name; what had it is removed.
func (p places) swap() error {
	if err := Check(p.final); err != nil { // minutes have passed
		return err
	}
	err := unix.Renameat2(unix.AT_FDCWD, p.fresh, unix.AT_FDCWD, p.final, unix.RENAME_EXCHANGE)
	if slices.Contains([]error{unix.ENOSYS, unix.EINVAL, unix.ENOTSUP}, err) {
		if err := os.Rename(p.final, p.old); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return errors.Join(os.Rename(p.fresh, p.final), os.RemoveAll(p.old))
	}
	if errors.Is(err, unix.ENOENT) { // there was none
		err = os.Rename(p.fresh, p.final)
	}
	if err != nil {
		return fmt.Errorf("rename %s to %s: %w", p.fresh, p.final, err)
	}
	return nil
}
