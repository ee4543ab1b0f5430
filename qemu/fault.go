package qemu

import (
	"fmt"
	"regexp"
	"strings"
)

// Int3Signature is one of two faults that are the emulator's and not the guest's:
// QEMU 7.2's multi-threaded TCG lets a virtual CPU execute the breakpoint byte
// that the kernel writes while it patches its own code (static keys; about when
// the first cgroups are made), and the kernel answers with exactly this line as
// its first oops. It is taken for the emulator's only under TCG with more than
// one virtual CPU; anywhere else the same line is the kernel's own fault.
var Int3Signature = regexp.MustCompile(`^Oops: int3: 0000 \[#1\](?: [A-Z_]+(?:\([a-z]+\))?)*$`)

// TimerSignature is the other: the timer of a virtual CPU never fires, so nothing
// that sleeps on that CPU wakes up; the kernel's own thread for RCU is what notices,
// after 21 s. Seen with QEMU 10.0 in one of some hundred boots, on a host whose CPUs
// were wanted by others. No program of a node can keep a CPU's timer from firing, but
// a kernel could be at fault: elsewhere than under such a TCG it is taken for that.
var TimerSignature = regexp.MustCompile(`^rcu:\s+Possible timer handling issue on cpu=\d+ timer-softirq=\d+$`)

var (
	panicLine = regexp.MustCompile(`^Kernel panic - not syncing: `)
	oopsLine  = regexp.MustCompile(`^(?:Oops: |BUG: unable to handle |kernel BUG at |(?:general protection fault|invalid opcode|int3|divide error|stack segment|double fault)[^\[]{0,80}: [0-9a-f]{4} \[#\d+\]|Internal error: )`)
	// PID 1 goes down on its own account only after a fault: a boot phase without
	// which there is no node (the root image is missing), or a panic of its own.
	fatalLine = regexp.MustCompile(`^(?:(?:fatal|panic)\b|shutdown requested by PID 1: )`)
)

// FaultKind says who failed.
type FaultKind string

const (
	FaultEmulator FaultKind = "a known fault of the emulator"
	FaultTimer    FaultKind = "a CPU without a timer"
	FaultPanic    FaultKind = "kernel panic"
	FaultOops     FaultKind = "kernel oops"
	FaultInit     FaultKind = "PID 1 gave up"
)

// Fault is a line after which the node cannot be trusted any more.
type Fault struct {
	Kind FaultKind
	Line Line
}

// faultOf judges one line. A container cannot forge a fault: its lines begin
// with its name, and every rule is anchored at the line's begin.
func faultOf(l Line, mttcg bool) *Fault {
	if own, ok := l.Own(); ok {
		if fatalLine.MatchString(own) {
			return &Fault{FaultInit, l}
		}
		return nil
	}
	switch {
	case mttcg && l.Stamp >= 0 && (Int3Signature.MatchString(l.Message) || TimerSignature.MatchString(l.Message)):
		return &Fault{FaultEmulator, l}
	case l.Stamp >= 0 && TimerSignature.MatchString(l.Message):
		return &Fault{FaultTimer, l}
	case panicLine.MatchString(l.Message):
		return &Fault{FaultPanic, l}
	case oopsLine.MatchString(l.Message):
		return &Fault{FaultOops, l}
	}
	return nil
}

// TailLines is how many of the console's last lines an error carries.
const TailLines = 60

// ConsoleError is a wait on the console that failed, with the console's tail.
type ConsoleError struct {
	Fault *Fault // nil if the wait failed otherwise
	What  string // what went wrong, in one line
	Err   error  // a context's error, or nil
	Tail  []Line
}

func (e *ConsoleError) Error() string {
	var b strings.Builder
	b.WriteString(e.What)
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	fmt.Fprintf(&b, "\nlast %d lines of the console:\n", len(e.Tail))
	for _, l := range e.Tail {
		fmt.Fprintf(&b, "  | %s\n", l.Text)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (e *ConsoleError) Unwrap() error { return e.Err }
