// Package clock keeps the node's clock right in the background: SNTP (RFC 4330,
// RFC 5905 section 14) from whatever servers are known, a step at the first
// answer if the clock is off by more than a bit, the kernel's own slewing after
// that. Nothing waits for it, and it goes on for ever without an answer.
package clock

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/beevik/ntp"
	"golang.org/x/sys/unix"
)

const (
	// StepAbove is the offset above which the first answer sets the clock;
	// RFC 5905's STEPT.
	StepAbove = 128 * time.Millisecond
	// DoubtAbove is the offset above which a clock that was right already is only
	// set if the next round says so too: the kernel slews at most this far.
	DoubtAbove = 500 * time.Millisecond
	// Ahead is how far behind the build of the image a time may lie. A node that
	// is older than this has other troubles.
	Ahead = 30 * 365 * 24 * time.Hour

	pollMin   = 64 * time.Second
	pollMax   = 1024 * time.Second
	retryMin  = time.Second
	retryMax  = 5 * time.Minute
	doubtWait = 15 * time.Second
	askAtOnce = 4 // servers in one round
	remind    = time.Hour
)

// System is the machine's clock; Kernel is the real one.
type System interface {
	Now() time.Time
	// Step sets the clock to now plus d.
	Step(d time.Duration) error
	// Slew lets the kernel work off d, and tells it that the clock is right to
	// within maxErr; poll is the time to the next call.
	Slew(d, maxErr, poll time.Duration) error
}

// Keeper keeps one clock.
type Keeper struct {
	System  System
	Printf  func(format string, args ...any)
	Built   time.Time        // the clock is never set to before this
	Servers []string         // host or host:port; asked if there are none of higher rank
	Only    []string         // from the kernel command line: no others are asked
	Off     bool             // no server is asked
	Guard   func(who string) // deferred in each goroutine; may be nil

	// Ask and Resolve are the network; nil = the real one.
	Ask     func(ctx context.Context, address string) (*ntp.Response, error)
	Resolve func(ctx context.Context, host string) ([]string, error)
	// Sleep waits, or returns early when woken or at the end of ctx; nil = real time.
	Sleep func(ctx context.Context, d time.Duration, woken <-chan struct{}) error

	mu     sync.Mutex
	leased map[string][]string // by link, from DHCP
	wake   chan struct{}

	right  bool                 // the clock was set or confirmed since boot
	doubt  time.Duration        // a large offset that waits for confirmation
	avoid  map[string]time.Time // servers that asked to be left alone, until when
	silent time.Time            // when the failure of all servers was last said
}

// Leased takes the time servers of a link's lease (DHCP option 42) and asks at once.
func (k *Keeper) Leased(link string, servers []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.init()
	if had, known := k.leased[link]; known && slices.Equal(had, servers) {
		return
	}
	k.leased[link] = servers
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

func (k *Keeper) init() {
	if k.leased == nil {
		k.leased, k.avoid, k.wake = map[string][]string{}, map[string]time.Time{}, make(chan struct{}, 1)
	}
}

// list is who is asked, the best first: those of the command line and no
// others; else those of DHCP, then those of the image.
func (k *Keeper) list() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.Only) > 0 {
		return k.Only
	}
	var out []string
	for _, link := range sortedKeys(k.leased) {
		out = append(out, k.leased[link]...)
	}
	return append(out, k.Servers...)
}

// Run keeps the clock until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	k.mu.Lock()
	k.init()
	k.mu.Unlock()
	if k.Off {
		k.Printf("clock: no time server is asked")
		return
	}
	if k.Ask == nil {
		k.Ask = ask
	}
	if k.Resolve == nil {
		k.Resolve = resolve
	}
	if k.Sleep == nil {
		k.Sleep = sleep
	}
	if k.Guard == nil {
		k.Guard = func(string) {}
	}
	poll, retry := pollMin, retryMin
	for ctx.Err() == nil {
		answer, err := k.round(ctx)
		pause := poll
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			k.complain(err)
			pause, retry = retry, min(2*retry, retryMax)
		default:
			retry, k.silent = retryMin, time.Time{}
			if k.adjust(answer, poll) {
				poll = min(2*poll, pollMax)
			} else {
				pause, poll = doubtWait, pollMin
			}
		}
		if k.Sleep(ctx, pause, k.wake) != nil {
			return
		}
	}
}

// complain says at the first failure and then once an hour that there is no answer.
func (k *Keeper) complain(err error) {
	now := k.System.Now()
	if since := now.Sub(k.silent); !k.silent.IsZero() && since >= 0 && since < remind {
		return
	}
	k.silent = now
	k.Printf("clock: no time from a server yet (%s); goes on trying", strings.ReplaceAll(err.Error(), "\n", "; "))
}

// adjust acts on an answer. It says whether the clock is right now; if not, the
// next round decides.
func (k *Keeper) adjust(a answer, poll time.Duration) bool {
	off := a.Offset
	step := !k.right && off.Abs() > StepAbove
	if k.right && off.Abs() > DoubtAbove {
		if k.doubt == 0 || (off-k.doubt).Abs() > DoubtAbove {
			k.doubt = off
			k.Printf("clock: off by %s, says %s: asking again in %s before it is set", round(off), a.Server, doubtWait)
			return false
		}
		step = true
	}
	k.doubt = 0
	if step {
		if err := k.System.Step(off); err != nil {
			k.Printf("clock: set by %s: %v", round(off), err)
			return false
		}
		k.Printf("clock: set by %s to %s, from %s", round(off), k.System.Now().UTC().Format(time.RFC3339), a.Server)
		off = 0
	} else if !k.right {
		k.Printf("clock: right, off by %s, says %s", round(off), a.Server)
	}
	k.right = true
	if err := k.System.Slew(off, a.MaxErr, poll); err != nil {
		k.Printf("clock: slew by %s: %v", round(off), err)
	}
	return true
}

// round brings an offset to a precision worth reading.
func round(d time.Duration) time.Duration {
	if d.Abs() > time.Minute {
		return d.Round(time.Second)
	}
	return d.Round(100 * time.Microsecond)
}

// Kernel is the machine's clock.
type Kernel struct{}

// Now is the time of day.
func (Kernel) Now() time.Time { return time.Now() }

// Step sets the clock.
func (Kernel) Step(d time.Duration) error {
	ts := unix.NsecToTimespec(time.Now().Add(d).UnixNano())
	if err := unix.ClockSettime(unix.CLOCK_REALTIME, &ts); err != nil {
		return fmt.Errorf("clock_settime: %w", err)
	}
	return nil
}

// Slew hands the offset to the kernel's phase-locked loop (adjtimex(2)). As the
// clock counts as synchronised then, the kernel keeps the hardware clock right too.
func (Kernel) Slew(d, maxErr, poll time.Duration) error {
	_, err := unix.Adjtimex(slew(d, maxErr, poll))
	if err != nil {
		return fmt.Errorf("adjtimex: %w", err)
	}
	return nil
}

func slew(d, maxErr, poll time.Duration) *unix.Timex {
	d = max(min(d, DoubtAbove), -DoubtAbove)
	t := &unix.Timex{
		Modes:  unix.ADJ_OFFSET | unix.ADJ_MAXERROR | unix.ADJ_ESTERROR | unix.ADJ_STATUS | unix.ADJ_TIMECONST | unix.ADJ_NANO,
		Status: unix.STA_PLL,
	}
	t.Offset = int64(d)
	t.Maxerror, t.Esterror = maxErr.Microseconds(), d.Abs().Microseconds()
	// The loop's time constant is log2 of the polling interval, less 4.
	t.Constant = int64(max(0, bits.Len64(uint64(poll/time.Second))-1-4))
	return t
}

var errNoServer = errors.New("no server is known: none in the image, on the kernel command line or from DHCP")
