// Package power hears those who ask for the node's end other than through the
// system socket: signals to PID 1, the keyboard's ctrl-alt-del, the power button.
package power

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Action is what a signal to PID 1 asks for.
type Action int

// The actions.
const (
	None Action = iota
	PowerOff
	Reboot
	Report // print the services' states on the console
)

// Signal is one line of the table of signals.
type Signal struct {
	Signal unix.Signal
	Action Action
	Who    string // "shutdown requested by <Who>"
}

// Signals is everything PID 1 listens to; docs/init.md shows the same table.
func Signals() []Signal {
	return []Signal{
		{unix.SIGTERM, PowerOff, "SIGTERM"},
		{unix.SIGUSR2, PowerOff, "SIGUSR2"},
		{unix.SIGPWR, PowerOff, "SIGPWR (power failure)"},
		{unix.SIGINT, Reboot, "ctrl-alt-del or SIGINT"},
		{unix.SIGUSR1, Report, "SIGUSR1"},
		{unix.SIGHUP, None, "SIGHUP"},
		// A Go program dies of these, and a PID 1 that dies is a kernel panic. When
		// they come from a fault of its own they still lead to the end.
		{unix.SIGQUIT, None, "SIGQUIT"},
		{unix.SIGABRT, None, "SIGABRT"},
		{unix.SIGILL, None, "SIGILL"},
		{unix.SIGTRAP, None, "SIGTRAP"},
		{unix.SIGBUS, None, "SIGBUS"},
		{unix.SIGFPE, None, "SIGFPE"},
		{unix.SIGSEGV, None, "SIGSEGV"},
		{unix.SIGSYS, None, "SIGSYS"},
		{unix.SIGSTKFLT, None, "SIGSTKFLT"},
	}
}

const (
	evKey    = 0x01 // linux/input-event-codes.h
	keyPower = 116
	keyBits  = 0x300 / 8
)

// eventSize is the size of struct input_event: two longs, then type, code, value.
const eventSize = int(2*unsafe.Sizeof(uintptr(0))) + 8

// pressed says whether a block of input events holds the press of the power key.
func pressed(b []byte) bool {
	for ; len(b) >= eventSize; b = b[eventSize:] {
		e := b[eventSize-8:]
		if binary.NativeEndian.Uint16(e) == evKey && binary.NativeEndian.Uint16(e[2:]) == keyPower &&
			binary.NativeEndian.Uint32(e[4:]) == 1 {
			return true
		}
	}
	return false
}

// Button watches every input device that has a power key, also those that
// appear later.
type Button struct {
	Dir     string // /dev/input
	Printf  func(format string, args ...any)
	Pressed func() // must not block
	Guard   func(who string)
	hasKey  func(f *os.File) bool

	mu   sync.Mutex
	open map[string]bool
	wg   sync.WaitGroup
}

// Run watches until ctx ends.
func (b *Button) Run(ctx context.Context) {
	if b.hasKey == nil {
		b.hasKey = hasPowerKey
	}
	b.open = map[string]bool{}
	defer b.wg.Wait()
	// The kernel tells of new devices; what is there already is looked for
	// once we listen, so that none falls between.
	u, err := uevents()
	if err != nil {
		b.Printf("power button: later devices are not noticed: %v", err)
		b.scan(ctx)
		<-ctx.Done()
		return
	}
	stop := context.AfterFunc(ctx, func() { _ = u.Close() })
	defer stop()
	b.scan(ctx)
	buf := make([]byte, 8<<10)
	for {
		n, err := u.Read(buf)
		if errors.Is(err, unix.ENOBUFS) { // some were lost
			b.scan(ctx)
			continue
		}
		if err != nil {
			<-ctx.Done()
			return
		}
		if name, ok := newInput(buf[:n]); ok {
			b.watch(ctx, filepath.Join(b.Dir, name))
		}
	}
}

func (b *Button) scan(ctx context.Context) {
	names, _ := filepath.Glob(filepath.Join(b.Dir, "event*"))
	for _, n := range names {
		b.watch(ctx, n)
	}
}

func (b *Button) watch(ctx context.Context, path string) {
	b.mu.Lock()
	known := b.open[path]
	b.mu.Unlock()
	if known {
		return
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	if !b.hasKey(f) {
		_ = f.Close()
		return
	}
	b.mu.Lock()
	b.open[path] = true
	b.mu.Unlock()
	b.Printf("power button: %s", path)
	b.wg.Add(1)
	go func() {
		defer b.wg.Done()
		defer b.Guard("power button")
		stop := context.AfterFunc(ctx, func() { _ = f.Close() })
		defer stop()
		defer func() {
			_ = f.Close()
			b.mu.Lock()
			delete(b.open, path)
			b.mu.Unlock()
		}()
		buf := make([]byte, 64*eventSize)
		for {
			n, err := f.Read(buf)
			if err != nil {
				return
			}
			if pressed(buf[:n]) {
				b.Pressed()
			}
		}
	}()
}

// hasPowerKey asks the device which keys it has (EVIOCGBIT). It goes through
// SyscallConn, because Fd would make the file blocking and unstoppable.
func hasPowerKey(f *os.File) bool {
	var bits [keyBits]byte
	c, err := f.SyscallConn()
	if err != nil {
		return false
	}
	ok := false
	_ = c.Control(func(fd uintptr) {
		// _IOC(_IOC_READ, 'E', 0x20 + EV_KEY, len)
		req := uintptr(2)<<30 | uintptr(len(bits))<<16 | 'E'<<8 | 0x20 + evKey
		_, _, e := unix.Syscall(unix.SYS_IOCTL, fd, req, uintptr(unsafe.Pointer(&bits[0])))
		ok = e == 0 && bits[keyPower/8]&(1<<(keyPower%8)) != 0
	})
	return ok
}

// uevents opens the kernel's announcements of devices (netlink(7)).
func uevents() (*os.File, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return nil, fmt.Errorf("device events: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1}); err != nil {
		return nil, errors.Join(fmt.Errorf("device events: %w", err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "uevents"), nil
}

// newInput reads one announcement: "add@/devices/.../event3" and then
// NUL-separated KEY=value. It returns the name of a new input event device.
func newInput(b []byte) (string, bool) {
	head, _, _ := bytes.Cut(b, []byte{0})
	if !bytes.HasPrefix(head, []byte("add@")) || !bytes.Contains(head, []byte("/input/")) {
		return "", false
	}
	name := string(head[bytes.LastIndexByte(head, '/')+1:])
	if !strings.HasPrefix(name, "event") || strings.Trim(name[5:], "0123456789") != "" || name == "event" {
		return "", false
	}
	return name, true
}

// Debounce returns a function that calls f at most once in d: a held or
// bouncing key is one press.
func Debounce(d time.Duration, now func() time.Time, f func()) func() {
	var mu sync.Mutex
	var last time.Time
	return func() {
		mu.Lock()
		t := now()
		soon := !last.IsZero() && t.Sub(last) < d
		if !soon {
			last = t
		}
		mu.Unlock()
		if !soon {
			f()
		}
	}
}
