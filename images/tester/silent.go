package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// networkMount is where the node has a file of a server on the host, as a CSI driver
// would have it.
const networkMount = "/var/lib/kubelet/tester/network volume"

func init() {
	// A network file system whose server falls silent while it has data to take: one
	// process waits for it, and data that nobody waits for is in the page cache.
	scenarios["silent-server"] = scenario{func(g *guest) error {
		if err := checkRunning(g); err != nil {
			return err
		}
		return g.silentServer()
	}, func(*guest) error { return send(systemSocket, cmdShutdown) }}
	// A disk that has become read-only, as a kernel makes it that met an error on it.
	scenarios["read-only"] = scenario{func(g *guest) error {
		if err := checkRunning(g); err != nil {
			return err
		}
		return g.makeReadOnly()
	}, func(*guest) error { return send(systemSocket, cmdShutdown) }}
}

func (g *guest) silentServer() error {
	cmdline, err := os.ReadFile(filepath.Join(g.proc, "cmdline"))
	if err != nil {
		return err
	}
	port, err := strconv.Atoi(parameter(string(cmdline), "garboard.nfs"))
	if err != nil {
		return fmt.Errorf("garboard.nfs= on the kernel command line: %w", err)
	}
	path := filepath.Join(networkMount, "file")
	var cached *os.File
	if err := onNode(func() error {
		if err := os.MkdirAll(networkMount, 0o755); err != nil {
			return err
		}
		const server = "10.0.2.2" // QEMU's name for the host
		options := fmt.Sprintf("vers=3,proto=tcp,mountproto=tcp,nolock,hard,addr=%s,port=%d,mountport=%d", server, port, port)
		if err := unix.Mount(server+":/", networkMount, "nfs", 0, options); err != nil {
			return fmt.Errorf("mount -t nfs -o %s: %w", options, err)
		}
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		if _, err := f.WriteAt([]byte("while the server answers"), 0); err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
		cached, err = os.OpenFile(filepath.Join(networkMount, "other"), os.O_WRONLY, 0)
		return err
	}); err != nil {
		return err
	}
	g.say("tester: the server took a write")
	// The host ends the answers now; from the first write that hangs on, all do.
	stuck := make(chan error, 1)
	go func() {
		stuck <- onNode(func() error {
			for i := 0; ; i++ {
				f, err := os.OpenFile(path, os.O_WRONLY, 0)
				if err != nil {
					return err
				}
				if _, err := fmt.Fprintf(f, "write %d", i); err != nil {
					return err
				}
				if err := errors.Join(f.Sync(), f.Close()); err != nil {
					return err
				}
				time.Sleep(200 * time.Millisecond)
			}
		})
	}()
	still := 0
	if err := within(podCeiling, func() error {
		select {
		case err := <-stuck:
			return fmt.Errorf("the write did not hang, it ended: %w", err)
		default:
		}
		n, err := g.waitingThreads()
		if err != nil {
			return err
		}
		if still++; n == 0 {
			still = 0
		}
		if still < 20 { // looks, four a second
			return errors.New("no write waits for the server")
		}
		return nil
	}); err != nil {
		return err
	}
	// It stays open, since closing would wait for the server, too.
	if _, err := cached.WriteAt(make([]byte, 1<<20), 0); err != nil {
		return fmt.Errorf("into the page cache: %w", err)
	}
	b, err := os.ReadFile("/proc/1/mountinfo")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, "nfs") {
			g.say("tester: %s", strings.TrimSpace(line))
		}
	}
	return nil
}

// waitingThreads counts the tester's own in uninterruptible sleep.
func (g *guest) waitingThreads() (n int, err error) {
	dirs, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil {
		return 0, err
	}
	for _, path := range dirs {
		state, err := statusField(path, "State")
		if err == nil && strings.HasPrefix(state, "D") {
			n++
		}
	}
	return n, nil
}

// makeReadOnly has the kernel do to every file system what it does to one with
// errors=remount-ro (sysrq u), and waits until writing to the log's disk fails.
func (g *guest) makeReadOnly() error {
	probe := filepath.Join(g.host, "var/log/garboard/probe")
	if err := os.WriteFile(probe, nil, 0o600); err != nil {
		return fmt.Errorf("before it was made read-only: %w", err)
	}
	if err := os.WriteFile(filepath.Join(g.proc, "sysrq-trigger"), []byte("u"), 0); err != nil {
		return err
	}
	return within(podCeiling, func() error {
		if err := os.WriteFile(probe, nil, 0o600); !errors.Is(err, unix.EROFS) {
			return fmt.Errorf("writing to the disk of the logs: %v, want EROFS", err)
		}
		return nil
	})
}
