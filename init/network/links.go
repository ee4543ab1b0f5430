package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"garboard.local/init/settings"
)

// Loopback brings lo up.
func Loopback() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("loopback: bring lo up: %w", err)
	}
	return nil
}

// Manager keeps every wired link configured, those that appear later too.
type Manager struct {
	Root     string                     // "" on a node
	Hostname func() string              // sent to DHCP servers; "" = none
	Leased   func(link string, l Lease) // called with each lease, new or renewed
	Printf   func(format string, args ...any)
	Guard    func(who string) // deferred in each goroutine

	mu     sync.Mutex
	leases map[string]*Lease // by link
	order  []string          // links, first come first
}

// link is what the manager does for one link of the machine.
type link struct {
	cancel context.CancelFunc
	up     chan struct{} // closed when the link has a carrier
	isUp   bool
}

// Run follows the machine's links until ctx ends.
func (m *Manager) Run(ctx context.Context) {
	m.leases = map[string]*Lease{}
	links := map[int]*link{}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer func() {
		for _, l := range links {
			l.cancel()
		}
	}()
	for ctx.Err() == nil {
		updates, done := make(chan netlink.LinkUpdate), make(chan struct{})
		err := netlink.LinkSubscribeWithOptions(updates, done, netlink.LinkSubscribeOptions{ListExisting: true,
			ErrorCallback: func(err error) {
				if ctx.Err() == nil { // the end of the subscription comes as an error too
					m.Printf("network: links: %v", err)
				}
			}})
		if err != nil {
			m.Printf("network: follow the links: %v; again in 1s", err)
		} else {
			m.follow(ctx, updates, links, &wg)
		}
		close(done)
		_ = sleep(ctx, time.Second)
	}
}

// follow takes updates until the subscription breaks or ctx ends.
func (m *Manager) follow(ctx context.Context, updates <-chan netlink.LinkUpdate, links map[int]*link, wg *sync.WaitGroup) {
	for {
		select {
		case u, ok := <-updates:
			if !ok {
				return
			}
			m.update(ctx, u, links, wg)
		case <-ctx.Done():
			go func() { // the subscription's goroutine may be about to send
				for range updates {
				}
			}()
			return
		}
	}
}

func (m *Manager) update(ctx context.Context, u netlink.LinkUpdate, links map[int]*link, wg *sync.WaitGroup) {
	a := u.Link.Attrs()
	l := links[a.Index]
	if u.Header.Type == unix.RTM_DELLINK {
		if l != nil {
			l.cancel()
			delete(links, a.Index)
		}
		return
	}
	if !wired(m.Root, u.Link.Type(), a.EncapType, a.Name) {
		return
	}
	if l == nil {
		lctx, cancel := context.WithCancel(ctx)
		l = &link{cancel: cancel, up: make(chan struct{})}
		links[a.Index] = l
		if err := netlink.LinkSetUp(u.Link); err != nil {
			m.Printf("network: bring %s up: %v", a.Name, err)
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			defer m.Guard("network link " + a.Name)
			m.keep(lctx, l.up, a.Index, a.Name)
		}()
	}
	if a.RawFlags&unix.IFF_LOWER_UP != 0 && !l.isUp {
		l.isUp = true
		close(l.up)
	}
}

// wired says whether a link is a network card: an Ethernet device with hardware
// behind it (so no veth, bridge or tunnel) that is no radio.
func wired(root, kind, encap, name string) bool {
	if kind != "device" || encap != "ether" || name != filepath.Base(name) {
		return false
	}
	has := func(file string) bool {
		_, err := os.Stat(filepath.Join(root, "/sys/class/net", name, file))
		return err == nil
	}
	return has("device") && !has("wireless") && !has("phy80211")
}

func (m *Manager) keep(ctx context.Context, up <-chan struct{}, index int, name string) {
	select {
	case <-up:
	case <-ctx.Done():
		return
	}
	k := &keeper{link: name, ex: client{link: name, hostname: m.Hostname}, printf: m.Printf, now: time.Now, sleep: sleep,
		configure: func(old, new *Lease) error {
			if err := apply(index, old, new); err != nil {
				return err
			}
			if new != nil {
				m.Leased(name, *new)
			}
			return m.resolv(name, new)
		}}
	k.run(ctx)
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// apply changes a link's address and routes from one lease to the next.
func apply(index int, old, new *Lease) error {
	h, err := netlink.LinkByIndex(index)
	if err != nil {
		return err
	}
	var errs []error
	if new != nil {
		if err := netlink.AddrReplace(h, &netlink.Addr{IPNet: new.Addr}); err != nil {
			return fmt.Errorf("address %s: %w", new.Addr, err)
		}
		for _, r := range routes(index, new) {
			if err := netlink.RouteReplace(&r); err != nil {
				errs = append(errs, fmt.Errorf("route to %s through %s: %w", r.Dst, r.Gw, err))
			}
		}
	}
	// The kernel takes the old address' routes off with it.
	if old != nil && (new == nil || old.Addr.String() != new.Addr.String()) {
		if err := netlink.AddrDel(h, &netlink.Addr{IPNet: old.Addr}); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
			errs = append(errs, fmt.Errorf("remove address %s: %w", old.Addr, err))
		}
	}
	return errors.Join(errs...)
}

// routes returns the routes of a lease. Each link's have a metric of their own,
// so that two links with a default route do not replace one another's.
func routes(index int, l *Lease) []netlink.Route {
	metric := 1000 + index
	var out []netlink.Route
	if l.Router != nil {
		out = append(out, netlink.Route{LinkIndex: index, Gw: l.Router, Src: l.Addr.IP, Priority: metric,
			Dst: &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}, Flags: onlink(l, l.Router)})
	}
	for _, r := range l.Routes {
		n := netlink.Route{LinkIndex: index, Src: l.Addr.IP, Priority: metric, Dst: r.Dest}
		if r.Router == nil || r.Router.IsUnspecified() {
			n.Scope = netlink.SCOPE_LINK
		} else {
			n.Gw, n.Flags = r.Router, onlink(l, r.Router)
		}
		out = append(out, n)
	}
	return out
}

// onlink is for routers outside the link's own network, as some clouds have.
func onlink(l *Lease, router net.IP) int {
	if l.Addr.Contains(router) {
		return 0
	}
	return int(netlink.FLAG_ONLINK)
}

// resolv writes /etc/resolv.conf from the leases of all links, the first link's first.
func (m *Manager) resolv(name string, l *Lease) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.leases[name]; !known {
		m.order = append(m.order, name)
	}
	m.leases[name] = l
	var list []*Lease
	for _, n := range m.order {
		if m.leases[n] != nil {
			list = append(list, m.leases[n])
		}
	}
	if len(list) == 0 {
		return nil // what was known last may still answer
	}
	return settings.WriteEtc(m.Root, "resolv.conf", resolvConf(list))
}

// resolvConf is the text of resolv.conf(5): at most three servers are used, and
// names come from the network, so only what is a name is written.
func resolvConf(list []*Lease) string {
	var b strings.Builder
	var servers int
	seen := map[string]bool{}
	var search []string
	for _, l := range list {
		for _, s := range l.Search {
			s = strings.ToLower(strings.TrimSuffix(s, "."))
			if settings.CheckHostname(s) == nil && !seen[s] && len(search) < 6 {
				seen[s] = true
				search = append(search, s)
			}
		}
	}
	if len(search) > 0 {
		b.WriteString("search " + strings.Join(search, " ") + "\n")
	}
	for _, l := range list {
		for _, d := range l.DNS {
			if s := d.String(); servers < 3 && !seen[s] && !d.IsUnspecified() {
				seen[s] = true
				servers++
				b.WriteString("nameserver " + s + "\n")
			}
		}
	}
	return b.String()
}
