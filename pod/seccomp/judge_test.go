package seccomp

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
)

// ask is one system call as a program sees it.
type ask struct {
	audit, number uint32
	args          [arguments]uint64
}

func (a ask) String() string {
	return fmt.Sprintf("call %#x of %#x with %#x", a.number, a.audit, a.args)
}

// run lets a program judge. The machine of golang.org/x/net/bpf reads packets,
// which are big-endian; the kernel's reads words as the CPU has them.
func run(t testing.TB, vm *bpf.VM, a ask) uint32 {
	b := binary.BigEndian.AppendUint32(nil, a.number)
	b = binary.BigEndian.AppendUint32(b, a.audit)
	b = append(b, make([]byte, 8)...) // instruction pointer
	for _, x := range a.args {
		b = binary.BigEndian.AppendUint32(b, uint32(x))
		b = binary.BigEndian.AppendUint32(b, uint32(x>>32))
	}
	n, err := vm.Run(b)
	if err != nil {
		t.Fatalf("%v: %v", a, err)
	}
	return uint32(n)
}

func newVM(t testing.TB, program []bpf.Instruction) *bpf.VM {
	t.Helper()
	vm, err := bpf.NewVM(program)
	if err != nil {
		t.Fatal(err)
	}
	return vm
}

// callNames are libseccomp's words for numbers (testdata/libseccomp.py).
func callNames(t testing.TB, goarch string) map[uint32]string {
	t.Helper()
	b, err := os.ReadFile("testdata/libseccomp/calls-" + goarch + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	out := map[uint32]string{}
	for line := range strings.Lines(string(b)) {
		number, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseUint(number, 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		out[uint32(n)] = name
	}
	return out
}

// judge says what a profile means for a call, rule by rule as it stands there:
// no numbers, no halves of words, no jumps.
func judge(p *Profile, t Target, names map[uint32]string, a ask) uint32 {
	info := map[string]*arch.Info{"amd64": arch.X86_64, "arm64": arch.AARCH64}[t.Arch]
	if a.audit != uint32(info.ID) {
		return 0
	}
	if t.Arch == "amd64" && a.number >= 1<<30 && a.number != 1<<32-1 {
		return 0
	}
	answer := func(action string, number *uint, word string) uint32 {
		switch strings.TrimPrefix(action, "SCMP_ACT_") {
		case "ALLOW":
			return 0x7fff0000
		case "LOG":
			return 0x7ffc0000
		case "TRAP":
			return 0x30000
		case "KILL_PROCESS":
			return 0x80000000
		case "ERRNO":
			known := map[string]uint32{"EPERM": 1, "ESRCH": 3, "3": 3, "EINVAL": 22, "ENOSYS": 38}
			switch {
			case word != "":
				return 0x50000 + known[word]
			case number != nil:
				return 0x50000 + uint32(*number)
			}
			return 0x50001
		}
		return 0
	}
	has := func(c string) bool { return t.Caps == nil || slices.Contains(t.Caps, c[4:]) }
	rest := answer(p.DefaultAction, p.DefaultErrnoRet, p.DefaultErrno)
	name, known := names[a.number]
	if !known {
		return rest
	}
	verdict, found := rest, false
	for _, r := range p.Syscalls {
		act := answer(r.Action, r.ErrnoRet, r.Errno)
		if r.Name != name && !slices.Contains(r.Names, name) || act == rest {
			continue
		}
		skip := slices.Contains(r.Excludes.Arches, t.Arch) || len(r.Includes.Arches) > 0 && !slices.Contains(r.Includes.Arches, t.Arch)
		for _, c := range r.Excludes.Caps {
			skip = skip || has(c)
		}
		for _, c := range r.Includes.Caps {
			skip = skip || !has(c)
		}
		if skip {
			continue
		}
		if len(r.Args) == 0 {
			return act
		}
		all, any, twice := true, false, map[uint]int{}
		or := false
		for _, x := range r.Args {
			v := a.args[x.Index]
			is := map[string]bool{
				"EQ": v == x.Value, "NE": v != x.Value, "LT": v < x.Value, "LE": v <= x.Value, "GT": v > x.Value, "GE": v >= x.Value,
				"MASKED_EQ": v&x.Value == x.ValueTwo,
			}[x.Op[len("SCMP_CMP_"):]]
			all, any = all && is, any || is
			twice[x.Index]++
			or = or || twice[x.Index] > 1
		}
		if !found && (or && any || !or && all) {
			verdict, found = act, true
		}
	}
	// A rule without args that comes later goes before those with args.
	return verdict
}

// asks are the calls worth asking about: every number, with the values around
// those that the profile compares with.
func asks(p *Profile, goarch string, of map[uint32]string) []ask {
	info := map[string]*arch.Info{"amd64": arch.X86_64, "arm64": arch.AARCH64}[goarch]
	values := map[string]map[uint][]uint64{}
	for _, r := range p.Syscalls {
		for _, n := range r.names() {
			for _, x := range r.Args {
				if values[n] == nil {
					values[n] = map[uint][]uint64{}
				}
				for _, v := range []uint64{x.Value, x.ValueTwo} {
					values[n][x.Index] = append(values[n][x.Index], v, v-1, v+1, v^1<<32, v|1<<63, v<<32, v>>32, ^v)
				}
			}
		}
	}
	audit := uint32(info.ID)
	out := []ask{{number: 0, audit: 0x40000003}, {number: 1, audit: 0x40000028}, {number: 0xffffffff, audit: audit}, {number: 0x3fffffff, audit: audit},
		{number: 0x40000000, audit: audit}, {number: 0x40000001, audit: audit}, {number: 0x80000000, audit: audit}, {number: 0xfffffffe, audit: audit}}
	for n := range uint32(700) {
		base := []ask{{audit: audit, number: n}, {audit: audit, number: n, args: [6]uint64{1<<64 - 1, 1<<64 - 1, 1<<64 - 1, 1<<64 - 1, 1<<64 - 1, 1<<64 - 1}}}
		for i := range uint(arguments) {
			list := values[of[n]][i]
			slices.Sort(list)
			for _, a := range slices.Clone(base) {
				for _, v := range slices.Compact(list) {
					a.args[i] = v
					base = append(base, a)
				}
			}
			if len(base) > 1500 {
				base = base[:1500]
			}
		}
		out = append(out, base...)
	}
	return out
}
