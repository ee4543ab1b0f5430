package boot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"garboard.local/init/settings"
)

const (
	hostnameParam     = "garboard.hostname"
	hostnameWaitParam = "garboard.hostname.wait"
	hostnameWaitMax   = 5 * time.Minute
)

// chooseHostname names the node by what is known at boot.
func (n *node) chooseHostname() error {
	etc, err := os.ReadFile("/etc/hostname")
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	name, bad := settings.Hostname(n.cmdline[hostnameParam], string(etc), n.table.Hostname)
	return errors.Join(err, bad, n.naming.Begin(name))
}

// setHostname gives the node a name, and /etc/hosts the same.
func (n *node) setHostname(name string) error {
	return errors.Join(unix.Sethostname([]byte(name)),
		settings.WriteEtc("/", "hosts", settings.Hosts(name)))
}

// settleHostname ends the time in which DHCP may name the node: the kubelet
// reads the name when it starts. Only if the command line says so is a name
// waited for.
func (n *node) settleHostname() {
	wait, err := hostnameWait(n.cmdline[hostnameWaitParam])
	if err != nil {
		n.printf("hostname: %v", err)
	}
	ctx, cancel := context.WithTimeout(n.ctx, wait)
	defer cancel()
	if wait > 0 && !n.naming.Wait(expired()) {
		n.printf("hostname: waiting for a name from DHCP, at most %s", wait)
		if !n.naming.Wait(ctx) {
			n.printf("hostname: no name from DHCP within %s", wait)
		}
	}
	n.naming.Settle()
}

// expired is a context for a look without a wait.
func expired() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// hostnameWait reads garboard.hostname.wait, a duration such as 20s.
func hostnameWait(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > hostnameWaitMax {
		return 0, fmt.Errorf("%s=%s on the kernel command line is not a time such as 20s, at most %s: no name is waited for", hostnameWaitParam, text, hostnameWaitMax)
	}
	return d, nil
}
