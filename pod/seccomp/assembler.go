package seccomp

import (
	"slices"

	"golang.org/x/net/bpf"
)

// assembler writes a program from its end to its beginning: programs only jump
// forward, so that every place a jump leads to is known when it is written.
type assembler struct {
	code []bpf.Instruction // the last one first
	rets map[uint32]label
}

// label is a place in a program: the instructions from it to the end.
type label int

// reach is how far a conditional jump can be from its target. It is 255; one
// less leaves room for the other branch's own jump in between.
const reach = 254

// maxCopies is how far away a return is used again instead of written again.
const maxCopies = 200

func (a *assembler) put(i bpf.Instruction) label {
	a.code = append(a.code, i)
	return label(len(a.code))
}

// here puts control at a place: nothing, if it is the next one already.
func (a *assembler) here(l label) {
	if int(l) != len(a.code) {
		a.put(bpf.Jump{Skip: uint32(len(a.code) - int(l))})
	}
}

// load puts a word of struct seccomp_data into the accumulator.
func (a *assembler) load(offset uint32, then label) label {
	a.here(then)
	return a.put(bpf.LoadAbsolute{Off: offset, Size: 4})
}

// and masks the accumulator.
func (a *assembler) and(mask uint32, then label) label {
	a.here(then)
	return a.put(bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: mask})
}

// ret ends the program.
func (a *assembler) ret(value uint32) label {
	if l, ok := a.rets[value]; ok && len(a.code)-int(l) < maxCopies {
		return l
	}
	if a.rets == nil {
		a.rets = map[uint32]label{}
	}
	a.rets[value] = a.put(bpf.RetConstant{Val: value})
	return a.rets[value]
}

// branch goes to one of two places. Where one is too far away for the 8 bits
// of a conditional jump, a jump of 32 bits comes between.
func (a *assembler) branch(test bpf.JumpTest, value uint32, yes, no label) label {
	if yes == no {
		return yes
	}
	for _, l := range []*label{&yes, &no} {
		if len(a.code)-int(*l) > reach {
			*l = a.put(bpf.Jump{Skip: uint32(len(a.code) - int(*l))})
		}
	}
	return a.put(bpf.JumpIf{Cond: test, Val: value, SkipTrue: uint8(len(a.code) - int(yes)), SkipFalse: uint8(len(a.code) - int(no))})
}

// program is what was written, in its order.
func (a *assembler) program() []bpf.Instruction {
	out := slices.Clone(a.code)
	slices.Reverse(out)
	return out
}
