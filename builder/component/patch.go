package component

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// applyPatch applies a patch file to the source tree in dir. Every line of
// context must be there, at the line that the hunk says: a patch that fits
// elsewhere by chance is not applied.
func applyPatch(dir, patch string) error {
	f, err := os.Open(patch)
	if err != nil {
		return err
	}
	defer f.Close()
	files, _, err := gitdiff.Parse(f)
	if err != nil {
		return fmt.Errorf("patch %s: %w", patch, err)
	}
	if len(files) == 0 {
		return fmt.Errorf("patch %s changes no file", patch)
	}
	for _, file := range files {
		if err := applyFile(dir, file); err != nil {
			name := file.OldName
			if name == "" {
				name = file.NewName
			}
			return fmt.Errorf("patch %s does not apply to %s%s: %w", patch, name, where(file, err), err)
		}
	}
	return nil
}

// where says in which hunk and at which line of the source a patch failed.
func where(file *gitdiff.File, err error) string {
	e := new(gitdiff.ApplyError)
	if !errors.As(err, &e) || e.Fragment == 0 {
		return ""
	}
	s := fmt.Sprintf(", hunk %d of %d", e.Fragment, len(file.TextFragments))
	if e.Line > 0 {
		s += fmt.Sprintf(", line %d", e.Line)
	}
	return s
}

func applyFile(dir string, file *gitdiff.File) error {
	for _, n := range []string{file.OldName, file.NewName} {
		if n != "" && !filepath.IsLocal(n) {
			return fmt.Errorf("%q leads out of the source tree", n)
		}
	}
	old, name := filepath.Join(dir, file.OldName), filepath.Join(dir, file.NewName)

	var src []byte
	if !file.IsNew {
		data, err := os.ReadFile(old)
		if errors.Is(err, os.ErrNotExist) {
			return errors.New("the source has no such file")
		}
		if err != nil {
			return err
		}
		src = data
	}
	if _, err := os.Lstat(name); err == nil && !file.IsDelete && (file.IsNew || name != old) {
		return fmt.Errorf("it would make %s, which the source has already", file.NewName)
	}

	var out bytes.Buffer
	if err := gitdiff.Apply(&out, bytes.NewReader(src), file); err != nil {
		return err
	}
	if file.IsDelete || file.IsRename {
		if err := os.Remove(old); err != nil {
			return err
		}
	}
	if file.IsDelete {
		return nil
	}
	if err := mkdir(filepath.Dir(name)); err != nil {
		return err
	}
	return os.WriteFile(name, out.Bytes(), 0o644)
}
