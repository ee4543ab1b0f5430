package image

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestToolErrorKnowsAFullDisk(t *testing.T) {
	broken := errors.New("exit status 1")
	for name, c := range map[string]struct {
		out  string
		need int64
		full bool
	}{
		"its own word":       {"mke2fs: No space left on device while writing", 0, true},
		"not its word":       {"invalid chksum @ 96030208", 1 << 60, true},
		"another fault":      {"invalid chksum @ 96030208", 0, false},
		"room enough for it": {"bad input", 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			err := toolError("tool", broken, []byte(c.out+"\n"), c.need, t.TempDir(), "/does/not/exist")
			if !errors.Is(err, broken) || !strings.Contains(err.Error(), c.out) || errors.Is(err, unix.ENOSPC) != c.full {
				t.Errorf("%v, want it to know of a full disk: %t", err, c.full)
			}
		})
	}
}
