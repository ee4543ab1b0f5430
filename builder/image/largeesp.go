package image

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"garboard.local/init/data"
)

// writeLargeESP writes to file what the ISO's third partition holds: the ESP for disks
// with sectors of 4096 bytes, without the content of its file, which small, the ISO's
// own ESP, has too. With more than one file, or one that the ESP on a disk does not hold,
// there is none: what is written is false.
func writeLargeESP(run Run, file, small string, in ISOInput) (written bool, err error) {
	if len(in.ESP) != 1 {
		return false, nil
	}
	content := in.ESP[0].From
	fi, err := os.Stat(content)
	if err != nil {
		return false, err
	}
	if fi.Size() > DefaultESPSize-espSlack {
		return false, nil
	}
	const start = diskEnds + biosBootSize // of the ESP on a disk
	large := filepath.Join(filepath.Dir(file), "large")
	defer os.Remove(large)
	if err := errors.Join(os.WriteFile(large, nil, 0o600), os.Truncate(large, start+DefaultESPSize)); err != nil {
		return false, err
	}
	if err := writeESP(run, large, start, DefaultESPSize, data.LargeSector, in.ESP, in.Medium, in.Epoch); err != nil {
		return false, err
	}
	l := data.LargeESP{Size: fi.Size()}
	at, err := contentAt(large, content, data.LargeSector)
	if err != nil {
		return false, err
	}
	if l.From, err = contentAt(small, content, sectorSize); err != nil {
		return false, err
	}
	f, err := os.Open(large)
	if err != nil {
		return false, err
	}
	defer f.Close()
	l.Head = make([]byte, at-start)
	if _, err := f.ReadAt(l.Head, start); err != nil {
		return false, err
	}
	b, err := l.Marshal()
	if err != nil {
		return false, err
	}
	return true, os.WriteFile(file, b, 0o600)
}

// contentAt is where in an image the content of a file lies, in one piece that
// begins at a multiple of step bytes.
func contentAt(image, content string, step int64) (int64, error) {
	c, err := os.Open(content)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	f, err := os.Open(image)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	begin := make([]byte, sectorSize)
	n, err := io.ReadFull(c, begin)
	if err != nil && err != io.ErrUnexpectedEOF {
		return 0, fmt.Errorf("%s: %w", content, err)
	}
	begin = begin[:n]
	buf := make([]byte, MiB)
	for at := int64(0); ; at += int64(len(buf)) {
		n, err := f.ReadAt(buf, at)
		for i := int64(0); i < int64(n); i += step {
			if bytes.HasPrefix(buf[i:n], begin) {
				if same, err := sameAt(f, at+i, c); same || err != nil {
					return at + i, err
				}
			}
		}
		if err == io.EOF {
			return 0, fmt.Errorf("%s has the content of %s nowhere in one piece", image, content)
		}
		if err != nil {
			return 0, err
		}
	}
}

// sameAt compares the image from there with the whole content.
func sameAt(image io.ReaderAt, at int64, content *os.File) (bool, error) {
	a, b := make([]byte, MiB), make([]byte, MiB)
	for off := int64(0); ; off += MiB {
		n, err := content.ReadAt(b, off)
		if err != nil && err != io.EOF {
			return false, err
		}
		if m, err2 := image.ReadAt(a[:n], at+off); err2 != nil && err2 != io.EOF {
			return false, err2
		} else if !bytes.Equal(a[:m], b[:n]) {
			return false, nil
		}
		if err == io.EOF {
			return true, nil
		}
	}
}
