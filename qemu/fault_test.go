package qemu

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestFaultOf(t *testing.T) {
	const int3 = "[    2.500000] Oops: int3: 0000 [#1] PREEMPT SMP NOPTI"
	const timer = "[  127.391301] rcu: \tPossible timer handling issue on cpu=1 timer-softirq=2"
	for _, tt := range []struct {
		name, line string
		mttcg      bool
		want       FaultKind
	}{
		{"the emulator's fault", int3, true, FaultEmulator},
		{"the same line without the emulator's threads is the kernel's", int3, false, FaultOops},
		{"a CPU's timer does not fire", timer, true, FaultEmulator},
		{"the same without the emulator's threads", timer, false, FaultTimer},
		{"a pod that prints it", "[    9.000000] default/x-node/x: rcu: \tPossible timer handling issue on cpu=1 timer-softirq=2", true, ""},
		{"a stall is no such thing", "[   23.386301] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:", true, ""},
		{"a second oops is not the signature", "[    2.500000] Oops: int3: 0000 [#2] PREEMPT SMP NOPTI", true, FaultOops},
		{"another oops", "[    2.500000] Oops: general protection fault, probably for non-canonical address 0x1: 0000 [#1] PREEMPT SMP NOPTI", true, FaultOops},
		{"other words behind it", int3 + " and more", true, FaultOops},
		{"without the kernel's stamp", "Oops: int3: 0000 [#1] PREEMPT SMP NOPTI", true, FaultOops},
		{"an older kernel's oops", "[    2.500000] general protection fault: 0000 [#1] SMP", true, FaultOops},
		{"bad page", "[    3.000000] BUG: unable to handle page fault for address: ffff", true, FaultOops},
		{"arm64's oops", "[    3.000000] Internal error: Oops: 0000000096000004 [#1] SMP", false, FaultOops},
		{"panic", "[    4.000000] Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000009", true, FaultPanic},
		{"missing root", "[    2.000000] Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)", true, FaultPanic},
		{"PID 1", "[    2.000000] garboard: fatal: root image /root.erofs: no such file", true, FaultInit},
		{"PID 1 goes down for want of a root", "[    2.000000] garboard: shutdown requested by PID 1: reboot", true, FaultInit},
		{"PID 1 is asked to go down", "[    2.000000] garboard: shutdown requested by power button: power-off", true, ""},
		{"PID 1 panics", "garboard: panic: runtime error", true, FaultInit},
		{"PID 1 is well", "[    2.000000] garboard: shutdown: clean", true, ""},
		{"PID 1 quotes a panic", "[    2.000000] garboard: service x: exited: Kernel panic - not syncing: no", true, ""},
		{"a pod that prints a panic", "[    9.000000] default/x-node/x: Kernel panic - not syncing: ha", true, ""},
		{"a pod that prints the signature", "[    9.000000] default/x-node/x: Oops: int3: 0000 [#1] PREEMPT SMP NOPTI", true, ""},
		{"a pod that prints PID 1's end", "[    9.000000] default/x-node/x: garboard: fatal: ha", true, ""},
		{"a slow host", "[   90.000000] watchdog: BUG: soft lockup - CPU#0 stuck for 22s!", true, ""},
		{"the command line", "[    0.000000] Command line: console=ttyS0 panic=-1", true, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := FaultKind("")
			if f := faultOf(ParseLine(tt.line, time.Time{}), tt.mttcg); f != nil {
				got = f.Kind
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestRepeat(t *testing.T) {
	emulator := &ConsoleError{Fault: &Fault{Kind: FaultEmulator}}
	panicked := &ConsoleError{Fault: &Fault{Kind: FaultPanic}}
	other := errors.New("other")
	for _, tt := range []struct {
		name   string
		runs   []error
		faults int
		err    error
		said   int
	}{
		{"good at once", []error{nil}, 0, nil, 0},
		{"repeated", []error{emulator, fmt.Errorf("wrapped: %w", emulator), nil}, 2, nil, 2},
		{"another error is final", []error{other}, 0, other, 0},
		{"a panic is final", []error{panicked}, 0, panicked, 0},
		{"an error after a fault is final", []error{emulator, other}, 1, other, 1},
		{"not for ever", []error{emulator, emulator, emulator}, 3, emulator, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n, said := 0, 0
			faults, err := Repeat(2, func(string, ...any) { said++ }, func() error { n++; return tt.runs[n-1] })
			if faults != tt.faults || err != tt.err || n != len(tt.runs) || said != tt.said {
				t.Errorf("%d faults, error %v, %d runs, said %d times; want %d, %v, %d, %d", faults, err, n, said, tt.faults, tt.err, len(tt.runs), tt.said)
			}
		})
	}
}
