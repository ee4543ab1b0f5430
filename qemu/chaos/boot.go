package chaos

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"garboard.local/qemu"
	"garboard.local/qemu/powercut"
)

// The ceilings of waits, on an emulated machine.
const (
	checkCeiling = 3 * time.Minute // from the start to the guest's account, and on to its pods
	podCeiling   = 90 * time.Second
	workCeiling  = 4 * time.Minute // for the moment to come, or the work to be done
	endCeiling   = 2 * time.Minute // from the power button to the end
)

// machine runs boots on one disk.
type machine struct {
	qemu.Machine
	disk   *powercut.Disk
	ledger *Ledger
	port   int // of the registry
	// firstPull is the disk's moment when the last boot's first pull began.
	firstPull int
	stages    []stage
	say       func(format string, args ...any)
}

// boot is one run of the node.
type boot struct {
	*machine
	round Round
	vm    *qemu.VM
	lines chan qemu.Line

	pressed time.Time
	upped   bool
	events  map[string]int // how often each thing happened that a moment may refer to
}

// errCut says that the power went.
var errCut = errors.New("the power went")

// run boots the node for a round, and ends it. Losses are in the ledger; an
// error means that the harness could not do its work.
func (m *machine) run(ctx context.Context, r Round, log string) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	nonce := strings.ToLower(rand.Text())
	mm := m.Machine
	mm.Cmdline += fmt.Sprintf(" garboard.data=/dev/vda garboard.console=pods,services garboard.nonce=%s garboard.chaos.port=%d garboard.chaos.first=%d garboard.chaos.count=%d garboard.chaos.kills=%d",
		nonce, m.port, m.ledger.next, r.Kind.pulls(), r.Kills)
	mm.Log, mm.NoNetwork = log, r.Kind.pulls() == 0
	dir, err := os.MkdirTemp("", "garboard-disk-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "nbd")
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- m.disk.Serve(l) }()
	defer func() {
		l.Close()
		err = errors.Join(err, <-served)
	}()
	mm.Disks = []qemu.Disk{{Path: powercut.URL(socket)}}
	b := &boot{machine: m, round: r, lines: make(chan qemu.Line, 1<<16), events: map[string]int{}}
	mm.Output = func(l qemu.Line) { b.lines <- l }
	m.ledger.Boot(nonce)
	m.firstPull, m.stages = 0, []stage{{0, m.ledger.copy()}}
	m.disk.On()
	if b.vm, err = mm.Start(ctx); err != nil {
		m.disk.Freeze()
		return err
	}
	var once sync.Once
	end := func() (err error) { // the power goes: disk first, so that all that counts is in its cache
		once.Do(func() {
			m.disk.Freeze()
			err = b.vm.Close()
			for {
				select {
				case l := <-b.lines:
					m.ledger.Note(l)
				default:
					return
				}
			}
		})
		return err
	}
	defer end()
	if !mm.NoNetwork {
		if err := b.vm.SetLink(ctx, false); err != nil { // no cable until all was checked
			return err
		}
	}
	err = b.follow(ctx)
	if e := end(); err == nil || errors.Is(err, errCut) {
		err = e
	}
	return err
}

// follow reads the console until the round's moment and lets it happen.
func (b *boot) follow(ctx context.Context) error {
	var tripped <-chan struct{}
	moment := time.NewTimer(time.Hour)
	moment.Stop()
	if b.round.Kind == CutMaking {
		tripped = b.disk.Trip(b.round.Writes)
	}
	ceiling := time.NewTimer(checkCeiling)
	waitFor := "the guest's account of the images"
	armed := false
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		now := &b.ledger.now
		select {
		case l := <-b.lines:
			before := b.ledger.promises
			b.ledger.Note(l)
			b.count(l)
			if b.ledger.promises != before {
				b.stages = append(b.stages, stage{b.disk.Moment(), b.ledger.copy()})
			}
			if f := b.vm.Console.Fault(); f != nil {
				if f.Kind == qemu.FaultEmulator {
					b.say("%s: counted as a power cut", f.Kind)
					return errCut
				}
				b.ledger.lose("%s: %s", f.Kind, f.Line.Text)
				return nil
			}
			if !armed && b.due() {
				armed = true
				moment.Reset(b.round.After)
				if b.round.Writes > 0 && b.round.Kind.cut() && b.round.Kind != CutMaking {
					tripped = b.disk.Trip(b.round.Writes)
				}
			}
		case <-tripped:
			return errCut
		case <-moment.C:
			if b.round.Kind.cut() {
				return errCut
			}
			if err := b.press(ctx); err != nil {
				return err
			}
			ceiling.Reset(endCeiling)
			waitFor = "the end after the power button"
		case <-b.vm.Done():
			return b.ended()
		case <-ceiling.C:
			switch {
			case now.checked > 0 && !b.upped: // the pods had their time
				b.ledger.judgePods()
				if err := b.online(ctx, &ceiling, &waitFor); err != nil {
					return err
				}
			default:
				b.ledger.lose("waiting in vain for %s; PID 1's last line is %q", waitFor, b.ledger.lastOwn)
				return nil
			}
		case <-tick.C:
			switch {
			case !b.pressed.IsZero():
				if time.Since(b.pressed) > 2*time.Second && b.events["shutdown requested"] == 0 {
					if err := b.press(ctx); err != nil { // until its driver is there nobody hears it
						return err
					}
				}
			case now.checked > 0 && b.round.Kind == Liar:
				return nil
			case now.checked > 0 && !b.upped:
				if b.events["checked"] == 1 {
					b.events["checked"]++
					ceiling.Reset(podCeiling)
					waitFor = "the pods"
				}
				if len(b.ledger.missingPods()) == 0 {
					b.ledger.judgePods()
					if err := b.online(ctx, &ceiling, &waitFor); err != nil {
						return err
					}
				}
			case now.idle && b.round.Kind == Kills:
				if err := b.press(ctx); err != nil {
					return err
				}
				ceiling.Reset(endCeiling)
				waitFor = "the end after the power button"
			case now.idle && b.round.Kind != Kills && !armed:
				return errCut // it had less to do than was thought
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// count keeps b.events.
func (b *boot) count(l qemu.Line) {
	if own, ok := l.Own(); ok {
		b.events["own"]++
		if strings.HasPrefix(own, "shutdown requested by ") {
			b.events["shutdown requested"]++
		}
		return
	}
	if w := fields(l.Message); len(w) >= 3 && w[0] == "chaos:" && w[1] == b.ledger.nonce {
		if b.events[w[2]]++; w[2] == "pulling" && b.events[w[2]] == 1 {
			b.firstPull = b.disk.Moment()
		}
	}
}

// due says whether the event came from which the moment is counted.
func (b *boot) due() bool {
	r := b.round
	switch {
	case r.Kind == CutMaking, r.Kind == CutBoot, r.Kind == Button && r.Event == 0:
		return b.events["own"] > 0
	case r.Kind == CutPull, r.Kind == Button:
		return b.events["pulling"] >= r.Event
	case r.Kind == CutReport:
		return b.events["pulled"] >= r.Event
	case r.Kind == CutCreate:
		return b.events["pod"] >= r.Event
	}
	return false
}

// online plugs the network cable in: all was found without it.
func (b *boot) online(ctx context.Context, ceiling **time.Timer, waitFor *string) error {
	b.upped = true
	(*ceiling).Reset(workCeiling)
	*waitFor = "the pulls"
	if b.round.Kind == Look {
		(*ceiling).Reset(endCeiling)
		*waitFor = "the end after the power button"
		return b.press(ctx)
	}
	return b.vm.SetLink(ctx, true)
}

func (b *boot) press(ctx context.Context) error {
	b.pressed = time.Now()
	select {
	case <-b.vm.Done():
		return nil
	default:
		return b.vm.PowerButton(ctx)
	}
}

// ended judges a machine that ended by itself.
func (b *boot) ended() error {
	exit := b.vm.Wait()
	for len(b.lines) > 0 {
		b.ledger.Note(<-b.lines)
	}
	switch {
	case exit.Err != nil:
		return b.vm.Console.Failure(exit.Err, "QEMU failed")
	case exit.Panicked:
		b.ledger.lose("the kernel panicked")
	case b.pressed.IsZero():
		b.ledger.lose("the machine ended by itself (%s); PID 1's last line is %q", exit.Reason, b.ledger.lastOwn)
	case !exit.GuestShutdown:
		b.ledger.lose("the power button ended in %q", exit.Reason)
	case !b.ledger.now.clean:
		b.ledger.lose("the shutdown was not clean")
	}
	return nil
}
