package main

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// listener is a socket that can be reached: TCP in state LISTEN, or UDP bound
// to a port and connected to nobody.
type listener struct {
	network string // tcp, tcp6, udp, udp6
	addr    netip.AddrPort
	inode   string
}

func (l listener) String() string { return l.network + " " + l.addr.String() }

// States of include/net/tcp_states.h; UDP sockets use the same numbers.
const (
	stateClosed = "07" // an unconnected UDP socket
	stateListen = "0A"
)

// readListeners reads /proc/net/{tcp,tcp6,udp,udp6} of the host's network
// namespace, in which the tester runs.
func readListeners(proc string) ([]listener, error) {
	var all []listener
	for _, network := range []string{"tcp", "tcp6", "udp", "udp6"} {
		b, err := os.ReadFile(filepath.Join(proc, "net", network))
		if os.IsNotExist(err) && strings.HasSuffix(network, "6") {
			continue // a kernel without IPv6
		}
		if err != nil {
			return nil, err
		}
		list, err := parseListeners(network, string(b))
		if err != nil {
			return nil, fmt.Errorf("/proc/net/%s: %w", network, err)
		}
		all = append(all, list...)
	}
	return all, nil
}

func parseListeners(network, table string) ([]listener, error) {
	want := stateListen
	if strings.HasPrefix(network, "udp") {
		want = stateClosed
	}
	var all []listener
	first := true
	for line := range strings.Lines(table) {
		if first { // the header
			first = false
			continue
		}
		f := strings.Fields(line)
		if len(f) < 10 {
			return nil, fmt.Errorf("short line %q", line)
		}
		if f[3] != want {
			continue
		}
		addr, err := parseAddr(f[1])
		if err != nil {
			return nil, err
		}
		all = append(all, listener{network, addr, f[9]})
	}
	return all, nil
}

// parseAddr reads an address as /proc/net writes it: 32-bit words of the
// address in the machine's byte order (both our architectures: little endian).
func parseAddr(s string) (netip.AddrPort, error) {
	host, port, _ := strings.Cut(s, ":")
	b, err := hex.DecodeString(host)
	if err != nil || len(b) != 4 && len(b) != 16 {
		return netip.AddrPort{}, fmt.Errorf("address %q is not one of /proc/net", s)
	}
	for word := range slices.Chunk(b, 4) {
		slices.Reverse(word)
	}
	n, err := strconv.ParseUint(port, 16, 16)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("port of %q: %w", s, err)
	}
	addr, _ := netip.AddrFromSlice(b) // four or sixteen bytes
	return netip.AddrPortFrom(addr.Unmap(), uint16(n)), nil
}

// documented are the listeners that a node may have, all on loopback.
var documented = []struct {
	network string
	port    uint16 // 0: any
	owner   string
	what    string
}{
	{"tcp", 0, "crio", "cri-o's streams for exec, attach and port-forward"},
	{"tcp", 0, "containerd", "containerd's, for the same"},
}

// undocumented returns the listeners that nobody documented, with their owner.
func undocumented(proc string, all []listener) []string {
	var bad []string
	for _, l := range all {
		owner := ownerOf(proc, l.inode)
		if !slices.ContainsFunc(documented, func(d struct {
			network string
			port    uint16
			owner   string
			what    string
		}) bool {
			return strings.TrimSuffix(l.network, "6") == d.network && l.addr.Addr().IsLoopback() &&
				(d.port == 0 || d.port == l.addr.Port()) && owner == d.owner
		}) {
			bad = append(bad, fmt.Sprintf("%s of %s", l, owner))
		}
	}
	return bad
}

// ownerOf is the name of a process that has the socket open.
func ownerOf(proc, inode string) string {
	links, _ := filepath.Glob(filepath.Join(proc, "[0-9]*/fd/*")) // the pattern is well-formed
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && to == "socket:["+inode+"]" {
			comm, err := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(link)), "comm"))
			if err == nil {
				return strings.TrimSpace(string(comm))
			}
		}
	}
	return "nobody known"
}
