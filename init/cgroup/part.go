package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Part is a group below a service's own, for a process that is to be ended with
// all its children while the service lives on. Its shares and limits are the service's.
type Part struct{ dir *os.File }

// Part makes a group below that of a service, if it is not there yet, and opens it.
func (t Tree) Part(service, name string) (*Part, error) {
	path := filepath.Join(t.Root, Service(service), name)
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return &Part{dir}, nil
}

// Fd is the group's directory for clone3(2)'s CLONE_INTO_CGROUP.
func (p *Part) Fd() int { return int(p.dir.Fd()) }

// Kill sends SIGKILL to every process in the group, also to those that are being
// made (cgroup.kill of Linux 5.14).
func (p *Part) Kill() error {
	const file = "cgroup.kill"
	fd, err := unix.Openat(p.Fd(), file, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		_, err = unix.Write(fd, []byte("1"))
		err = errors.Join(err, unix.Close(fd))
	}
	if err != nil {
		return fmt.Errorf("%s/%s: %w", p.dir.Name(), file, err)
	}
	return nil
}

// Close closes the directory; the group stays for the next time.
func (p *Part) Close() error { return p.dir.Close() }
