package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"garboard.local/contents/observed"
)

// sockets lists what others can reach in the host's network namespace: TCP and
// UDP, raw and packet sockets, and unix sockets with a name.
func sockets(proc string) ([]observed.Socket, error) {
	owners := socketOwners(proc)
	inet, err := readListeners(proc)
	if err != nil {
		return nil, err
	}
	var all []observed.Socket
	for _, l := range inet {
		all = append(all, observed.Socket{Network: l.network, Address: l.addr.String(), Owner: owners[l.inode]})
	}
	for _, t := range []struct {
		file  string
		parse func(string) (address, inode string, ok bool, err error)
	}{
		{"raw", parseRaw}, {"raw6", parseRaw}, {"packet", parsePacket}, {"unix", parseUnix},
	} {
		b, err := os.ReadFile(filepath.Join(proc, "net", t.file))
		if os.IsNotExist(err) && t.file != "unix" {
			continue // a kernel without IPv6, or without packet sockets loaded
		}
		if err != nil {
			return nil, err
		}
		_, rest, _ := strings.Cut(string(b), "\n") // the header
		for line := range strings.Lines(rest) {
			address, inode, ok, err := t.parse(strings.TrimSuffix(line, "\n"))
			if err != nil {
				return nil, fmt.Errorf("/proc/net/%s: %w", t.file, err)
			}
			if ok {
				all = append(all, observed.Socket{Network: t.file, Address: address, Owner: owners[inode]})
			}
		}
	}
	return all, nil
}

// parseRaw: the port of a raw socket is its protocol.
func parseRaw(line string) (address, inode string, ok bool, err error) {
	f := strings.Fields(line)
	if len(f) < 10 {
		return "", "", false, fmt.Errorf("short line %q", line)
	}
	local, err := parseAddr(f[1])
	return fmt.Sprint("protocol ", local.Port()), f[9], true, err
}

// parsePacket: sk RefCnt Type Proto Iface R Rmem User Inode.
func parsePacket(line string) (address, inode string, ok bool, err error) {
	f := strings.Fields(line)
	if len(f) < 9 {
		return "", "", false, fmt.Errorf("short line %q", line)
	}
	return "ethertype " + f[3], f[8], true, nil
}

// Of include/linux/net.h and include/uapi/linux/net.h.
const (
	acceptCon    = 1 << 16
	datagram     = 2
	unconnected  = 1
	unixPathFrom = 7 // fields before the path
)

// parseUnix: Num RefCount Protocol Flags Type St Inode Path; it takes listening
// ones and datagram sockets with a name. A path may hold spaces.
func parseUnix(line string) (address, inode string, ok bool, err error) {
	f := strings.Fields(line)
	if len(f) < unixPathFrom {
		return "", "", false, fmt.Errorf("short line %q", line)
	}
	var n [3]uint64
	for i, field := range f[3:6] {
		if n[i], err = strconv.ParseUint(field, 16, 64); err != nil {
			return "", "", false, fmt.Errorf("%q: %w", line, err)
		}
	}
	if len(f) == unixPathFrom { // no name
		return "", "", false, nil
	}
	at := strings.Index(line, " "+f[6]+" ")
	address = line[at+len(f[6])+2:]
	return address, f[6], n[0]&acceptCon != 0 || n[1] == datagram && n[2] == unconnected, nil
}

// socketOwners is the command name of a process by the inode of each socket it
// has open.
func socketOwners(proc string) map[string]string {
	owners := map[string]string{}
	links, _ := filepath.Glob(filepath.Join(proc, "[0-9]*/fd/*")) // the pattern is well-formed
	for _, link := range links {
		to, err := os.Readlink(link)
		inode, is := strings.CutPrefix(strings.TrimSuffix(to, "]"), "socket:[")
		if err != nil || !is {
			continue
		}
		if comm, err := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(link)), "comm")); err == nil {
			owners[inode] = strings.TrimSpace(string(comm))
		}
	}
	return owners
}
