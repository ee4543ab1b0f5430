package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"garboard.local/init/logs"
)

const (
	tailLen  = 20   // lines kept for the console when a service dies
	lineCap  = 1024 // bytes of one of them
	readSize = 32 << 10
)

// Log carries what a service writes into a file (package logs). One pipe serves
// every run of the service, because children of an earlier run may still hold
// its end. Whatever the disk does, the pipe is read: no service waits for it.
type Log struct {
	write int      // the services' end, blocking as programs expect
	read  *os.File // ours
	done  chan struct{}
	keep  *logs.Log
	path  string
	line  func(string) // may be nil: gets each line as well

	mu   sync.Mutex
	part []byte
	tail []string
}

// OpenLog makes the pipe and begins to keep what comes through it in
// dir/name.log. line, if not nil, is given each line too; it must not block.
func OpenLog(dir, name string, line func(string), printf func(string, ...any), guard func(string)) (*Log, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("log of %s: %w", name, err)
	}
	if err := unix.SetNonblock(p[0], true); err != nil {
		return nil, errors.Join(err, unix.Close(p[0]), unix.Close(p[1]))
	}
	l := &Log{write: p[1], read: os.NewFile(uintptr(p[0]), name), done: make(chan struct{}), keep: logs.New(0), path: filepath.Join(dir, name+".log"), line: line}
	l.keep.Start(logs.Options{Name: name, Sink: &logs.File{Path: l.path}, Printf: printf, Guard: guard})
	go func() {
		defer close(l.done)
		defer guard("output of " + name)
		l.run()
	}()
	return l, nil
}

func (l *Log) run() {
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
	_, _ = l.keep.Write(b) // it never fails
	l.mu.Lock()
	defer l.mu.Unlock()
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

// Close ends the log and its goroutines, and lets go of the file.
func (l *Log) Close() error {
	err := errors.Join(unix.Close(l.write), l.read.Close())
	<-l.done
	return errors.Join(err, l.keep.Close())
}
