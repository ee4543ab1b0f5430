package socket

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
)

// Modes of the two sockets.
const (
	RootMode    fs.FileMode = 0o600
	RestartMode fs.FileMode = 0o666
)

// maxPath is the longest socket path a client can connect to (unix(7)).
const maxPath = 107

// Listener is a listening socket that removes its own file when it is closed,
// but never one that another server has put in its place.
type Listener struct {
	*net.UnixListener
	path string
	file fs.FileInfo
}

// Listen listens on path with exactly the given mode, whatever the umask. It
// makes missing directories (0755) and replaces the socket of an earlier server;
// anything else at path is an error.
//
// The socket is made in a directory that only its owner can enter, gets its mode
// there, and is then renamed into place, so at no moment can it be reached with
// another mode, and the umask, which all of a process's threads share, stays.
func Listen(path string, mode fs.FileMode) (*Listener, error) {
	l, err := listen(path, mode)
	if err != nil {
		return nil, fmt.Errorf("system socket %s: %w", path, err)
	}
	return l, nil
}

func listen(path string, mode fs.FileMode) (*Listener, error) {
	if len(path) > maxPath { // it could be renamed to that, but not reached
		return nil, fmt.Errorf("path is %d bytes long, a socket's at most %d", len(path), maxPath)
	}
	dir := filepath.Dir(path)
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	switch st, err := os.Lstat(path); {
	case err == nil && st.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("in the way: %s, which is not a socket; remove it", st.Mode())
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}

	private, err := os.MkdirTemp(dir, ".s") // 0700; a short name, for maxPath holds here too
	if err != nil {
		return nil, fmt.Errorf("make a private directory for the new socket: %w", err)
	}
	defer os.RemoveAll(private)
	temp := filepath.Join(private, "s")
	ul, err := net.ListenUnix("unix", &net.UnixAddr{Name: temp, Net: "unix"})
	if err != nil {
		return nil, err
	}
	ul.SetUnlinkOnClose(false)
	l := &Listener{UnixListener: ul, path: path}
	if err := os.Chmod(temp, mode); err != nil {
		ul.Close()
		return nil, err
	}
	if l.file, err = os.Lstat(temp); err != nil {
		ul.Close()
		return nil, err
	}
	if err := os.Rename(temp, path); err != nil {
		ul.Close()
		return nil, err
	}
	return l, nil
}

// makeDir makes dir and its parents with mode 0755, whatever the umask; those
// that exist stay as they are.
func makeDir(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if parent := filepath.Dir(dir); parent != dir {
		if err := makeDir(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	}
	return os.Chmod(dir, 0o755)
}

// Close stops listening and removes the socket's file if it is still this one's.
func (l *Listener) Close() error {
	if st, err := os.Lstat(l.path); err == nil && os.SameFile(st, l.file) {
		os.Remove(l.path)
	}
	return l.UnixListener.Close()
}
