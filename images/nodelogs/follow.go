package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	firstTail  = 256 << 10 // bytes of an older log with which the very first run begins
	bufferSize = 32 << 10  // bytes read at once; a longer line is written in pieces
)

// follower copies a log that PID 1 writes: appended to, and at its cap renamed
// to PATH.1. It sleeps in inotify(7) until something happens.
type follower struct {
	path, state string
	out         io.Writer
	say         func(format string, args ...any)

	in    *os.File // inotify
	watch int      // on the file itself; -1 = none
	f     *os.File // being followed; nil = the log does not exist yet
	at    int64    // offset in f up to which everything was written out
	buf   []byte   // bytes of f, or of the one before, that have no newline yet
	pos   position
	told  bool
}

// start makes the watch on the directory.
func (w *follower) start() error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return fmt.Errorf("inotify: %w", err)
	}
	w.in, w.watch = os.NewFile(uintptr(fd), "inotify"), -1
	dir := filepath.Dir(w.path)
	// Not IN_MODIFY: the logs of all services lie here.
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_ONLYDIR); err != nil {
		return errors.Join(fmt.Errorf("watch %s: %w", dir, err), w.in.Close())
	}
	return nil
}

// stop makes run write what is there and return.
func (w *follower) stop() { _ = w.in.Close() }

// run follows until stop.
func (w *follower) run() error {
	defer func() {
		if w.f != nil {
			_ = w.f.Close()
		}
	}()
	events := make([]byte, 4096)
	if err := w.resume(); err != nil {
		return err
	}
	for {
		if err := w.copyAll(); err != nil {
			return err
		}
		if _, err := w.in.Read(events); err != nil { // stopped
			if err := w.copyAll(); err != nil {
				return err
			}
			return w.emit(len(w.buf)) // a last line without its end
		}
	}
}

// resume finds where an earlier run of this container was.
func (w *follower) resume() error {
	p, ok := readPosition(w.state)
	if ok {
		for _, name := range []string{w.path, w.path + ".1"} {
			if f, err := os.Open(name); err == nil {
				if p.matches(f) {
					return w.follow(f, p.Offset)
				}
				_ = f.Close()
			}
		}
	}
	if ok { // all of it came later: two rotations, or another disk
		if f, err := os.Open(w.path + ".1"); err == nil {
			return w.follow(f, 0)
		}
	}
	f, err := os.Open(w.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if ok || st.Size() <= firstTail {
		return w.follow(f, 0)
	}
	from := st.Size() - firstTail
	b := make([]byte, bufferSize)
	n, err := f.ReadAt(b, from)
	if err != nil && err != io.EOF {
		return errors.Join(err, f.Close())
	}
	if i := bytes.IndexByte(b[:n], '\n'); i >= 0 {
		from += int64(i) + 1
	}
	w.say("this log begins before; it is shown from byte %d on", from)
	return w.follow(f, from)
}

// follow makes f the file that is followed, from an offset on.
func (w *follower) follow(f *os.File, from int64) error {
	if w.f != nil {
		_ = w.f.Close()
	}
	w.f, w.at = f, from
	conn, err := w.in.SyscallConn() // not Fd, which would make Read block for ever
	if err != nil {
		return err
	}
	closed := conn.Control(func(fd uintptr) {
		if w.watch >= 0 {
			_, _ = unix.InotifyRmWatch(int(fd), uint32(w.watch)) // it may be gone with its file
		}
		// By its descriptor: the name may mean another file by now.
		w.watch, err = unix.InotifyAddWatch(int(fd), fmt.Sprintf("/proc/self/fd/%d", f.Fd()), unix.IN_MODIFY)
	})
	if closed != nil {
		return nil // stopped: nobody will wait any more
	}
	if err != nil {
		return fmt.Errorf("watch %s: %w", w.path, err)
	}
	return nil
}

// copyAll writes out everything there is, through all rotations.
func (w *follower) copyAll() error {
	for {
		if w.f != nil {
			if err := w.copyFile(); err != nil {
				return err
			}
		}
		next, err := w.next()
		if err != nil || next == nil {
			return err
		}
		if w.f != nil { // renamed: PID 1 writes to it no more, but may have since we looked
			if err := w.copyFile(); err != nil {
				return errors.Join(err, next.Close())
			}
		}
		if err := w.follow(next, 0); err != nil {
			return err
		}
	}
}

// next is the file after the one being followed, or nil.
func (w *follower) next() (*os.File, error) {
	var st fs.FileInfo
	if w.f != nil {
		var err error
		if st, err = w.f.Stat(); err != nil {
			return nil, err
		}
	}
	now, err := os.Stat(w.path)
	if err != nil || st != nil && os.SameFile(st, now) {
		return nil, nil // between rename and create, or the same still
	}
	if st != nil {
		// One rotation, and ours is PATH.1; after two, PATH.1 came after ours.
		if old, err := os.Stat(w.path + ".1"); err == nil && !os.SameFile(st, old) && !old.ModTime().Before(st.ModTime()) {
			if f, err := os.Open(w.path + ".1"); err == nil {
				return f, nil
			}
		}
	}
	f, err := os.Open(w.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return f, err
}

// copyFile writes out the rest of the file, up to its last newline.
func (w *follower) copyFile() error {
	b := make([]byte, bufferSize)
	for {
		n, err := w.f.ReadAt(b, w.at)
		if n == 0 {
			if st, serr := w.f.Stat(); serr == nil && st.Size() < w.at {
				w.at, w.pos.last = 0, nil // truncated: what is there now is new
				if st.Size() > 0 {
					continue
				}
			}
			if err != nil && err != io.EOF {
				return fmt.Errorf("%s: %w", w.path, err)
			}
			return nil
		}
		w.at += int64(n)
		w.buf = append(w.buf, b[:n]...)
		whole := bytes.LastIndexByte(w.buf, '\n') + 1
		if whole == 0 && len(w.buf) >= bufferSize {
			whole = len(w.buf)
		}
		if err := w.emit(whole); err != nil {
			return err
		}
	}
}

// emit writes out the first n bytes of the buffer and keeps the position.
func (w *follower) emit(n int) error {
	if n == 0 {
		return nil
	}
	if _, err := w.out.Write(w.buf[:n]); err != nil {
		return fmt.Errorf("standard output: %w", err)
	}
	w.buf = w.buf[:copy(w.buf, w.buf[n:])]
	// What is left in the buffer is of this file: a line that began in the one
	// before was ended by the newline that was just written.
	if err := w.pos.keep(w.state, w.f, w.at-int64(len(w.buf))); err != nil && !w.told {
		w.told = true
		w.say("the position is not kept, a restart of this container begins anew: %v", err)
	}
	return nil
}
