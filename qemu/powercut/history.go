package powercut

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// history is a disk at some time and all writes after it.
type history struct {
	base   string
	writes []write
}

// Remember copies the disk, whose power is off, to the file base and keeps every
// write from now on in memory, until Forget.
func (d *Disk) Remember(base string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := CopySparse(base, d.Path()); err != nil {
		return fmt.Errorf("remember the disk: %w", err)
	}
	d.history = &history{base: base}
	return nil
}

// Forget ends what Remember began. The file stays.
func (d *Disk) Forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.history = nil
}

// Moment is how many writes there were since Remember.
func (d *Disk) Moment() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.history == nil {
		return 0
	}
	return len(d.history.writes)
}

// Past makes a disk in dir that is what this one was at the moment: what a disk
// would hold that had answered all later flushes without carrying them out.
func (d *Disk) Past(dir string, moment int) (*Disk, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.history
	if h == nil || moment < 0 || moment > len(h.writes) {
		return nil, fmt.Errorf("the disk as it was at write %d: that is not remembered", moment)
	}
	past, err := Create(dir, d.size)
	if err != nil {
		return nil, err
	}
	err = CopySparse(past.Path(), h.base)
	for _, w := range h.writes[:moment] {
		if err == nil {
			_, err = past.stable.WriteAt(w.bytes(), w.off)
		}
	}
	if err == nil {
		err = CopySparse(past.seen.Name(), past.Path())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the disk as it was at write %d: %w", moment, err), past.Close())
	}
	return past, nil
}

// CopySparse copies a file and leaves its holes holes (lseek(2), SEEK_DATA).
func CopySparse(to, from string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	fi, err := src.Stat()
	if err != nil {
		return err
	}
	dst, err := os.OpenFile(filepath.Clean(to), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = dst.Truncate(fi.Size())
	for off := int64(0); err == nil && off < fi.Size(); {
		var begin, end int64
		begin, err = src.Seek(off, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) { // nothing but a hole behind off
			err = nil
			break
		}
		if err == nil {
			end, err = src.Seek(begin, unix.SEEK_HOLE)
		}
		if err == nil {
			_, err = io.Copy(io.NewOffsetWriter(dst, begin), io.NewSectionReader(src, begin, end-begin))
		}
		off = end
	}
	if err = errors.Join(err, dst.Close()); err != nil {
		return fmt.Errorf("copy %s to %s: %w", from, to, err)
	}
	return nil
}
