package seccomp

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/bpf"

	"garboard.local/init/table"
)

func capabilitySets() map[string][]string {
	return map[string][]string{"none": {}, "all": nil, "some": {"AUDIT_WRITE", "SYS_PTRACE", "BPF"}}
}

func defaultProfile(t testing.TB) *Profile {
	t.Helper()
	p, _, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func fileProfile(t testing.TB, name string) *Profile {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Every call gets what the rules say, by an interpreter that shares nothing with the compiler.
func TestProgramsDoWhatTheRulesSay(t *testing.T) {
	for name, p := range map[string]*Profile{"default": defaultProfile(t), "comparisons": fileProfile(t, "testdata/comparisons.json")} {
		for _, goarch := range Arches() {
			for set, caps := range capabilitySets() {
				t.Run(fmt.Sprintf("%s %s %s", name, goarch, set), func(t *testing.T) {
					t.Parallel()
					target := Target{Arch: goarch, Caps: caps}
					program, err := p.Compile(target)
					if err != nil {
						t.Fatal(err)
					}
					vm := newVM(t, program)
					names := callNames(t, goarch)
					all := asks(p, goarch, names)
					verdicts := map[uint32]int{}
					for _, a := range all {
						got, want := run(t, vm, a), judge(p, target, names, a)
						if got != want {
							t.Fatalf("%v: %#x, want %#x", a, got, want)
						}
						verdicts[got]++
					}
					if len(verdicts) < 3 {
						t.Errorf("%d questions had only the answers %#x", len(all), verdicts)
					}
				})
			}
		}
	}
}

// The programs that libseccomp makes of the same profiles give the same answers
// (testdata/libseccomp.py).
func TestLibseccomp(t *testing.T) {
	files, err := filepath.Glob("testdata/libseccomp/*.bpf")
	if err != nil || len(files) != 8 {
		t.Fatalf("%d programs, %v", len(files), err)
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			t.Parallel()
			part := strings.Split(strings.TrimSuffix(filepath.Base(f), ".bpf"), "-")
			p := defaultProfile(t)
			if part[0] != "default" {
				p = fileProfile(t, "testdata/"+part[0]+".json")
			}
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			theirs := newVM(t, disassemble(t, b))
			filter, err := p.Filter(Target{Arch: part[1], Caps: capabilitySets()[part[2]]})
			if err != nil {
				t.Fatal(err)
			}
			ours := newVM(t, disassemble(t, filter.Program))
			t.Logf("%d instructions, libseccomp's has %d", len(filter.Program)/8, len(b)/8)
			for _, a := range asks(p, part[1], callNames(t, part[1])) {
				if got, want := run(t, ours, a), run(t, theirs, a); got != want {
					t.Fatalf("%v: %#x, libseccomp has %#x", a, got, want)
				}
			}
		})
	}
}

// disassemble reads struct sock_filter (linux/filter.h).
func disassemble(t testing.TB, b []byte) []bpf.Instruction {
	t.Helper()
	var raw []bpf.RawInstruction
	for ; len(b) >= table.FilterBytes; b = b[table.FilterBytes:] {
		raw = append(raw, bpf.RawInstruction{Op: binary.LittleEndian.Uint16(b), Jt: b[2], Jf: b[3], K: binary.LittleEndian.Uint32(b[4:])})
	}
	out, all := bpf.Disassemble(raw)
	if !all || len(out) == 0 {
		t.Fatalf("%d instructions, not all of them known", len(out))
	}
	return out
}

// randomProfile has so many rules with comparisons that conditional jumps do not reach.
func randomProfile(r *rand.Rand, names map[uint32]string, calls, perCall int) *Profile {
	actions := []string{"SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO", "SCMP_ACT_LOG", "SCMP_ACT_TRAP", "SCMP_ACT_KILL_PROCESS", "SCMP_ACT_KILL"}
	ops := []string{opEQ, opNE, opLT, opLE, opGT, opGE, opMaskedEQ}
	var all []string
	for _, n := range names {
		if n != "execve" {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	p := &Profile{DefaultAction: "SCMP_ACT_ALLOW"}
	for _, n := range all[:calls] {
		for range 1 + r.IntN(perCall) {
			one := Rule{Names: []string{n}, Action: actions[r.IntN(len(actions))]}
			if one.Action == "SCMP_ACT_ERRNO" {
				e := 1 + r.UintN(40)
				one.ErrnoRet = &e
			}
			for range r.IntN(4) {
				x := Arg{Index: r.UintN(6), Op: ops[r.IntN(len(ops))], Value: []uint64{r.Uint64(), r.Uint64N(4), 1 << 32, 1<<32 - 1}[r.IntN(4)]}
				if x.Op == opMaskedEQ {
					x.ValueTwo = x.Value & r.Uint64()
				}
				one.Args = append(one.Args, x)
			}
			p.Syscalls = append(p.Syscalls, one)
		}
	}
	return p
}

func TestRandomProfiles(t *testing.T) {
	far := 0
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 5))
		p := randomProfile(r, callNames(t, "amd64"), 1+r.IntN(60), 5)
		if err := p.check(); err != nil {
			t.Fatal(err)
		}
		for _, goarch := range Arches() {
			target := Target{Arch: goarch, Caps: []string{}}
			program, err := p.Compile(target)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range program {
				if j, ok := i.(bpf.Jump); ok && j.Skip > 255 {
					far++
				}
			}
			vm := newVM(t, program)
			names := callNames(t, goarch)
			list := asks(p, goarch, names)
			for range 10_000 {
				a := list[r.IntN(len(list))]
				if r.IntN(3) == 0 {
					a.args[r.IntN(arguments)] = r.Uint64()
				}
				if got, want := run(t, vm, a), judge(p, target, names, a); got != want {
					t.Fatalf("seed %d, %s: %v: %#x, want %#x", seed, goarch, a, got, want)
				}
			}
		}
	}
	if far == 0 {
		t.Error("no program had a jump over more than 255 instructions: nothing was proved of those")
	}
}

func TestKernelsLimit(t *testing.T) {
	p := &Profile{DefaultAction: "SCMP_ACT_ALLOW"}
	for v := range uint64(1500) {
		p.Syscalls = append(p.Syscalls, Rule{Name: "kill", Action: "SCMP_ACT_ERRNO", Args: []Arg{{Value: v, Op: opEQ}}})
		if v == 900 {
			if _, err := p.Compile(Target{Arch: "amd64"}); err != nil {
				t.Error(err)
			}
		}
	}
	_, err := p.Compile(Target{Arch: "amd64"})
	if err == nil || !strings.Contains(err.Error(), "the kernel takes 4096") {
		t.Errorf("%v", err)
	}
}

// A wrong program must not pass: one instruction of a right one is changed.
func TestTheInterpreterSeesAWrongProgram(t *testing.T) {
	p := defaultProfile(t)
	target := Target{Arch: "amd64", Caps: []string{}}
	program, err := p.Compile(target)
	if err != nil {
		t.Fatal(err)
	}
	changed, missed := 0, 0
	names := callNames(t, "amd64")
	list := asks(p, "amd64", names)
	for i, in := range program {
		j, ok := in.(bpf.JumpIf)
		if !ok {
			continue
		}
		j.Val++
		wrong := slices.Clone(program)
		wrong[i] = j
		vm := newVM(t, wrong)
		changed++
		if !slices.ContainsFunc(list, func(a ask) bool { return run(t, vm, a) != judge(p, target, names, a) }) {
			missed++
			t.Logf("instruction %d, %v, may as well be %v", i, in, j)
		}
	}
	if changed < 50 || missed > 2 {
		t.Errorf("%d of %d changed programs passed", missed, changed)
	}
}

// The numbers of system calls are libseccomp's; what it lacks is newer than it.
func TestNumbers(t *testing.T) {
	for _, goarch := range Arches() {
		m, err := machineOf(goarch)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile("testdata/libseccomp/calls-" + goarch + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		theirs, last := map[string]int{}, 0
		for line := range strings.Lines(string(b)) {
			var name string
			if _, err := fmt.Sscan(line, &last, &name); err != nil {
				t.Fatal(err)
			}
			theirs[name] = last
			if n, ok := m.calls[name]; !ok || n != last {
				t.Errorf("%s: %s is %d (%v), libseccomp has %d", goarch, name, n, ok, last)
			}
		}
		for name, n := range m.calls {
			if _, ok := theirs[name]; !ok && n <= last {
				t.Errorf("%s: libseccomp has no %s (%d)", goarch, name, n)
			}
		}
	}
}
