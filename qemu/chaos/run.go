package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"garboard.local/qemu"
	"garboard.local/qemu/powercut"
)

// Options are what a run needs.
type Options struct {
	Machine qemu.Machine // boots recipes/chaos.yaml; disks, log and output are set here
	Payload []byte       // the program images/chaosload, for the machine's architecture
	Command Command      // the host tool e2fsck
	Seed    uint64
	Cuts    int    // power cuts
	Dir     string // for consoles, and the disks of rounds that lost something
	DiskMiB int64  // 1024
	Points  int    // of each boot, further moments whose disk is judged from outside
	// Around, if set, is called around each boot, for whoever has to share the
	// machine; it returns what is called after it.
	Around func(ctx context.Context) (func(), error)
	Say    func(format string, args ...any)
}

// Outcome is what became of one round. What a round lost is found partly in
// itself and partly by the boot after it: that names the round in Losses.
type Outcome struct {
	Round
	Ended        string // what happened to the disk, or how it went down
	Images, Pods int    // promised at the end
	Points       int    // further cuts of the same boot, judged from outside
	Losses       []string
	Took         time.Duration
}

// run is the state of a whole run.
type runner struct {
	Options
	registry *Registry
	m        *machine
	outcomes []Outcome
	// controlled is what the control saw lost.
	controlled []string
	// spoilt says that a boot found losses: what comes after them on the same
	// disk (layers on a truncated one, a node that does not boot) is no news.
	spoilt bool
}

// Run carries out the plan, and among it proves on a disk that lies about its
// flushes that losses are seen. After a boot that found losses the chain begins
// anew on another disk. Run returns what was tried and lost; the error is about
// the harness alone.
func Run(ctx context.Context, o Options) (*Report, error) {
	if o.DiskMiB == 0 {
		o.DiskMiB = 1024
	}
	began := time.Now()
	registry, err := NewRegistry(o.Seed, o.Machine.Arch, o.Payload)
	if err != nil {
		return nil, err
	}
	defer registry.Close()
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, err
	}
	r := &runner{Options: o, registry: registry}
	report := func() *Report {
		return &Report{Seed: o.Seed, Arch: o.Machine.Arch, QEMU: o.Machine.Tool.Version.String(), Outcomes: r.outcomes, Control: r.controlled, Took: time.Since(began)}
	}
	defer r.dropDisk()
	plan := Plan(o.Seed, o.Cuts)
	for i, round := range plan {
		if err := r.round(ctx, round); err != nil {
			return report(), fmt.Errorf("round %d (%s): %w", round.Number, round.Kind, err)
		}
		if last := i == len(plan)-1; last || plan[i+1].NewDisk {
			look := Round{Number: round.Number, Kind: Look, random: rand.New(rand.NewPCG(o.Seed, uint64(round.Number)<<32))}
			if err := r.round(ctx, look); err != nil {
				return report(), fmt.Errorf("last look after round %d: %w", round.Number, err)
			}
		}
	}
	return report(), nil
}

func (r *runner) dropDisk() {
	if r.m != nil && r.m.disk != nil {
		r.m.disk.Close()
		os.RemoveAll(filepath.Dir(r.m.disk.Path()))
		r.m.disk = nil
	}
}

// newDisk begins a chain.
func (r *runner) newDisk() error {
	r.dropDisk()
	dir, err := os.MkdirTemp("", "garboard-chaos-")
	if err != nil {
		return err
	}
	d, err := powercut.Create(dir, r.DiskMiB<<20)
	if err != nil {
		return err
	}
	next := 0
	if r.m != nil {
		next = r.m.ledger.next // each image is pulled by one chain only
	}
	r.m = &machine{Machine: r.Machine, disk: d, ledger: NewLedger(r.registry.Sum), port: r.registry.Port, say: r.Say}
	r.m.ledger.next = next
	return nil
}

// round carries out one round and puts its outcome on the list. What the boot
// finds missing was lost by the round before it.
func (r *runner) round(ctx context.Context, round Round) error {
	if r.spoilt && round.Kind == Look {
		return nil // the chain is over already
	}
	if round.NewDisk || r.spoilt || r.m == nil {
		r.spoilt = false
		if err := r.newDisk(); err != nil {
			return err
		}
	}
	began := time.Now()
	name := fmt.Sprintf("round-%03d", round.Number)
	if round.Kind == Look {
		name += "-look"
	}
	if err := r.m.disk.Remember(filepath.Join(filepath.Dir(r.m.disk.Path()), "base.raw")); err != nil {
		return err
	}
	defer r.m.disk.Forget()
	err := r.boot(ctx, r.m, round, name)
	out := Outcome{Round: round, Took: time.Since(began), Losses: r.m.ledger.losses}
	out.Images, out.Pods = r.m.ledger.Promised()
	r.spoilt = len(out.Losses) > 0
	if err != nil {
		if r.spoilt { // what was seen before the run was broken off counts
			r.outcomes = append(r.outcomes, out)
		}
		return err
	}
	cut := round.Kind.cut() || r.spoilt // which may have ended it in another way
	model := round.Model
	if !cut {
		model = powercut.Nothing // all was unmounted and flushed: nothing to lose
	}
	survival, err := r.m.disk.Cut(model, round.source())
	if err != nil {
		return err
	}
	out.Ended = survival.String()
	if !cut {
		out.Ended = "powered off"
	}
	if r.m.ledger.partition {
		err := judgeFileSystem(ctx, r.Command, r.m.disk.Path(), filepath.Join(filepath.Dir(r.m.disk.Path()), "part.raw"), cut)
		var lost lossError
		if errors.As(err, &lost) {
			out.Losses = append(out.Losses, string(lost))
		} else if err != nil {
			return err
		}
	}
	points, lost, err := r.points(ctx, round)
	if err != nil {
		return err
	}
	out.Points, out.Losses = points, append(out.Losses, lost...)
	if len(out.Losses) > 0 {
		kept := filepath.Join(r.Dir, name+".raw")
		if err := powercut.CopySparse(kept, r.m.disk.Path(), 0); err != nil {
			return err
		}
	}
	r.outcomes = append(r.outcomes, out)
	r.Say("%s", out.line())
	for _, l := range out.Losses {
		r.Say("    LOST: %s", l)
	}
	if round.Control {
		return r.control(ctx, round)
	}
	return nil
}

// boot runs one boot of a machine.
func (r *runner) boot(ctx context.Context, m *machine, round Round, name string) error {
	if r.Around != nil {
		release, err := r.Around(ctx)
		if err != nil {
			return err
		}
		defer release()
	}
	return m.run(ctx, round, filepath.Join(r.Dir, name+".log"))
}

// control boots the disk as it was before the round's first pull, which is what
// a disk would hold that confirms flushes and forgets: the harness must find
// that what was reported since then is lost. The chain's own disk stays as it is.
func (r *runner) control(ctx context.Context, round Round) error {
	dir, err := os.MkdirTemp("", "garboard-chaos-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	past, _, err := r.m.disk.Past(dir, r.m.firstPull, powercut.All, round.source())
	if err != nil {
		return err
	}
	defer past.Close()
	liar := *r.m
	liar.disk, liar.ledger = past, r.m.ledger.copy()
	if err := r.boot(ctx, &liar, Round{Number: round.Number, Kind: Liar}, fmt.Sprintf("round-%03d-liar", round.Number)); err != nil {
		return fmt.Errorf("control: %w", err)
	}
	r.controlled = liar.ledger.losses
	r.Say("control: a disk that forgot what it had confirmed: %d losses seen, as it must be", len(r.controlled))
	return nil
}
