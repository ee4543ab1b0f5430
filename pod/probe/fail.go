package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Where systemd is asked and told.
const (
	systemctl    = "/usr/bin/systemctl"
	notifySocket = "/run/systemd/notify"
	// trigger has systemd act as if the service's watchdog had run out (sd_notify(3)):
	// it ends the process by the unit's WatchdogSignal= and TimeoutAbortSec=, and starts
	// it again by its Restart=, which counts it and waits longer each time.
	trigger = "WATCHDOG=trigger"
)

// fail has systemd take a service for failed. One that does not run has failed already.
func fail(ctx context.Context, systemctl, socket, unit string) error {
	out, err := exec.CommandContext(ctx, systemctl, "show", "--property=MainPID", "--value", "--", unit).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
		}
		return fmt.Errorf("systemctl show %s: %w", unit, err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		return fmt.Errorf("systemctl show %s: the main process is %q", unit, out)
	}
	if pid == 0 {
		return nil
	}
	return notifyFor(pid, socket, trigger)
}

// notifyFor says something to systemd in the name of a service's main process, as root
// can: systemd finds out by the sender's number whose message it is.
func notifyFor(pid int, socket, message string) error {
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer c.Close()
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	creds := unix.UnixCredentials(&unix.Ucred{Pid: int32(pid)})
	var sent error
	if err := raw.Write(func(fd uintptr) bool {
		sent = unix.Sendmsg(int(fd), []byte(message), creds, nil, 0)
		return sent != unix.EAGAIN
	}); err != nil {
		return err
	}
	if sent != nil {
		return fmt.Errorf("say %s to %s for process %d: %w", message, socket, pid, sent)
	}
	return nil
}
