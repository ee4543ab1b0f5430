// Package watchdog feeds the machine's watchdog as long as the node is worth
// being left alone: PID 1's own loops turn, and the container runtime, if it
// says it is ready, answers. When it is fed no longer, the machine resets itself.
package watchdog

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Path is the first watchdog of the machine.
const Path = "/dev/watchdog"

// Drivers are those of hardware that a kernel does not load by itself; an image
// has the ones that its recipe names. SoftDriver is the kernel's own timer: it
// helps against a hung PID 1, not against a hung kernel.
var Drivers = []string{"wdat_wdt", "i6300esb", "iTCO_wdt", "sp5100_tco"}

// SoftDriver is the watchdog of machines that have none.
const SoftDriver = "softdog"

// Device is an open watchdog (the kernel's watchdog-api.rst): open means armed.
type Device struct {
	Name    string
	Timeout time.Duration // what the driver made of the wish

	magic bool
	mu    sync.Mutex
	f     *os.File // nil once disarmed
}

// Open arms the watchdog.
func Open(path string, timeout time.Duration) (*Device, error) {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	d := &Device{Name: "unknown", f: f, Timeout: timeout}
	fd := int(f.Fd())
	if info, err := unix.IoctlGetWatchdogInfo(fd); err == nil {
		name, _, _ := bytes.Cut(info.Identity[:], []byte{0})
		d.Name, d.magic = string(name), info.Options&unix.WDIOF_MAGICCLOSE != 0
	}
	var errs []error
	if err := unix.IoctlSetPointerInt(fd, unix.WDIOC_SETTIMEOUT, int(timeout/time.Second)); err != nil {
		errs = append(errs, fmt.Errorf("%s (%s): timeout of %s: %w", path, d.Name, timeout, err))
	}
	if s, err := unix.IoctlGetInt(fd, unix.WDIOC_GETTIMEOUT); err == nil && s > 0 {
		d.Timeout = time.Duration(s) * time.Second
	}
	return d, errors.Join(append(errs, d.Feed())...)
}

// Feed begins the timeout anew.
func (d *Device) Feed() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.f == nil {
		return nil
	}
	return unix.IoctlWatchdogKeepalive(int(d.f.Fd()))
}

// Disarm closes the watchdog by the magic byte. It says whether the driver has
// the means; without them the machine resets after the timeout all the same.
func (d *Device) Disarm() (disarmed bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.f == nil {
		return d.magic, nil
	}
	if d.magic {
		_, err = d.f.Write([]byte{'V'})
	}
	disarmed = d.magic && err == nil
	err = errors.Join(err, d.f.Close())
	d.f = nil
	return disarmed, err
}
