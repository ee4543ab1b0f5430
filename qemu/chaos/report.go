package chaos

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"
)

// Report is what was tried, and lost.
type Report struct {
	Seed       uint64
	Arch, QEMU string
	Outcomes   []Outcome
	Took       time.Duration
	Control    []string // what was seen lost on a disk that lies; there must be some
}

// Losses counts what was lost.
func (r *Report) Losses() (n int) {
	for _, o := range r.Outcomes {
		n += len(o.Losses)
	}
	return n
}

func (r Round) source() *rand.Rand {
	if r.random != nil {
		return r.random
	}
	return rand.New(rand.NewPCG(0, 0))
}

func (o Outcome) line() string {
	what := string(o.Kind)
	if m := o.moment(); m != "" {
		what += ", " + m
	}
	return fmt.Sprintf("round %d: %s: %s; %d images, %d pods promised; %d lost (%s)",
		o.Number, what, o.Ended, o.Images, o.Pods, len(o.Losses), o.Took.Round(time.Second))
}

// Write prints the report as Markdown tables.
func (r *Report) Write(w io.Writer) {
	fmt.Fprintf(w, "seed %d, %s, QEMU %s, %s\n\n", r.Seed, r.Arch, r.QEMU, r.Took.Round(time.Second))
	fmt.Fprintln(w, "| what | tried | lost |\n|---|---|---|")
	for _, k := range []Kind{CutMaking, CutBoot, CutPull, CutReport, CutCreate, Kills, Button, Look} {
		tried, lost := 0, 0
		for _, o := range r.Outcomes {
			if o.Kind == k {
				tried++
				lost += len(o.Losses)
			}
		}
		if tried > 0 {
			fmt.Fprintf(w, "| %s | %d | %d |\n", k, tried, lost)
		}
	}
	fmt.Fprintln(w)
	for _, o := range r.Outcomes {
		for _, l := range o.Losses {
			fmt.Fprintf(w, "LOST, seen in round %d (%s): %s\n", o.Number, o.Kind, l)
		}
	}
	cuts := slices.DeleteFunc(slices.Clone(r.Outcomes), func(o Outcome) bool { return !o.Kind.cut() })
	points := 0
	for _, o := range r.Outcomes {
		points += o.Points
	}
	fmt.Fprintf(w, "%d power cuts with the boot after each, %d further ones judged from outside, %d rounds: %d lost; control (a disk that forgot what it had confirmed): %d seen\n",
		len(cuts), points, len(r.Outcomes), r.Losses(), len(r.Control))
}

// Err is nil if nothing was lost and the control saw its loss.
func (r *Report) Err() error {
	if n := r.Losses(); n > 0 {
		return fmt.Errorf("%d lost", n)
	}
	if len(r.Control) == 0 {
		return errors.New("the control lost nothing: a disk that forgot what it had confirmed was taken for good, so the harness is blind")
	}
	return nil
}
