package chaos

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"garboard.local/qemu/powercut"
)

// Kind is what a round does to the node.
type Kind string

const (
	CutMaking Kind = "cut while the disk is made" // a new disk, at one of its first writes
	CutBoot   Kind = "cut during the boot"
	CutPull   Kind = "cut during a pull"
	CutReport Kind = "cut after a pull's report"
	CutCreate Kind = "cut during container creation"
	Kills     Kind = "kills"
	Button    Kind = "power button"
	// Look ends a chain: all is looked at on a machine without a network card,
	// and the power button pressed.
	Look Kind = "last look"
	// Liar is a look at the disk of the control.
	Liar Kind = "lying disk"
)

func (k Kind) cut() bool {
	switch k {
	case Kills, Button, Look, Liar:
		return false
	}
	return true
}

// pulls says how many images the node is to pull at most.
func (k Kind) pulls() int {
	switch k {
	case Look, Liar:
		return 0
	case Kills:
		return killPulls
	}
	return maxPulls
}

// Round is one boot and how it ends.
type Round struct {
	Number int
	Kind   Kind
	// NewDisk begins another chain.
	NewDisk bool
	// The moment: After an event (the Event-th of its kind), or at the Writes-th
	// write after it if that comes first; Writes 0: time alone counts.
	Event  int
	After  time.Duration
	Writes int64
	Model  powercut.Model // what becomes of the disk's cache
	Kills  int
	// Control has the disk remembered as it was before the first pull; see
	// runner.control.
	Control bool

	random *rand.Rand
}

func (r Round) moment() string {
	d := r.After.Round(10 * time.Millisecond)
	at := fmt.Sprintf("%s after ", d)
	if r.Writes > 0 {
		at = fmt.Sprintf("%d writes or %s after ", r.Writes, d)
	}
	switch r.Kind {
	case CutMaking:
		return at + "PID 1's first line"
	case CutBoot:
		return at + "PID 1's first line"
	case CutPull:
		return at + fmt.Sprintf("pull %d began", r.Event)
	case CutReport:
		return at + fmt.Sprintf("pull %d was reported", r.Event)
	case CutCreate:
		return at + fmt.Sprintf("pod %d was asked for", r.Event)
	case Kills:
		return fmt.Sprintf("%d at random moments of %d pulls", r.Kills, killPulls)
	case Button:
		if r.Event == 0 {
			return at + "PID 1's first line"
		}
		return at + fmt.Sprintf("pull %d began", r.Event)
	}
	return ""
}

const (
	maxPulls  = 8 // of one boot; the moment comes earlier
	killPulls = 4
)

// Plan draws the rounds: cuts power cuts, and among them kills and shutdowns.
func Plan(seed uint64, cuts int) []Round {
	var out []Round
	add := func(r Round) {
		r.Number = len(out) + 1
		r.random = rand.New(rand.NewPCG(seed, uint64(r.Number)))
		r.draw()
		out = append(out, r)
	}
	kinds := []Kind{CutReport, CutPull, CutCreate, CutReport, CutBoot} // in turn, so that few rounds see most
	for i := range cuts {
		kind := kinds[(i+int(seed%5))%len(kinds)]
		if i%10 == 0 {
			kind = CutMaking
		}
		add(Round{Kind: kind, NewDisk: i%10 == 0})
		if i%5 == 4 {
			add(Round{Kind: Button})
			add(Round{Kind: Kills})
		}
	}
	if cuts%5 != 0 { // the chain ends with what the loop did not reach
		if cuts > 2 { // the short run ends with the button anyway
			add(Round{Kind: Button})
		}
		add(Round{Kind: Kills})
	}
	for i := range out {
		if j := len(out) - 1 - i; out[j].Kind == Kills {
			out[j].Control = true
			break
		}
	}
	return out
}

// draw fills in the moment.
func (r *Round) draw() {
	x := r.random
	r.Model = powercut.Pick(x)
	within := func(d time.Duration) time.Duration { return time.Duration(x.Int64N(int64(d))) }
	// Small numbers are as likely as large ones: order of magnitude first.
	writes := func(most float64) int64 { return int64(math.Exp(x.Float64() * math.Log(most))) }
	switch r.Kind {
	case CutMaking:
		r.Writes, r.After = writes(400), 2*time.Second+within(4*time.Second)
	case CutBoot:
		r.After = within(14 * time.Second)
	case CutPull:
		r.Event, r.After, r.Writes = 1+x.IntN(4), within(3*time.Second), writes(300)
	case CutReport:
		r.Event, r.After, r.Writes = 1+x.IntN(4), within(1500*time.Millisecond), writes(100)
	case CutCreate:
		r.Event, r.After, r.Writes = 1+x.IntN(3), within(4*time.Second), writes(300)
	case Button:
		if r.Event = x.IntN(3); r.Event == 0 {
			r.After = within(12 * time.Second)
		} else {
			r.After = within(3 * time.Second)
		}
	case Kills:
		r.Kills = 3
	}
	if x.IntN(2) == 0 && r.Kind != CutMaking {
		r.Writes = 0
	}
}
