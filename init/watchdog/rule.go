package watchdog

import (
	"fmt"
	"time"
)

// Runtime is what is known of the container runtime at one moment.
type Runtime int

// The states of a runtime. Down is one that starts, is in back-off or does not
// exist: the supervisor takes care of it, and a reset would cure neither a wrong
// configuration nor a missing program, but end what still runs.
const (
	Down Runtime = iota
	Answers
	Silent // says it is ready, and does not answer
)

// The rule's limits.
const (
	CoreLimit    = 45 * time.Second // PID 1's loops have not turned for this long: not fed
	RestartAfter = 2 * time.Minute  // a runtime silent for this long is restarted
	SilentLimit  = 5 * time.Minute  // ... and if that did not help it: not fed
	RuntimeLimit = 10 * time.Minute // with the option "runtime": not fed without an answer for this long
	EndMargin    = 30 * time.Second // a shutdown that takes this much longer than its ceiling: not fed
)

// Rule decides whether the watchdog is fed. Its methods are called in turn.
type Rule struct {
	Strict  bool   // Config.Runtime
	Restart func() // restarts the runtime
	Printf  func(format string, args ...any)

	core      time.Time // last turn of PID 1's loops
	answered  time.Time // the runtime's last answer, or the beginning
	silent    time.Time // since when it is silent; zero: is not
	restarted bool      // in this silence
	end       time.Time // when the shutdown must be over; zero: none
	why       string
}

// NewRule begins at now, with all in order.
func NewRule(now time.Time) *Rule { return &Rule{core: now, answered: now} }

// Turned says that PID 1's loops have turned.
func (r *Rule) Turned(now time.Time) { r.core = now }

// Saw says what the runtime is at now.
func (r *Rule) Saw(rt Runtime, now time.Time) {
	switch rt {
	case Answers:
		r.answered, r.silent, r.restarted = now, time.Time{}, false
	case Down:
		r.silent, r.restarted = time.Time{}, false
	case Silent:
		if r.silent.IsZero() {
			r.silent = now
		}
		if r.end.IsZero() && !r.restarted && now.Sub(r.silent) >= RestartAfter {
			r.restarted = true
			r.Printf("watchdog: the runtime has not answered for %s: restarting it", RestartAfter)
			r.Restart()
		}
	}
}

// Ends says that a shutdown has begun that takes at most ceiling.
func (r *Rule) Ends(ceiling time.Duration, now time.Time) {
	if r.end.IsZero() {
		r.end = now.Add(ceiling + EndMargin)
	}
}

// Feed decides. It says on the console when it begins to refuse.
func (r *Rule) Feed(now time.Time) bool {
	why := r.refuse(now)
	if why != "" && r.why == "" {
		r.Printf("watchdog: not fed any more, the machine will reset: %s", why)
	}
	if why == "" && r.why != "" {
		r.Printf("watchdog: fed again")
	}
	r.why = why
	return why == ""
}

func (r *Rule) refuse(now time.Time) string {
	switch {
	case now.Sub(r.core) > CoreLimit:
		return fmt.Sprintf("PID 1's loops have not turned for %s", now.Sub(r.core).Round(time.Second))
	case !r.end.IsZero():
		// The runtime ends like everything else; only the ceiling counts.
		if now.After(r.end) {
			return "the shutdown has not come to its end"
		}
	case !r.silent.IsZero() && now.Sub(r.silent) >= SilentLimit:
		return fmt.Sprintf("the runtime is silent since %s, and restarting it did not help", SilentLimit)
	case r.Strict && now.Sub(r.answered) >= RuntimeLimit:
		return fmt.Sprintf("no answer of the runtime for %s", RuntimeLimit)
	}
	return ""
}
