package socket

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// MaxGrace is the longest shutdown period that is believed.
const MaxGrace = 24 * time.Hour

// WriteGrace leaves the kubelet's whole shutdown period, rounded up to
// milliseconds, in the file at path (GraceFile). The file is replaced in one
// step: a reader sees the old figure or the new one. Missing directories are made.
func WriteGrace(path string, grace time.Duration) error {
	if grace < 0 || grace > MaxGrace {
		return fmt.Errorf("grace file %s: period %v is not between 0 and %v", path, grace, MaxGrace)
	}
	if err := writeGrace(path, grace); err != nil {
		return fmt.Errorf("grace file %s: %w", path, err)
	}
	return nil
}

func writeGrace(path string, grace time.Duration) error {
	dir := filepath.Dir(path)
	if err := makeDir(dir); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".kubelet-grace-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails, as it should, once renamed
	ms := (grace + time.Millisecond - 1) / time.Millisecond
	_, err = fmt.Fprintf(f, "%d\n", ms)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// ReadGrace reads what WriteGrace wrote. An error wraps fs.ErrNotExist if no
// kubelet has left a figure yet; anything that is not a plain file with a
// number from 0 to 24 hours in milliseconds is an error too. It never blocks.
func ReadGrace(path string) (time.Duration, error) {
	b, err := readGrace(path)
	if err != nil {
		return 0, fmt.Errorf("grace file: %w", err)
	}
	grace, err := ParseGrace(b)
	if err != nil {
		return 0, fmt.Errorf("grace file %s: %w", path, err)
	}
	return grace, nil
}

// graceLimit is more than any valid content: eight digits and a newline.
const graceLimit = 32

func readGrace(path string) ([]byte, error) {
	// O_NONBLOCK: a FIFO in the file's place must not stop PID 1.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("not a plain file (%s)", st.Mode())}
	}
	return io.ReadAll(io.LimitReader(f, graceLimit))
}

// ParseGrace parses a grace file's content: decimal digits, then at most one newline.
func ParseGrace(b []byte) (time.Duration, error) {
	digits := bytes.TrimSuffix(b, []byte("\n"))
	if len(digits) == 0 {
		return 0, fmt.Errorf("empty; want decimal milliseconds")
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, fmt.Errorf("%q is not decimal milliseconds", digits)
		}
	}
	ms, err := strconv.ParseInt(string(digits), 10, 64)
	if err != nil || ms > MaxGrace.Milliseconds() {
		return 0, fmt.Errorf("%q ms is more than %v", digits, MaxGrace)
	}
	return time.Duration(ms) * time.Millisecond, nil
}
