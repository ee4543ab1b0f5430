package main

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"syscall"
)

// headLen is how many first bytes of a file tell it from another one that got
// its inode number later.
const headLen = 64

// position is a place in a file, in a form that outlives the process.
type position struct {
	Inode   uint64
	Offset  int64
	HeadLen int // bytes
	Head    uint64

	f    *os.File // the state's
	last *os.File // whose Inode and Head these are
}

const positionFormat = "%020d %020d %03d %016x\n"

// readPosition reads what keep wrote; false if there is none that makes sense.
func readPosition(name string) (position, bool) {
	b, err := os.ReadFile(name)
	if err != nil {
		return position{}, false
	}
	return parsePosition(string(b))
}

func parsePosition(s string) (position, bool) {
	var p position
	n, err := fmt.Sscanf(s, positionFormat, &p.Inode, &p.Offset, &p.HeadLen, &p.Head)
	ok := n == 4 && err == nil && p.Offset >= 0 && p.HeadLen >= 0 && p.HeadLen <= headLen
	return p, ok
}

func (p position) String() string {
	return fmt.Sprintf(positionFormat, p.Inode, p.Offset, p.HeadLen, p.Head)
}

// matches says whether the position is one in f.
func (p position) matches(f *os.File) bool {
	st, err := f.Stat()
	if err != nil || st.Size() < p.Offset || st.Sys().(*syscall.Stat_t).Ino != p.Inode {
		return false
	}
	sum, err := head(f, p.HeadLen)
	return err == nil && sum == p.Head
}

// keep writes that f was written out up to offset. The file is written in
// place: 63 bytes within one block.
func (p *position) keep(name string, f *os.File, offset int64) error {
	if p.f == nil {
		s, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		p.f = s
	}
	if p.last != f || p.HeadLen < headLen {
		st, err := f.Stat()
		if err != nil {
			return err
		}
		n := int(min(offset, headLen))
		sum, err := head(f, n)
		if err != nil {
			return err
		}
		p.last, p.Inode, p.HeadLen, p.Head = f, st.Sys().(*syscall.Stat_t).Ino, n, sum
	}
	p.Offset = offset
	_, err := p.f.WriteAt([]byte(p.String()), 0)
	return err
}

func head(f *os.File, n int) (uint64, error) {
	b := make([]byte, n)
	if m, err := f.ReadAt(b, 0); m < n {
		return 0, errors.Join(err, io.ErrUnexpectedEOF)
	}
	h := fnv.New64a()
	_, err := h.Write(b)
	return h.Sum64(), err
}
