package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// checkForbiddenCall demands that the task "filtered" was refused a namespace with
// the error of its seccomp profile (qemu/testdata/services).
func checkForbiddenCall(host string) error {
	const want = "unshare namespaces: invalid cross-device link"
	return within(serviceCeiling, func() error {
		b, err := os.ReadFile(filepath.Join(host, "var/log/garboard/filtered.log"))
		if err == nil && !strings.Contains(string(b), want) {
			err = fmt.Errorf("the log of the service filtered is %q, want %q in it", b, want)
		}
		return err
	})
}

// checkSameFilter compares the agent's seccomp program, which the builder made,
// with those that crun and libseccomp made for this node's containers: all are
// cri-o's RuntimeDefault, for capabilities that make no difference.
func (g *guest) checkSameFilter(arch string) error {
	ours, err := agentProgram(filepath.Join(g.host, "usr/lib/garboard/node.json"))
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(g.host, "run/crun/*/seccomp.bpf"))
	if err != nil {
		return err
	}
	compared := map[string]bool{} // containers often have the same
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		if len(b) == 0 || compared[string(b)] {
			continue // a container without a profile, or with one seen before
		}
		theirs, err := program(b)
		if err != nil {
			return fmt.Errorf("%s: %w", f, err)
		}
		if err := sameVerdicts(arch, ours, theirs); err != nil {
			return fmt.Errorf("the agent's filter and %s: %w", f, err)
		}
		compared[string(b)] = true
	}
	if len(compared) == 0 {
		return fmt.Errorf("no container has a seccomp program (%d files): nothing was compared", len(files))
	}
	g.say("tester: the agent's seccomp program agrees with %d, of %d containers", len(compared), len(files))
	return nil
}

// agentProgram is the program of the agent's service in the node's table.
func agentProgram(path string) (*bpf.VM, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var table struct {
		Services []struct {
			Name    string
			Seccomp *struct{ Program []byte }
		}
	}
	if err := json.Unmarshal(b, &table); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, s := range table.Services {
		if s.Name == "node-exporter-exporter" && s.Seccomp != nil {
			return program(s.Seccomp.Program)
		}
	}
	return nil, fmt.Errorf("%s: the agent has no seccomp program", path)
}

// program reads struct sock_filter (linux/filter.h).
func program(b []byte) (*bpf.VM, error) {
	var list []bpf.Instruction
	for ; len(b) >= 8; b = b[8:] {
		list = append(list, bpf.RawInstruction{Op: binary.LittleEndian.Uint16(b), Jt: b[2], Jf: b[3], K: binary.LittleEndian.Uint32(b[4:])}.Disassemble())
	}
	if len(b) > 0 {
		return nil, fmt.Errorf("%d bytes behind the last instruction", len(b))
	}
	return bpf.NewVM(list)
}

// sameVerdicts asks two programs about every system call, with arguments that
// the profile tells apart: kinds of sockets, namespaces, personalities. Not
// CLONE_NEWCGROUP alone: cri-o compares clone seven times, and crun looks at six.
func sameVerdicts(arch string, a, b *bpf.VM) error {
	audit := map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[arch]
	values := []uint64{0, 8, 9, unix.AF_NETLINK, unix.AF_VSOCK, 0x20000, 0x20008, 0xffffffff, 1 << 32, 1<<64 - 1,
		unix.CLONE_NEWNS, unix.CLONE_NEWUTS, unix.CLONE_NEWIPC, unix.CLONE_NEWUSER, unix.CLONE_NEWPID, unix.CLONE_NEWNET}
	seen := map[int]bool{}
	for call := range uint32(512) {
		for _, first := range values {
			for _, third := range []uint64{0, unix.NETLINK_AUDIT, 1 << 32} {
				data := binary.BigEndian.AppendUint32(nil, call) // struct seccomp_data, as the machine reads it
				data = binary.BigEndian.AppendUint32(data, audit)
				data = append(data, make([]byte, 8)...)
				for _, x := range []uint64{first, 0, third, 0, 0, 0} {
					data = binary.BigEndian.AppendUint32(data, uint32(x))
					data = binary.BigEndian.AppendUint32(data, uint32(x>>32))
				}
				x, err := a.Run(data)
				if err != nil {
					return err
				}
				y, err := b.Run(data)
				if err != nil {
					return err
				}
				if x != y {
					return fmt.Errorf("call %d with %#x and %#x: %#x and %#x", call, first, third, uint32(x), uint32(y))
				}
				seen[x] = true
			}
		}
	}
	if len(seen) < 4 { // allowed, EPERM, ENOSYS, EINVAL
		return fmt.Errorf("only %d different verdicts: nothing was compared", len(seen))
	}
	return nil
}
