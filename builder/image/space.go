package image

import (
	"bytes"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// short is an error that wraps ENOSPC if a tool that failed had not the room for need
// bytes in one of the directories, or said so itself; else nil. Tools have many
// words for a full disk: mkfs.erofs calls its input damaged.
func short(out []byte, need int64, dirs ...string) error {
	if bytes.Contains(bytes.ToLower(out), []byte("no space left")) {
		return unix.ENOSPC
	}
	for _, d := range dirs {
		var st unix.Statfs_t
		if err := unix.Statfs(d, &st); err != nil {
			continue
		}
		if left := int64(st.Bavail) * st.Bsize; left < need {
			return fmt.Errorf("%s has %d MiB left, and it takes up to %d MiB: %w", d, left>>20, (need+1<<20-1)>>20, unix.ENOSPC)
		}
	}
	return nil
}

// toolError says what a tool had to say when it failed; err is how it ended.
func toolError(name string, err error, out []byte, need int64, dirs ...string) error {
	if full := short(out, need, append(dirs, os.TempDir())...); full != nil {
		return fmt.Errorf("%s: %w: %s: %w", name, err, bytes.TrimSpace(out), full)
	}
	return fmt.Errorf("%s: %w: %s", name, err, bytes.TrimSpace(out))
}
