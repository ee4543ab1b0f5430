package modules

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

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
//
// log is told what was asked for and what came of it, at debug priority: the
// list of a boot is what kernel.load in a recipe can spare (docs/benchmarks.md).
func Modprobe(args []string, open func() (*Index, error), stderr, log io.Writer) int {
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
			began := time.Now()
			err = x.Load(n)
			fmt.Fprintf(log, "<7>garboard: modprobe %s: %v, %s\n", n, outcome(err), time.Since(began).Round(time.Millisecond))
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

// Kmsg is the kernel's log, or nowhere if it cannot be opened.
func Kmsg() io.Writer {
	f, err := os.OpenFile("/dev/kmsg", os.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return io.Discard
	}
	return f
}

// OpenRunning opens the index of the running kernel.
func OpenRunning() (*Index, error) {
	dir, err := Dir("/")
	if err != nil {
		return nil, err
	}
	return Open(dir, nil)
}

func outcome(err error) string {
	if err != nil {
		return err.Error()
	}
	return "loaded"
}
