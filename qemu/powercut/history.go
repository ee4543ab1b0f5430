package powercut

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"

	"golang.org/x/sys/unix"
)

// history is a disk at some time and all it was asked for after that.
type history struct {
	base   string
	events []event
}

// event is a write or a flush.
type event struct {
	write
	fua, flush bool
}

// Remember copies the disk, whose power is off, to the file base and keeps every
// write and flush from now on in memory, until Forget.
func (d *Disk) Remember(base string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := CopySparse(base, d.Path(), 0); err != nil {
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

// Moment is how many writes and flushes there were since Remember.
func (d *Disk) Moment() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.history == nil {
		return 0
	}
	return len(d.history.events)
}

// Past makes a disk in dir that is what this one would be, had its power gone at
// the moment.
func (d *Disk) Past(dir string, moment int, m Model, r *rand.Rand) (past *Disk, s Survival, err error) {
	d.mu.Lock()
	h := d.history
	d.mu.Unlock()
	if h == nil || moment < 0 || moment > len(h.events) {
		return nil, s, fmt.Errorf("the disk as it was at request %d: that is not remembered", moment)
	}
	if past, err = Create(dir, d.size); err != nil {
		return nil, s, err
	}
	err = errors.Join(CopySparse(past.Path(), h.base, 0), CopySparse(past.seen.Name(), h.base, 0))
	past.On()
	for _, e := range h.events[:moment] {
		if err != nil {
			break
		}
		if e.flush {
			err = past.Flush()
		} else {
			err = past.WriteAt(e.bytes(), e.off, e.fua)
		}
	}
	if err == nil {
		s, err = past.Cut(m, r)
	}
	if err != nil {
		return nil, s, errors.Join(fmt.Errorf("the disk as it was at request %d: %w", moment, err), past.Close())
	}
	return past, s, nil
}

// CopySparse copies a file from a byte on and leaves its holes holes (lseek(2),
// SEEK_DATA).
func CopySparse(to, from string, start int64) error {
	if err := copySparse(to, from, start); err != nil {
		return fmt.Errorf("copy %s to %s: %w", from, to, err)
	}
	return nil
}

func copySparse(to, from string, start int64) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	fi, err := src.Stat()
	if err != nil {
		return err
	}
	dst, err := os.OpenFile(to, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = dst.Truncate(max(0, fi.Size()-start))
	for off := start; err == nil && off < fi.Size(); {
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
			_, err = io.Copy(io.NewOffsetWriter(dst, begin-start), io.NewSectionReader(src, begin, end-begin))
		}
		off = end
	}
	return errors.Join(err, dst.Close())
}
