package modules

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Dir is where the modules of the running kernel lie below root.
func Dir(root string) (string, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "", fmt.Errorf("kernel release: %w", err)
	}
	return filepath.Join(root, "usr/lib/modules", unix.ByteSliceToString(u.Release[:])), nil
}

// Modprobe is the program the kernel starts for what it misses, as
// "/sbin/modprobe -q -- NAME" (kernel/module/kmod.c), and that kubelet, cri-o
// and CNI plugins start as "modprobe NAME". It returns the exit status of
// modprobe(8): 0 loaded or built in, 1 anything else. Modules come from the
// read-only image alone: no option names another directory, none removes.
func Modprobe(args []string, open func() (*Index, error), stderr io.Writer) int {
	quiet, all, dry := false, false, false
	var names []string
	for i, a := range args {
		if a == "--" {
			names = append(names, args[i+1:]...)
			break
		}
		switch {
		case !strings.HasPrefix(a, "-"):
			names = append(names, a)
			continue
		case a == "--quiet" || a == "--silent":
			quiet = true
			continue
		case a == "--all":
			all = true
			continue
		case a == "--dry-run":
			dry = true
			continue
		}
		for _, c := range strings.TrimPrefix(a, "-") {
			switch c {
			case 'q', 's', 'b', 'v':
				quiet = quiet || c == 'q'
			case 'a':
				all = true
			case 'n':
				dry = true
			default:
				fmt.Fprintf(stderr, "modprobe: option %s is not known here; known: -q -a -n -b -s -v --\n", a)
				return 1
			}
		}
	}
	if len(names) == 0 {
		fmt.Fprintln(stderr, "modprobe: usage: modprobe [-q] [-n] [-a] [--] NAME...")
		return 1
	}
	if !all {
		names = names[:1] // the rest are parameters, which the image's modules do without
	}
	x, err := open()
	if err != nil {
		fmt.Fprintf(stderr, "modprobe: %v\n", err)
		return 1
	}
	status := 0
	for _, n := range names {
		if dry {
			_, err = x.resolve(n)
		} else {
			err = x.Load(n)
		}
		if err != nil {
			status = 1
			if !quiet || !errors.Is(err, ErrNotFound) {
				fmt.Fprintf(stderr, "modprobe: %v\n", err)
			}
		}
	}
	return status
}

// OpenRunning opens the index of the running kernel.
func OpenRunning() (*Index, error) {
	dir, err := Dir("/")
	if err != nil {
		return nil, err
	}
	return Open(dir, nil)
}
