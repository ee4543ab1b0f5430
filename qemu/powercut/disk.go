package powercut

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
)

// Sector is what a disk writes wholly or not at all, in bytes.
const Sector = 512

// ErrOff is returned for requests after the power went.
var ErrOff = errors.New("the disk has no power")

// write is a request that a power cut may take back; data nil means zeros.
type write struct {
	off, length int64
	data        []byte
}

func (w write) bytes() []byte {
	if w.data == nil {
		return make([]byte, w.length)
	}
	return w.data
}

// Disk is a disk with a volatile write cache. It is safe for concurrent use;
// requests are carried out one after the other.
type Disk struct {
	size   int64
	stable *os.File // what no power cut can take back
	seen   *os.File // what the machine reads: with everything it wrote

	mu      sync.Mutex
	cache   []write // since the last flush
	on      bool
	stats   Stats
	trip    int64 // the write with this number is the last; 0: none
	tripped chan struct{}
	history *history
}

// Stats counts what a disk was asked for since it was switched on.
type Stats struct {
	Writes, Flushes int64
	Bytes           int64 // written
}

// Create makes an empty disk of size bytes (a multiple of Sector) in dir, which
// is the disk's alone: disk.raw is what a power cut leaves.
func Create(dir string, size int64) (*Disk, error) {
	if size <= 0 || size%Sector != 0 {
		return nil, fmt.Errorf("disk of %d bytes: the size must be a multiple of %d", size, Sector)
	}
	d := &Disk{size: size}
	for _, f := range []struct {
		name string
		file **os.File
	}{{"disk.raw", &d.stable}, {"disk.seen", &d.seen}} {
		file, err := os.OpenFile(filepath.Join(dir, f.name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			*f.file, err = file, file.Truncate(size)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("make a disk: %w", err), d.Close())
		}
	}
	return d, nil
}

// Path is the file that holds the disk while its power is off.
func (d *Disk) Path() string { return d.stable.Name() }

// Size is the disk's, in bytes.
func (d *Disk) Size() int64 { return d.size }

// Close forgets the cache and closes the files. They stay.
func (d *Disk) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.on = false
	var errs []error
	for _, f := range []*os.File{d.stable, d.seen} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// On switches the disk on.
func (d *Disk) On() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.on, d.stats, d.trip, d.tripped = true, Stats{}, 0, nil
}

// Freeze switches the disk off: no request is answered any more. What becomes
// of the cache is decided by Cut.
func (d *Disk) Freeze() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.on = false
}

// Trip has the disk freeze at the n-th write from now, before it is answered,
// and returns a channel that is closed then.
func (d *Disk) Trip(n int64) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.trip, d.tripped = d.stats.Writes+max(n, 1), make(chan struct{})
	return d.tripped
}

// Stats says what the disk was asked for since On.
func (d *Disk) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stats
}

func (d *Disk) inside(off, length int64) error {
	if off < 0 || length < 0 || off > d.size-length {
		return fmt.Errorf("%d bytes at %d are not inside the disk of %d bytes: %w", length, off, d.size, io.ErrUnexpectedEOF)
	}
	return nil
}

// ReadAt reads what was last written.
func (d *Disk) ReadAt(p []byte, off int64) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.on {
		return 0, ErrOff
	}
	if err := d.inside(off, int64(len(p))); err != nil {
		return 0, err
	}
	return d.seen.ReadAt(p, off)
}

// WriteAt takes a write into the cache. With fua (force unit access) it is on
// the medium when WriteAt returns, whatever is still in the cache. p is not kept.
func (d *Disk) WriteAt(p []byte, off int64, fua bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.on {
		return ErrOff
	}
	if err := d.inside(off, int64(len(p))); err != nil {
		return err
	}
	d.stats.Writes++
	d.stats.Bytes += int64(len(p))
	w := write{off: off, length: int64(len(p))}
	for _, b := range p {
		if b != 0 {
			w.data = append([]byte(nil), p...)
			break
		}
	}
	if _, err := d.seen.WriteAt(p, off); err != nil {
		return err
	}
	d.cache = append(d.cache, w)
	if d.history != nil {
		d.history.events = append(d.history.events, event{write: w, fua: fua})
	}
	if d.stats.Writes == d.trip {
		d.on = false
		close(d.tripped)
		return ErrOff
	}
	if fua {
		return d.force(w)
	}
	return nil
}

// force puts one write on the medium. What the cache holds for the same place,
// the write itself among it, must not come out on top of it later.
func (d *Disk) force(w write) error {
	if _, err := d.stable.WriteAt(w.bytes(), w.off); err != nil {
		return err
	}
	var kept []write
	for _, c := range d.cache {
		kept = append(kept, c.without(w.off, w.off+w.length)...)
	}
	d.cache = kept
	return nil
}

// without is the write less the bytes from..to of the disk.
func (w write) without(from, to int64) (out []write) {
	end := w.off + w.length
	if from >= end || to <= w.off {
		return []write{w}
	}
	for _, p := range [][2]int64{{w.off, from}, {to, end}} {
		if p[0] >= p[1] {
			continue
		}
		piece := write{off: p[0], length: p[1] - p[0]}
		if w.data != nil {
			piece.data = w.data[p[0]-w.off : p[1]-w.off]
		}
		out = append(out, piece)
	}
	return out
}

// Flush puts everything written before it on the medium.
func (d *Disk) Flush() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.on {
		return ErrOff
	}
	d.stats.Flushes++
	if d.history != nil {
		d.history.events = append(d.history.events, event{flush: true})
	}
	return d.drain()
}

func (d *Disk) drain() error {
	for _, w := range d.cache {
		if _, err := d.stable.WriteAt(w.bytes(), w.off); err != nil {
			return err
		}
	}
	d.cache = nil
	return nil
}
