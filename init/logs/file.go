package logs

import (
	"errors"
	"os"
	"path/filepath"
)

// File appends to a file, and when that has reached its cap renames it to
// PATH.1, which replaces the one before. It is opened at the first write, and
// anew after a failure: by then another disk may be there. Not for concurrent use.
type File struct {
	Path string
	Cap  int64 // bytes; 0 = FileCap

	f    *os.File
	size int64
}

// Write appends b.
func (w *File) Write(b []byte) (int, error) {
	limit := w.Cap
	if limit <= 0 {
		limit = FileCap
	}
	if w.f == nil {
		if err := w.open(); err != nil {
			return 0, err
		}
	}
	if w.size > 0 && w.size+int64(len(b)) > limit {
		if err := errors.Join(w.Close(), os.Rename(w.Path, w.Path+".1"), w.open()); err != nil {
			return 0, errors.Join(err, w.Close())
		}
	}
	n, err := w.f.Write(b)
	w.size += int64(n)
	if err != nil {
		_ = w.Close() // the error that counts is there already
	}
	return n, err
}

func (w *File) open() error {
	if err := os.MkdirAll(filepath.Dir(w.Path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(w.Path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, Mode)
	if err != nil {
		return err
	}
	// Without the right to (in a test) or the ability to (some file systems),
	// the log is kept all the same; only its readers are fewer.
	_ = f.Chown(-1, Group)
	st, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	w.f, w.size = f, st.Size()
	return nil
}

// Close closes the file; the next Write opens it again.
func (w *File) Close() error {
	if w.f == nil {
		return nil
	}
	err := w.f.Close()
	w.f = nil
	return err
}
