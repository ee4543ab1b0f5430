package network

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"
)

const (
	attempt = 2 * time.Second // one packet's wait for an answer
	retries = 2
)

// client speaks DHCPv4 (RFC 2131) on one link.
type client struct {
	link     string
	hostname func() string // told to the server; "" = none
}

func (c client) options() []dhcpv4.Modifier {
	m := []dhcpv4.Modifier{dhcpv4.WithRequestedOptions(
		dhcpv4.OptionSubnetMask, dhcpv4.OptionRouter, dhcpv4.OptionClasslessStaticRoute,
		dhcpv4.OptionDomainNameServer, dhcpv4.OptionDomainName, dhcpv4.OptionDNSDomainSearchList,
		dhcpv4.OptionHostName, dhcpv4.OptionNTPServers, dhcpv4.OptionRenewTimeValue, dhcpv4.OptionRebindingTimeValue)}
	if name := c.hostname(); name != "" {
		m = append(m, dhcpv4.WithOption(dhcpv4.OptHostName(name)))
	}
	return m
}

// Discover asks any server for any address.
func (c client) Discover(ctx context.Context) (*Lease, error) {
	n, err := nclient4.New(c.link, nclient4.WithTimeout(attempt), nclient4.WithRetry(retries))
	if err != nil {
		return nil, fmt.Errorf("DHCP on %s: %w", c.link, err)
	}
	defer n.Close()
	l, err := n.Request(ctx, c.options()...)
	if err != nil {
		return nil, fmt.Errorf("DHCP on %s: %w", c.link, err)
	}
	return newLease(l.ACK, time.Now())
}

// Renew asks the server that gave the lease, by unicast.
func (c client) Renew(ctx context.Context, l *Lease) (*Lease, error) {
	n, err := nclient4.New(c.link, nclient4.WithTimeout(attempt), nclient4.WithRetry(retries),
		nclient4.WithUnicast(&net.UDPAddr{IP: l.Addr.IP, Port: nclient4.ClientPort}),
		nclient4.WithServerAddr(&net.UDPAddr{IP: l.Server, Port: nclient4.ServerPort}))
	if err != nil {
		return nil, fmt.Errorf("renew %s: %w", l.Addr, err)
	}
	defer n.Close()
	return c.extend(ctx, n, n.RemoteAddr(), l)
}

// Rebind asks any server to go on with the lease.
func (c client) Rebind(ctx context.Context, l *Lease) (*Lease, error) {
	n, err := nclient4.New(c.link, nclient4.WithTimeout(attempt), nclient4.WithRetry(retries))
	if err != nil {
		return nil, fmt.Errorf("rebind %s: %w", l.Addr, err)
	}
	defer n.Close()
	return c.extend(ctx, n, n.RemoteAddr(), l)
}

func (c client) extend(ctx context.Context, n *nclient4.Client, to *net.UDPAddr, l *Lease) (*Lease, error) {
	req, err := dhcpv4.NewRenewFromAck(l.ack, c.options()...)
	if err != nil {
		return nil, fmt.Errorf("renew %s: %w", l.Addr, err)
	}
	ans, err := n.SendAndRead(ctx, to, req, nclient4.IsMessageType(dhcpv4.MessageTypeAck, dhcpv4.MessageTypeNak))
	if err != nil {
		return nil, fmt.Errorf("renew %s: %w", l.Addr, err)
	}
	if ans.MessageType() == dhcpv4.MessageTypeNak {
		return nil, errRefused
	}
	if ans.ServerIdentifier() == nil && l.Server != nil {
		ans.UpdateOption(dhcpv4.OptServerIdentifier(l.Server))
	}
	return newLease(ans, time.Now())
}
