package mounts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Releaser frees what keeps a file system busy without any process: files in
// use as swap, and files behind loop devices (the kubelet makes such for block
// volumes, and they outlive it).
type Releaser struct {
	Root    string // "" on a node
	Printf  func(format string, args ...any)
	Swapoff func(path string) error
	Detach  func(device string) error // LOOP_CLR_FD
}

// Free frees all but the loop device that the root is on, and says whether that
// made any difference.
func (r Releaser) Free(root Info) (any bool) {
	b, err := os.ReadFile(r.Root + "/proc/swaps")
	if err == nil {
		for _, file := range parseSwaps(string(b)) {
			if err := r.Swapoff(file); err != nil {
				r.Printf("shutdown: swap on %s stays: %v", file, err)
				continue
			}
			any = true
		}
	}
	files, _ := filepath.Glob(r.Root + "/sys/block/loop*/loop/backing_file")
	for _, f := range files {
		device := "/dev/" + filepath.Base(filepath.Dir(filepath.Dir(f)))
		if device == root.Source {
			continue
		}
		// A device that is mounted is only marked by this, and freed with its
		// mount: whether it is free now is seen by looking.
		if err := r.Detach(device); err != nil && !errors.Is(err, unix.ENXIO) { // ENXIO: freed meanwhile
			r.Printf("shutdown: loop device %s stays: %v", device, err)
			continue
		}
		if _, err := os.Stat(f); errors.Is(err, os.ErrNotExist) {
			any = true
		}
	}
	return any
}

// parseSwaps reads proc_swaps(5): a line of headings, then a file name, in which
// white space is written as in mountinfo, and figures.
func parseSwaps(text string) []string {
	var out []string
	_, rest, _ := strings.Cut(text, "\n")
	for line := range strings.Lines(rest) {
		if f := strings.Fields(line); len(f) >= 2 {
			out = append(out, unescape(f[0]))
		}
	}
	return out
}

// Swapoff is swapoff(2).
func Swapoff(path string) error {
	p, err := unix.BytePtrFromString(path)
	if err != nil {
		return err
	}
	if _, _, e := unix.Syscall(unix.SYS_SWAPOFF, uintptr(unsafe.Pointer(p)), 0, 0); e != 0 {
		return e
	}
	return nil
}

// DetachLoop is LOOP_CLR_FD (loop(4)).
func DetachLoop(device string) error {
	f, err := os.OpenFile(device, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.IoctlSetInt(int(f.Fd()), unix.LOOP_CLR_FD, 0); err != nil {
		return fmt.Errorf("detach %s: %w", device, err)
	}
	return nil
}
