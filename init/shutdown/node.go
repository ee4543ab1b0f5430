package shutdown

import (
	"context"
	"time"
)

// Mode is how a shutdown ends.
type Mode int

// The modes.
const (
	PowerOff Mode = iota
	Reboot
)

func (m Mode) String() string { return [...]string{"power-off", "reboot"}[m] }

// Request asks for the node's end.
type Request struct {
	Mode  Mode
	Who   string
	Now   bool   // without grace
	Fault string // what went wrong in PID 1, if that is the reason; makes it unclean
}

// Outcome is how the wait for the kubelet's lock ended.
type Outcome int

// The outcomes.
const (
	NoHolder Outcome = iota
	Continued
	Closed
	TimedOut
)

// Lock is the kubelet's say in a shutdown (the system socket).
type Lock interface {
	Begin()                              // tell everyone that the node goes down
	WaitHolder(ctx context.Context) bool // until the kubelet is connected
	Wait(ctx context.Context) Outcome    // until it is done
}

// Boot is the boot, which may not be over when the end is asked for.
type Boot interface {
	Stop()                         // no further phase is begun
	Running() string               // names of the phases that run, or ""
	Wait(ctx context.Context) bool // until none does
}

// Services are the processes PID 1 supervises.
type Services interface {
	NoMoreRestarts()                               // and let go on what somebody has stopped
	KubeletAge() time.Duration                     // since its process was started
	KubeletAlive() bool                            // has a process, or will be given one once more
	WaitKubeletDead(ctx context.Context)           // until it has none and will get none
	StopKubelet(ctx context.Context) (killed bool) // SIGTERM, its grace, SIGKILL; ctx cuts the grace short
	StopOthers(ctx context.Context) (killed bool)  // those without a role
	StopRuntime(ctx context.Context) (killed bool) //
	Close() error                                  // logs
}

// Pods are the containers' processes.
type Pods interface {
	Left() bool
	Signal(kill bool) int // SIGTERM or SIGKILL to all, returns to how many
	WaitGone(ctx context.Context) bool
}

// Machine is the rest of what a shutdown does to the node.
type Machine interface {
	Grace() (time.Duration, error) // what the kubelet has asked for
	KillAll(kill bool)             // every process but PID 1
	WaitAlone(ctx context.Context) bool
	DrainLogs(ctx context.Context) // what pods said last, to the console
	CloseAll()                     // sockets and watchers of PID 1
	Sync()
	Unmount(expired <-chan struct{}) (unclean []string)
	Survivors() string     // names the processes that are left, for the console
	ReadOnly()             // whatever is still mounted for writing, anywhere: the last resort
	Flush(d time.Duration) // the console
	End(m Mode)            // reboot(2); returns only if it failed
}

// Limits are the ceilings of the waits.
type Limits struct {
	Boot           time.Duration // for the phases of the boot that run
	KubeletSettled time.Duration // a kubelet this old that is not connected has no shutdown manager, or has lost its way ...
	KubeletAgain   time.Duration // ... and is given only this long
	KubeletStart   time.Duration // a kubelet that runs or is started once more may take this long to connect
	KubeletDefault time.Duration // its grace if it has left no figure
	KubeletMargin  time.Duration // on top of its grace
	Pods           time.Duration // between SIGTERM and SIGKILL where PID 1 ends pods itself
	PodsLate       time.Duration // the same after the kubelet had its whole grace
	Term, Kill     time.Duration // for all processes, at the end
	Drain          time.Duration
	Sync           time.Duration
	ReadOnly       time.Duration
	Unmount        time.Duration
	Services       time.Duration // all services' graces together
	Hurry          time.Duration // what is left of any wait once somebody hurries
	Again          time.Duration // a request this long after the first is a second one, not an echo
}

// DefaultLimits are the node's.
func DefaultLimits() Limits {
	return Limits{
		Boot: 5 * time.Second, KubeletSettled: time.Minute, KubeletAgain: 2 * time.Second,
		KubeletStart: 10 * time.Second, KubeletDefault: 40 * time.Second, KubeletMargin: 10 * time.Second,
		Pods: 20 * time.Second, PodsLate: 3 * time.Second, Term: 5 * time.Second, Kill: 3 * time.Second,
		Drain: 2 * time.Second, Sync: 10 * time.Second, ReadOnly: 2 * time.Second, Unmount: 15 * time.Second, Services: 60 * time.Second,
		Hurry: 2 * time.Second, Again: 3 * time.Second,
	}
}

// Total is the ceiling over everything, for a kubelet with that grace.
func (l Limits) Total(grace time.Duration) time.Duration {
	const rest = 10 * time.Second // of steps that have limits of their own and take none of it
	return l.Boot + l.KubeletStart + grace + l.KubeletMargin + l.Pods + l.Services + l.Term + l.Kill + 2*l.Drain + l.Sync + l.Unmount + l.ReadOnly + rest
}
