package seccomp

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/net/bpf"

	"garboard.local/init/table"
)

// Where a program finds what it judges: struct seccomp_data of linux/seccomp.h.
// Both architectures are little-endian: of an argument the low word comes first.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
)

// Filter compiles a profile for a target, as the node's table has it.
func (p *Profile) Filter(t Target) (*table.Seccomp, error) {
	program, err := p.Compile(t)
	if err != nil {
		return nil, err
	}
	raw, err := bpf.Assemble(program)
	if err != nil {
		return nil, fmt.Errorf("assemble: %w", err)
	}
	f := &table.Seccomp{}
	for _, name := range p.Flags {
		bit, err := flag(name)
		if err != nil {
			return nil, err
		}
		f.Flags |= bit
	}
	for _, i := range raw { // struct sock_filter, linux/filter.h
		f.Program = append(binary.LittleEndian.AppendUint16(f.Program, i.Op), i.Jt, i.Jf)
		f.Program = binary.LittleEndian.AppendUint32(f.Program, i.K)
	}
	return f, nil
}

// Compile makes the program: the architecture, then a binary search for the
// number of the call, then the comparisons of its arguments.
func (p *Profile) Compile(t Target) ([]bpf.Instruction, error) {
	m, err := machineOf(t.Arch)
	if err != nil {
		return nil, err
	}
	calls, rest, err := p.calls(m, t)
	if err != nil {
		return nil, err
	}
	if err := startable(m, calls, rest); err != nil {
		return nil, err
	}
	var a assembler
	ranges := spans(calls, rest)
	start := a.search(ranges)
	if m.x32 {
		// -1 is what a tracer leaves to have a call skipped; see seccomp(2).
		foreign := a.branch(bpf.JumpEqual, 0xffff_ffff, a.ret(rest), a.ret(retKillThread))
		start = a.branch(bpf.JumpGreaterOrEqual, x32Bit, foreign, start)
	}
	start = a.load(offNumber, start)
	start = a.branch(bpf.JumpEqual, m.audit, start, a.ret(retKillThread))
	a.load(offArch, start)
	program := a.program()
	if len(program) > table.MaxFilter {
		return nil, fmt.Errorf("it makes a program of %d instructions for %s, and the kernel takes %d; give it fewer rules with args", len(program), t.Arch, table.MaxFilter)
	}
	return program, nil
}

// startable demands that the service's program can be executed, which happens
// with the filter in place.
func startable(m machine, calls map[int]*call, rest uint32) error {
	act, cases := rest, 0
	if c := calls[m.calls["execve"]]; c != nil {
		act, cases = c.rest, len(c.cases)
	}
	if cases == 0 && act != retAllow && act != retLog {
		return fmt.Errorf("it does not allow execve, by which a service's program is started with the filter in place")
	}
	return nil
}

// span is a row of system calls, from a number up to the next span, with one answer.
type span struct {
	from uint32
	call *call
}

// spans covers all numbers.
func spans(calls map[int]*call, rest uint32) []span {
	out := []span{{0, &call{rest: rest}}}
	add := func(from int, c *call) {
		last := &out[len(out)-1]
		switch {
		case uint32(from) == last.from:
			last.call = c
		case len(c.cases) > 0 || len(last.call.cases) > 0 || c.rest != last.call.rest:
			out = append(out, span{uint32(from), c})
		}
	}
	for _, n := range slices.Sorted(maps.Keys(calls)) {
		add(n, calls[n])
		if calls[n+1] == nil {
			add(n+1, &call{rest: rest})
		}
	}
	return out
}

// search finds the span of the number in the accumulator.
func (a *assembler) search(s []span) label {
	if len(s) == 1 {
		return a.call(s[0].call)
	}
	half := len(s) / 2
	high := a.search(s[half:])
	low := a.search(s[:half])
	return a.branch(bpf.JumpGreaterOrEqual, s[half].from, high, low)
}

// call tries the cases of a call in their order.
func (a *assembler) call(c *call) label {
	next := a.ret(c.rest)
	for _, one := range slices.Backward(c.cases) {
		then := a.ret(one.action)
		for _, x := range slices.Backward(one.args) {
			then = a.compare(x, then, next)
		}
		next = then
	}
	return next
}

// compare goes on at yes or no; it needs nothing in the accumulator.
func (a *assembler) compare(x Arg, yes, no label) label {
	low := offArgs + 8*uint32(x.Index)
	high := low + 4
	lo, hi := uint32(x.Value), uint32(x.Value>>32)
	switch x.Op {
	case opNE:
		x.Op, yes, no = opEQ, no, yes
	case opLT:
		x.Op, yes, no = opGE, no, yes
	case opLE:
		x.Op, yes, no = opGT, no, yes
	}
	switch x.Op {
	case opMaskedEQ:
		second := a.load(low, a.and(lo, a.branch(bpf.JumpEqual, uint32(x.ValueTwo), yes, no)))
		return a.load(high, a.and(hi, a.branch(bpf.JumpEqual, uint32(x.ValueTwo>>32), second, no)))
	case opEQ:
		second := a.load(low, a.branch(bpf.JumpEqual, lo, yes, no))
		return a.load(high, a.branch(bpf.JumpEqual, hi, second, no))
	}
	test := bpf.JumpGreaterThan
	if x.Op == opGE {
		test = bpf.JumpGreaterOrEqual
	}
	second := a.load(low, a.branch(test, lo, yes, no))
	equal := a.branch(bpf.JumpEqual, hi, second, no)
	return a.load(high, a.branch(bpf.JumpGreaterThan, hi, yes, equal))
}
