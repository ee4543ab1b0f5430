package builder

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"garboard.local/builder/report"
	"garboard.local/builder/store"
)

// place copies a file of the store to the output, holes as holes.
func (b *build) place(ctx context.Context, dir, name, from string) error {
	sum, err := b.sum(ctx, from)
	if err != nil {
		return err
	}
	fi, err := os.Stat(from)
	if err != nil {
		return err
	}
	b.artefact = append(b.artefact, report.Artefact{Name: name, Size: fi.Size(), SHA256: sum})
	to := filepath.Join(dir, name)
	if old, err := os.Stat(to); err == nil && old.Size() == fi.Size() {
		if have, err := b.sum(ctx, to); err == nil && have == sum {
			return nil
		}
	}
	b.cached = false
	r, err := os.Open(from)
	if err != nil {
		return err
	}
	defer r.Close()
	err = writeAtomic(to, func(w *os.File) error { return copySparse(ctx, w, r, fi.Size()) })
	if err != nil {
		return err
	}
	_, err = b.remember(ctx, to, func() (string, error) { return sum, nil })
	return err
}

// rememberFrom is the size from which a file's hash is worth remembering: a disk
// image has gigabytes, nearly all of them zeros that take seconds to hash.
const rememberFrom = 128 << 20

// sum is the hash of a file.
func (b *build) sum(ctx context.Context, file string) (string, error) {
	return b.remember(ctx, file, func() (string, error) { return hashSparse(file) })
}

// remember keeps the hash of a large file under all that changes when the file
// does: the kernel sets ctime at every change, and nobody else can.
func (b *build) remember(ctx context.Context, file string, hash func() (string, error)) (string, error) {
	var st syscall.Stat_t
	if err := syscall.Stat(file, &st); err != nil {
		return "", &os.PathError{Op: "stat", Path: file, Err: err}
	}
	if st.Size < rememberFrom {
		return hash()
	}
	key := store.Key("sum 1", fmt.Sprint(st.Dev, st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano()))
	dir, _, err := b.Store.Action(ctx, key, func(_ context.Context, dir string) error {
		sum, err := hash()
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, "sum"), []byte(sum), 0o644)
	})
	if err != nil {
		return "", err
	}
	sum, err := os.ReadFile(filepath.Join(dir, "sum"))
	return string(sum), err
}

// copySparse copies what a file holds and leaves its holes out.
func copySparse(ctx context.Context, w, r *os.File, size int64) error {
	if err := w.Truncate(size); err != nil {
		return err
	}
	return extents(r, size, func(from, to int64) error {
		n, err := io.Copy(io.NewOffsetWriter(w, from), io.NewSectionReader(r, from, to-from))
		if err == nil && n != to-from {
			err = fmt.Errorf("%s: %d bytes at %d, want %d", r.Name(), n, from, to-from)
		}
		return errors.Join(err, ctx.Err())
	})
}

// hashSparse is store.HashFile without reading holes, which takes as long again as
// hashing the zeros that they stand for.
func hashSparse(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	zeros := make([]byte, 1<<20)
	at := int64(0)
	hole := func(to int64) {
		for ; at < to; at += int64(min(to-at, int64(len(zeros)))) {
			h.Write(zeros[:min(to-at, int64(len(zeros)))])
		}
	}
	err = extents(f, fi.Size(), func(from, to int64) error {
		hole(from)
		n, err := io.Copy(h, io.NewSectionReader(f, from, to-from))
		at += n
		return err
	})
	if err != nil {
		return "", fmt.Errorf("hash %s: %w", file, err)
	}
	hole(fi.Size())
	return hex.EncodeToString(h.Sum(nil)), nil
}

// extents calls do for each range of a file that is no hole.
func extents(r *os.File, size int64, do func(from, to int64) error) error {
	for at := int64(0); at < size; {
		from, err := unix.Seek(int(r.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) { // nothing but a hole to the end
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: find data: %w", r.Name(), err)
		}
		to, err := unix.Seek(int(r.Fd()), from, unix.SEEK_HOLE)
		if err != nil {
			return fmt.Errorf("%s: find the next hole: %w", r.Name(), err)
		}
		if err := do(from, to); err != nil {
			return err
		}
		at = to
	}
	return nil
}
