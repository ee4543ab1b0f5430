package boot

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"garboard.local/init/clock"
	"garboard.local/init/network"
)

// ntpParam names time servers, separated by commas, in place of all others; "off" = none.
const ntpParam = "garboard.ntp"

// keepClock begins to keep the clock right; nobody waits for it.
func (n *node) keepClock() {
	only, off := clock.ParseServers(n.cmdline[ntpParam])
	n.clock = &clock.Keeper{System: clock.Kernel{}, Printf: n.printf, Guard: n.guard, Built: n.table.BuildTime,
		Servers: n.table.NTP, Only: only, Off: off}
	n.background("clock", n.clock.Run)
}

// leased takes what a DHCP server says beside the address.
func (n *node) leased(link string, l network.Lease) {
	n.naming.Offer(link, l.Hostname)
	var servers []string
	for _, ip := range l.NTP {
		if !ip.IsUnspecified() && !ip.IsMulticast() {
			servers = append(servers, ip.String())
		}
	}
	n.clock.Leased(link, servers)
}

func setClock(to time.Time) error {
	tv := unix.NsecToTimeval(to.UnixNano())
	if err := unix.Settimeofday(&tv); err != nil {
		return fmt.Errorf("set the clock to %s: %w", to, err)
	}
	return nil
}
