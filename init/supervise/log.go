package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	logCap   = 4 << 20 // bytes of one log file; with the rotated one a service has at most twice that
	tailLen  = 20      // lines kept for the console when a service dies
	lineCap  = 1024    // bytes of one of them
	readSize = 32 << 10
)

// Log carries what a service writes into a file. One pipe serves every run of
// the service, because children of an earlier run may still hold its end.
type Log struct {
	write int      // the services' end, blocking as programs expect
	read  *os.File // ours
	done  chan struct{}
	path  string
	cap   int64
	line  func(string) // may be nil: gets each line as well

	mu   sync.Mutex
	f    *os.File
	size int64
	part []byte
	tail []string
}

// OpenLog makes dir/name.log and its pipe. line, if not nil, is given each line
// too; it must not block.
func OpenLog(dir, name string, line func(string)) (*Log, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("log of %s: %w", name, err)
	}
	if err := unix.SetNonblock(p[0], true); err != nil {
		return nil, errors.Join(err, unix.Close(p[0]), unix.Close(p[1]))
	}
	l := &Log{write: p[1], read: os.NewFile(uintptr(p[0]), name), done: make(chan struct{}),
		path: filepath.Join(dir, name+".log"), cap: logCap, line: line}
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		err = l.open()
	}
	go l.run()
	return l, err // without a file the service still has a pipe, and its tail is kept
}

func (l *Log) open() error {
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o640)
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	l.f, l.size = f, st.Size()
	return nil
}

func (l *Log) run() {
	defer close(l.done)
	b := make([]byte, readSize)
	for {
		n, err := l.read.Read(b)
		if n > 0 {
			l.put(b[:n])
		}
		if err != nil { // closed, or no writer left
			return
		}
	}
}

func (l *Log) put(b []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f != nil {
		if l.size+int64(len(b)) > l.cap {
			l.rotate()
		}
		if l.f != nil {
			n, _ := l.f.Write(b) // a full disk loses the log, not the service
			l.size += int64(n)
		}
	}
	l.part = append(l.part, b...)
	for {
		i := bytes.IndexByte(l.part, '\n')
		if i < 0 && len(l.part) < lineCap {
			return
		}
		if i < 0 || i > lineCap {
			l.add(string(l.part[:lineCap]))
			l.part = l.part[lineCap:]
			continue
		}
		l.add(string(l.part[:i]))
		l.part = l.part[i+1:]
	}
}

func (l *Log) add(s string) {
	if len(l.tail) == tailLen {
		l.tail = append(l.tail[:0], l.tail[1:]...)
	}
	l.tail = append(l.tail, s)
	if l.line != nil {
		l.line(s)
	}
}

func (l *Log) rotate() {
	_ = l.f.Close()
	l.f = nil
	_ = os.Rename(l.path, l.path+".1")
	_ = l.open()
}

// Tail returns the last lines and forgets them.
func (l *Log) Tail() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.tail
	if len(l.part) > 0 {
		t = append(t, string(l.part))
		l.part = nil
	}
	l.tail = nil
	return t
}

// Close ends the log and its goroutine, and lets go of the file.
func (l *Log) Close() error {
	err := errors.Join(unix.Close(l.write), l.read.Close())
	<-l.done
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f != nil {
		err = errors.Join(err, l.f.Close())
		l.f = nil
	}
	return err
}
