package hotplug

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Event is what the kernel says of a device (lib/kobject_uevent.c).
type Event struct {
	Action   string // "add", "remove", "change", "bind", ...
	Path     string // below /sys
	Modalias string // what the device's driver would be an alias of; "" if it has none
}

// Parse reads a message of the kernel: "action@path", then KEY=value, each ended by a zero.
func Parse(msg []byte) (Event, bool) {
	var e Event
	head, rest, ok := strings.Cut(string(msg), "\x00")
	if e.Action, e.Path, ok = cutHead(head, ok); !ok {
		return Event{}, false
	}
	for rest != "" {
		var field string
		field, rest, _ = strings.Cut(rest, "\x00")
		if v, ok := strings.CutPrefix(field, "MODALIAS="); ok {
			e.Modalias = v
		}
	}
	return e, true
}

func cutHead(head string, ok bool) (action, path string, _ bool) {
	action, path, at := strings.Cut(head, "@")
	return action, path, ok && at && action != "" && strings.HasPrefix(path, "/")
}

// errLost says that messages were dropped: too many came at once.
var errLost = errors.New("events were lost")

// socketBuffer holds the events of some thousand devices. It is memory only while it is used.
const socketBuffer = 4 << 20

// Socket hears the kernel's events.
type Socket struct{ file *os.File }

// Listen begins to hear events. What happens from now on is not missed.
func Listen() (*Socket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return nil, fmt.Errorf("events of devices: %w", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, socketBuffer); err != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, socketBuffer) // then a rescan makes up for it
	}
	// Group 1 is the kernel's own messages, 2 would be udev's.
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("events of devices: %w", err)
	}
	return &Socket{os.NewFile(uintptr(fd), "uevent")}, nil
}

// Close ends Receive.
func (s *Socket) Close() error { return s.file.Close() }

// Receive waits for the next event. errLost says that some are missing before it.
func (s *Socket) Receive(buf []byte) (Event, error) {
	c, err := s.file.SyscallConn()
	if err != nil {
		return Event{}, err
	}
	for {
		var n int
		var from unix.Sockaddr
		var rerr error
		err := c.Read(func(fd uintptr) bool {
			n, from, rerr = unix.Recvfrom(int(fd), buf, 0)
			return !errors.Is(rerr, unix.EAGAIN)
		})
		switch {
		case err != nil:
			return Event{}, err
		case errors.Is(rerr, unix.EINTR):
			continue
		case errors.Is(rerr, unix.ENOBUFS):
			return Event{}, errLost
		case rerr != nil:
			return Event{}, rerr
		}
		// A program may send to this socket too; the kernel's port is 0.
		if nl, ok := from.(*unix.SockaddrNetlink); !ok || nl.Pid != 0 {
			continue
		}
		if e, ok := Parse(buf[:n]); ok {
			return e, nil
		}
	}
}
