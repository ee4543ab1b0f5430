package powercut

import (
	"fmt"
	"math/rand/v2"
	"os"
)

// Model is what becomes of the writes that no flush had confirmed.
type Model int

const (
	Nothing  Model = iota // the whole cache is lost
	All                   // it was all written just in time
	Requests              // each request is written or lost, in any order
	Sectors               // each sector of each request is written or lost
	Prefix                // written in order up to some point, the last request torn
	models
)

func (m Model) String() string {
	switch m {
	case Nothing:
		return "nothing"
	case All:
		return "all"
	case Requests:
		return "requests"
	case Sectors:
		return "sectors"
	case Prefix:
		return "prefix"
	}
	return fmt.Sprintf("model %d", int(m))
}

// Pick draws a model.
func Pick(r *rand.Rand) Model { return Model(r.IntN(int(models))) }

// Survival is what a cut did to the cache, in sectors.
type Survival struct {
	Model         Model
	Cached, Saved int64
}

func (s Survival) String() string {
	return fmt.Sprintf("%d of %d unflushed sectors kept (%s)", s.Saved, s.Cached, s.Model)
}

// Cut switches the disk off and makes of the cache what the model says. After
// that Path holds the disk, and On may be called again.
func (d *Disk) Cut(m Model, r *rand.Rand) (Survival, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.on = false
	s := Survival{Model: m}
	chance := 0.1 + 0.8*r.Float64()
	last, torn := -1, int64(0)
	if m == Prefix && len(d.cache) > 0 {
		last = r.IntN(len(d.cache))
		torn = r.Int64N(sectors(d.cache[last]) + 1)
	}
	for i, w := range d.cache {
		n := sectors(w)
		s.Cached += n
		whole := m == All || m == Requests && r.Float64() < chance || m == Prefix && i < last
		for k := range n {
			keep := whole || m == Sectors && r.Float64() < chance || m == Prefix && i == last && k < torn
			if !keep {
				continue
			}
			s.Saved++
			from, to := k*Sector, min((k+1)*Sector, w.length)
			if _, err := d.stable.WriteAt(w.bytes()[from:to], w.off+from); err != nil {
				return s, fmt.Errorf("power cut: %w", err)
			}
		}
	}
	// What the machine will read from now on is what is left.
	for _, w := range d.cache {
		if err := copyRange(d.seen, d.stable, w.off, w.length); err != nil {
			return s, fmt.Errorf("power cut: %w", err)
		}
	}
	d.cache = nil
	return s, nil
}

func sectors(w write) int64 { return (w.length + Sector - 1) / Sector }

func copyRange(to, from *os.File, off, length int64) error {
	b := make([]byte, length)
	if _, err := from.ReadAt(b, off); err != nil {
		return err
	}
	_, err := to.WriteAt(b, off)
	return err
}
