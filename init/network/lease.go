// Package network brings the node's links up and keeps their addresses: the
// loopback at once, each wired link through DHCP as soon as it has a carrier,
// for as long as the node runs. Nothing in the boot waits for it.
package network

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// Lease is what a DHCP server granted.
type Lease struct {
	Addr     *net.IPNet
	Router   net.IP // nil if there is none
	Routes   []Route
	DNS      []net.IP
	Search   []string
	Hostname string   // option 12, as the server wrote it; "" if it gives none
	NTP      []net.IP // option 42
	Server   net.IP
	Obtained time.Time
	T1, T2   time.Duration // after Obtained: renew with the same server, with any
	Lifetime time.Duration
	ack      *dhcpv4.DHCPv4
}

// Route is a classless static route (RFC 3442). Router 0.0.0.0 means on-link.
type Route struct {
	Dest   *net.IPNet
	Router net.IP
}

var (
	// errRefused is a server's NAK: the address must not be used any longer.
	errRefused  = errors.New("the DHCP server refused the address")
	errUnusable = errors.New("the DHCP server's offer holds no usable address")
)

const (
	minLifetime     = time.Minute
	defaultLifetime = time.Hour // of an offer that names none, which RFC 2131 forbids
	forever         = 1<<32 - 1 // seconds: the protocol's "infinite"
	aLongTime       = 10 * 365 * 24 * time.Hour
)

// newLease reads an ACK. What a server sends is not trusted to be sensible.
func newLease(ack *dhcpv4.DHCPv4, now time.Time) (*Lease, error) {
	ip := ack.YourIPAddr.To4()
	if ip == nil || ip.IsUnspecified() || ip.IsLoopback() || ip.IsMulticast() || ip.Equal(net.IPv4bcast) {
		return nil, errUnusable
	}
	mask := ack.SubnetMask()
	if ones, bits := mask.Size(); len(mask) != net.IPv4len || bits != 32 || ones == 0 {
		mask = ip.DefaultMask()
	}
	l := &Lease{Addr: &net.IPNet{IP: ip, Mask: mask}, DNS: ack.DNS(), Hostname: ack.HostName(), NTP: ack.NTPServers(), Server: ack.ServerIdentifier(), Obtained: now, ack: ack}
	if r := ack.Router(); len(r) > 0 && !r[0].IsUnspecified() {
		l.Router = r[0]
	}
	if rs := ack.ClasslessStaticRoute(); len(rs) > 0 {
		l.Router = nil // RFC 3442: then the router option is not to be looked at
		for _, r := range rs {
			l.Routes = append(l.Routes, Route{r.Dest, r.Router})
		}
	}
	if s := ack.DomainSearch(); s != nil {
		l.Search = s.Labels
	} else if d := ack.DomainName(); d != "" {
		l.Search = []string{d}
	}
	l.Lifetime = ack.IPAddressLeaseTime(defaultLifetime)
	if l.Lifetime >= forever*time.Second {
		l.Lifetime = aLongTime
	}
	l.Lifetime = max(l.Lifetime, minLifetime)
	l.T1 = ack.IPAddressRenewalTime(l.Lifetime / 2)
	l.T2 = ack.IPAddressRebindingTime(l.Lifetime * 7 / 8)
	if l.T1 <= 0 || l.T1 >= l.T2 || l.T2 >= l.Lifetime {
		l.T1, l.T2 = l.Lifetime/2, l.Lifetime*7/8
	}
	return l, nil
}

// exchange is the protocol's messages on one link; each call is one attempt
// and ends within seconds.
type exchange interface {
	Discover(ctx context.Context) (*Lease, error)
	Renew(ctx context.Context, l *Lease) (*Lease, error)  // unicast to the server of the lease
	Rebind(ctx context.Context, l *Lease) (*Lease, error) // broadcast to any
}

// configure puts a lease on a link, in place of the one before (nil: none).
type configure func(old, new *Lease) error

// keeper holds the lease of one link, through renewal, rebinding and expiry.
type keeper struct {
	link      string
	ex        exchange
	configure configure
	printf    func(format string, args ...any)
	now       func() time.Time
	sleep     func(ctx context.Context, d time.Duration) error
}

const (
	retryFirst = time.Second
	retryMax   = 30 * time.Second
	renewPause = time.Minute // the shortest between two attempts to renew (RFC 2131, 4.4.5)
)

// run holds a lease until ctx ends; the link is then left as it is.
func (k *keeper) run(ctx context.Context) {
	for ctx.Err() == nil {
		l := k.obtain(ctx)
		if l == nil {
			return
		}
		k.keep(ctx, l)
	}
}

// obtain asks for a lease until there is one.
func (k *keeper) obtain(ctx context.Context) *Lease {
	pause := retryFirst
	for tries := 1; ; tries++ {
		l, err := k.ex.Discover(ctx)
		if err == nil {
			if err = k.configure(nil, l); err == nil {
				k.printf("network: %s: %s from %s for %s", k.link, l.Addr, l.Server, l.Lifetime)
				return l
			}
		}
		if ctx.Err() != nil {
			return nil
		}
		if tries == 1 || tries%10 == 0 {
			k.printf("network: %s: no address yet (attempt %d: %v); goes on trying", k.link, tries, err)
		}
		if k.sleep(ctx, pause) != nil {
			return nil
		}
		pause = min(2*pause, retryMax)
	}
}

// keep renews a lease until it is lost.
func (k *keeper) keep(ctx context.Context, l *Lease) {
	for {
		next := k.renew(ctx, l)
		switch {
		case ctx.Err() != nil:
			return
		case next == nil:
			if err := k.configure(l, nil); err != nil {
				k.printf("network: %s: take %s off: %v", k.link, l.Addr, err)
			}
			return
		}
		if err := k.configure(l, next); err != nil {
			k.printf("network: %s: put %s on: %v", k.link, next.Addr, err)
		}
		l = next
	}
}

// renew waits for T1, then asks the lease's server, from T2 any server, until
// the lease ends. nil means that the lease is lost.
func (k *keeper) renew(ctx context.Context, l *Lease) *Lease {
	at := func(d time.Duration) time.Duration { return l.Obtained.Add(d).Sub(k.now()) }
	if k.sleep(ctx, at(l.T1)) != nil {
		return nil
	}
	for at(l.Lifetime) > 0 {
		ask, until := k.ex.Renew, at(l.T2)
		if until <= 0 {
			ask, until = k.ex.Rebind, at(l.Lifetime)
		}
		next, err := ask(ctx, l)
		switch {
		case err == nil:
			return next
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errRefused):
			k.printf("network: %s: %s: %v, asking for another", k.link, l.Addr, err)
			return nil
		}
		// Half of what is left, at least a minute, but never past the next step.
		pause := min(max(until/2, renewPause), max(until, time.Second))
		if k.sleep(ctx, pause) != nil {
			return nil
		}
	}
	k.printf("network: %s: the lease of %s has expired, no server renewed it", k.link, l.Addr)
	return nil
}
