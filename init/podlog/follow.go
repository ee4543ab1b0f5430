package podlog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"time"

	"golang.org/x/sys/unix"
)

const (
	maxContainers = 512       // followed at once; others are left out, and it is said once
	readSize      = 32 << 10  // bytes read at a time
	turn          = 256 << 10 // bytes of one container before the next has its turn
)

// Follower follows dir/<pod>/<container>/*.log (normally /var/log/pods). What
// is in the files when it starts is from an earlier boot, and left out.
type Follower struct {
	Dir    string
	Emit   func(source, text string) // must not block
	Printf func(format string, args ...any)
	Skip   func(namespace, pod, container string) bool // may be nil; true: not followed

	fd      int
	in      *os.File
	pods    map[int]string         // watch -> name of the pod's directory
	conts   map[int]*container     // watch -> container
	byPath  map[string]*container  // path of the container's directory
	old     map[string]os.FileInfo // log files that were there at the start
	buf     []byte
	full    bool
	drained chan chan struct{}
}

type container struct {
	dir, source string
	watch       int
	f           *os.File
	name        string
	s           stream
	more        bool // has unread bytes, its turn was over
}

// Start makes the directory and the watch on it, so that nothing is missed from
// now on. Call Run next.
func (w *Follower) Start() error {
	if err := os.MkdirAll(w.Dir, 0o755); err != nil {
		return err
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return fmt.Errorf("watch %s: %w", w.Dir, err)
	}
	w.fd, w.in = fd, os.NewFile(uintptr(fd), "inotify")
	w.pods, w.conts, w.byPath = map[int]string{}, map[int]*container{}, map[string]*container{}
	w.buf = make([]byte, readSize)
	w.drained = make(chan chan struct{})
	w.old = map[string]os.FileInfo{}
	names, _ := filepath.Glob(filepath.Join(w.Dir, "*/*/*.log"))
	for _, n := range names {
		if st, err := os.Lstat(n); err == nil {
			w.old[n] = st
		}
	}
	if _, err := unix.InotifyAddWatch(fd, w.Dir, unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_ONLYDIR); err != nil {
		return errors.Join(fmt.Errorf("watch %s: %w", w.Dir, err), w.in.Close())
	}
	return nil
}

// Drain waits until everything that pods have written so far was handed on,
// unfinished lines included, or ctx ends.
func (w *Follower) Drain(ctx context.Context) {
	done := make(chan struct{})
	select {
	case w.drained <- done:
	case <-ctx.Done():
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// Run follows until ctx ends.
func (w *Follower) Run(ctx context.Context) {
	events := make(chan []byte)
	readerDone := make(chan struct{})
	go func() {
		defer close(readerDone)
		defer close(events)
		b := make([]byte, 16<<10)
		for {
			n, err := w.in.Read(b)
			if err != nil {
				return
			}
			select {
			case events <- append([]byte(nil), b[:n]...):
			case <-ctx.Done():
				return
			}
		}
	}()
	defer func() {
		_ = w.in.Close()
		<-readerDone
		for _, c := range w.conts {
			if c.f != nil {
				_ = c.f.Close()
			}
		}
	}()
	w.scan()
	for {
		var again <-chan time.Time
		for _, c := range w.conts {
			if c.more {
				again = time.After(0)
				break
			}
		}
		select {
		case b, ok := <-events:
			if !ok {
				return
			}
			w.handle(b)
		case <-again:
			for _, c := range w.conts {
				if c.more {
					w.read(c, turn)
				}
			}
		case done := <-w.drained:
			w.scan()
			for _, c := range w.conts {
				w.read(c, 64*turn)
				c.s.flush(func(s string) { w.Emit(c.source, s) })
			}
			close(done)
		case <-ctx.Done():
			return
		}
	}
}

// handle takes a buffer of events (inotify(7)). Each only says where to look:
// what is there is found by looking.
func (w *Follower) handle(b []byte) {
	touched := map[*container]bool{}
	rescan := false
	for len(b) >= unix.SizeofInotifyEvent {
		wd := int(int32(binary.NativeEndian.Uint32(b[0:])))
		mask := binary.NativeEndian.Uint32(b[4:])
		size := int(binary.NativeEndian.Uint32(b[12:])) + unix.SizeofInotifyEvent
		if size > len(b) {
			break
		}
		b = b[size:]
		switch c := w.conts[wd]; {
		case mask&unix.IN_IGNORED != 0:
			w.forget(wd)
		case mask&unix.IN_Q_OVERFLOW != 0:
			rescan = true
			for _, c := range w.conts {
				touched[c] = true
			}
		case c != nil:
			touched[c] = true
		default:
			rescan = true
		}
	}
	if rescan {
		w.scan()
	}
	for c := range touched {
		w.read(c, turn)
	}
}

func (w *Follower) forget(wd int) {
	delete(w.pods, wd)
	if c := w.conts[wd]; c != nil {
		w.read(c, turn)
		c.s.flush(func(s string) { w.Emit(c.source, s) })
		if c.f != nil {
			_ = c.f.Close()
		}
		delete(w.conts, wd)
		delete(w.byPath, c.dir)
	}
}

// scan finds pods and containers that are new and begins to follow them.
func (w *Follower) scan() {
	known := map[string]bool{}
	for _, p := range w.pods {
		known[p] = true
	}
	pods, _ := os.ReadDir(w.Dir)
	for _, p := range pods {
		if !p.IsDir() {
			continue
		}
		dir := filepath.Join(w.Dir, p.Name())
		if !known[p.Name()] {
			wd, err := unix.InotifyAddWatch(w.fd, dir, unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_ONLYDIR)
			if err != nil {
				continue // gone again
			}
			w.pods[wd] = p.Name()
		}
		conts, _ := os.ReadDir(dir)
		for _, c := range conts {
			if c.IsDir() && !w.skipped(p.Name(), c.Name()) {
				w.follow(filepath.Join(dir, c.Name()), source(p.Name(), c.Name()))
			}
		}
	}
}

func (w *Follower) skipped(podDir, container string) bool {
	namespace, pod := podOf(podDir)
	return w.Skip != nil && w.Skip(namespace, pod, container)
}

func (w *Follower) follow(dir, source string) {
	if w.byPath[dir] != nil {
		return
	}
	if len(w.conts) >= maxContainers {
		if !w.full {
			w.full = true
			w.Printf("pod logs: more than %d containers; %s and later ones are not shown", maxContainers, source)
		}
		return
	}
	wd, err := unix.InotifyAddWatch(w.fd, dir, unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_MODIFY|unix.IN_ONLYDIR)
	if err != nil {
		return
	}
	c := &container{dir: dir, source: source, watch: wd}
	w.conts[wd], w.byPath[dir] = c, c
	w.read(c, turn)
}

// read hands on what is new in a container's newest log file, after what was
// left in the one before: the kubelet renames N.log when it rotates, and each
// restart of the container has a higher N.
func (w *Follower) read(c *container, limit int) {
	emit := func(s string) { w.Emit(c.source, s) }
	c.more = false
	if c.f == nil && !w.next(c) {
		return
	}
	for limit > 0 {
		n, err := c.f.Read(w.buf)
		c.s.put(w.buf[:n], emit)
		limit -= n
		if n == 0 || err != nil {
			if err != nil && err != io.EOF {
				_ = c.f.Close()
				c.f = nil
				return
			}
			if !w.next(c) {
				return
			}
		}
	}
	c.more = true
}

// next opens the file that follows the one being read, if there is one.
func (w *Follower) next(c *container) bool {
	names, err := filepath.Glob(filepath.Join(c.dir, "*.log"))
	if err != nil || len(names) == 0 {
		return false
	}
	sort.Slice(names, func(i, j int) bool { // by number: 9.log comes before 10.log
		if len(names[i]) != len(names[j]) {
			return len(names[i]) < len(names[j])
		}
		return names[i] < names[j]
	})
	at := names[0]
	if c.f != nil {
		st, err := c.f.Stat()
		if err != nil {
			return false
		}
		at = ""
		for i, n := range names {
			if n != c.name {
				continue
			}
			now, err := os.Stat(n)
			switch {
			case err != nil:
			case !os.SameFile(st, now):
				at = n // rotated: the same name begins anew
			case i+1 < len(names):
				at = names[i+1]
			}
		}
		if at == "" {
			return false
		}
	}
	// Only files in the pod's own directory: a link could lead anywhere.
	f, err := os.OpenFile(at, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	st, err := f.Stat()
	if err == nil && w.old[at] != nil && os.SameFile(st, w.old[at]) {
		_, err = f.Seek(w.old[at].Size(), io.SeekStart)
	}
	if err != nil || !st.Mode().IsRegular() {
		_ = f.Close()
		return false
	}
	if c.f != nil {
		_ = c.f.Close()
		if at != c.name {
			c.s.flush(func(s string) { w.Emit(c.source, s) })
		}
	}
	c.f, c.name = f, at
	return true
}
