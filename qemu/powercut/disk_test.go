package powercut

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

const testSize = 64 * Sector

func newDisk(t *testing.T) *Disk {
	t.Helper()
	d, err := Create(t.TempDir(), testSize)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	d.On()
	return d
}

func fill(b byte, n int) []byte { return bytes.Repeat([]byte{b}, n*Sector) }

func (d *Disk) mustWrite(t *testing.T, b byte, at, n int, fua bool) {
	t.Helper()
	if err := d.WriteAt(fill(b, n), int64(at)*Sector, fua); err != nil {
		t.Fatal(err)
	}
}

// sectorsOf reads the first byte of each sector of what a cut left, and demands
// that no sector is torn and that the machine will read the same.
func sectorsOf(t *testing.T, d *Disk) []byte {
	t.Helper()
	got, err := os.ReadFile(d.Path())
	if err != nil {
		t.Fatal(err)
	}
	d.On()
	seen := make([]byte, testSize)
	if _, err := d.ReadAt(seen, 0); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, seen) {
		t.Error("the machine would read something else than the disk holds")
	}
	var out []byte
	for s := range testSize / Sector {
		sector := got[s*Sector : (s+1)*Sector]
		if !bytes.Equal(sector, bytes.Repeat(sector[:1], Sector)) {
			t.Errorf("sector %d is torn", s)
		}
		out = append(out, sector[0])
	}
	return out
}

func rng(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

func TestCutKeepsWhatWasFlushed(t *testing.T) {
	for m := range models {
		for seed := range uint64(20) {
			d := newDisk(t)
			d.mustWrite(t, 1, 0, 8, false)
			if err := d.Flush(); err != nil {
				t.Fatal(err)
			}
			d.mustWrite(t, 2, 4, 8, false) // 4..11, unflushed
			d.mustWrite(t, 0, 6, 1, false) // zeros, unflushed
			d.mustWrite(t, 3, 20, 2, true) // on the medium
			s, err := d.Cut(m, rng(seed))
			if err != nil {
				t.Fatal(err)
			}
			if s.Cached != 9 || s.Saved > s.Cached || m == All && s.Saved != 9 || m == Nothing && s.Saved != 0 {
				t.Errorf("%s: %+v", m, s)
			}
			if err := d.WriteAt(fill(9, 1), 0, false); !errors.Is(err, ErrOff) {
				t.Errorf("a disk without power takes a write: %v", err)
			}
			got := sectorsOf(t, d)
			for i, b := range got {
				var allowed string
				switch {
				case i < 4:
					allowed = "\x01"
				case i == 6:
					allowed = "\x01\x02\x00"
				case i < 8:
					allowed = "\x01\x02"
				case i < 12:
					allowed = "\x00\x02"
				case i == 20 || i == 21:
					allowed = "\x03"
				default:
					allowed = "\x00"
				}
				if bytes.IndexByte([]byte(allowed), b) < 0 {
					t.Errorf("%s, seed %d: sector %d holds %d", m, seed, i, b)
				}
			}
		}
	}
}

// The same seed makes the same disk, and the random models make different ones.
func TestCutIsRepeatable(t *testing.T) {
	made := map[string]bool{}
	for _, m := range []Model{Requests, Sectors, Prefix} {
		for seed := range uint64(10) {
			var first []byte
			for range 2 {
				d := newDisk(t)
				for i := range 30 {
					d.mustWrite(t, byte(i+1), i, 2, false)
				}
				if _, err := d.Cut(m, rng(seed)); err != nil {
					t.Fatal(err)
				}
				got := sectorsOf(t, d)
				if first != nil && !bytes.Equal(first, got) {
					t.Errorf("%s, seed %d: two different disks", m, seed)
				}
				first = got
			}
			made[string(first)] = true
		}
	}
	if len(made) < 25 {
		t.Errorf("30 cuts made only %d different disks", len(made))
	}
}

// A forced write outlives older unflushed ones of the same place.
func TestForcedWriteIsLast(t *testing.T) {
	d := newDisk(t)
	d.mustWrite(t, 1, 0, 10, false)
	d.mustWrite(t, 2, 3, 2, true)
	if _, err := d.Cut(All, rng(1)); err != nil {
		t.Fatal(err)
	}
	got := sectorsOf(t, d)[:10]
	if want := []byte{1, 1, 1, 2, 2, 1, 1, 1, 1, 1}; !bytes.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestTrip(t *testing.T) {
	d := newDisk(t)
	d.mustWrite(t, 1, 0, 1, false)
	tripped := d.Trip(2)
	d.mustWrite(t, 2, 1, 1, false)
	if err := d.WriteAt(fill(3, 1), 2*Sector, false); !errors.Is(err, ErrOff) {
		t.Fatalf("the second write after Trip(2): %v", err)
	}
	<-tripped
	if err := d.Flush(); !errors.Is(err, ErrOff) {
		t.Errorf("flush after the trip: %v", err)
	}
	if _, err := d.Cut(All, rng(1)); err != nil {
		t.Fatal(err)
	}
	if got := sectorsOf(t, d)[:3]; !bytes.Equal(got, []byte{1, 2, 3}) {
		t.Errorf("got %v: the last request had reached the cache", got)
	}
}

func TestPast(t *testing.T) {
	d := newDisk(t)
	d.mustWrite(t, 1, 0, 4, false)
	if _, err := d.Cut(All, rng(1)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.Past(t.TempDir(), 0, All, rng(1)); err == nil {
		t.Error("a past that was not remembered")
	}
	if err := d.Remember(filepath.Join(t.TempDir(), "base")); err != nil {
		t.Fatal(err)
	}
	d.On()
	d.mustWrite(t, 2, 2, 4, false)
	moment := d.Moment()
	if err := d.Flush(); err != nil {
		t.Fatal(err)
	}
	d.mustWrite(t, 3, 0, 10, true)
	if _, err := d.Cut(All, rng(1)); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		moment int
		model  Model
		want   []byte
	}{
		{moment, All, []byte{1, 1, 2, 2, 2, 2, 0, 0, 0, 0}},
		{moment, Nothing, []byte{1, 1, 1, 1, 0, 0, 0, 0, 0, 0}},
		{moment + 1, Nothing, []byte{1, 1, 2, 2, 2, 2, 0, 0, 0, 0}}, // flushed
		{moment + 2, Nothing, []byte{3, 3, 3, 3, 3, 3, 3, 3, 3, 3}}, // forced
		{0, All, []byte{1, 1, 1, 1, 0, 0, 0, 0, 0, 0}},
	} {
		past, _, err := d.Past(t.TempDir(), tt.moment, tt.model, rng(1))
		if err != nil {
			t.Fatal(err)
		}
		defer past.Close()
		if got := sectorsOf(t, past)[:10]; !bytes.Equal(got, tt.want) {
			t.Errorf("at %d, %s: got %v, want %v", tt.moment, tt.model, got, tt.want)
		}
	}
	if got := sectorsOf(t, d)[:2]; !bytes.Equal(got, []byte{3, 3}) {
		t.Errorf("the disk itself became %v", got)
	}
	d.Forget()
	if _, _, err := d.Past(t.TempDir(), 0, All, rng(1)); err == nil {
		t.Error("a past that was forgotten")
	}
}

func TestOutside(t *testing.T) {
	d := newDisk(t)
	for _, off := range []int64{-1, testSize, testSize - 1, 1 << 62} {
		if err := d.WriteAt(fill(1, 1), off, false); err == nil {
			t.Errorf("a write at %d is accepted", off)
		}
		if _, err := d.ReadAt(make([]byte, Sector), off); err == nil {
			t.Errorf("a read at %d is accepted", off)
		}
	}
	if _, err := Create(t.TempDir(), 1000); err == nil {
		t.Error("a disk of 1000 bytes is accepted")
	}
}

func TestCopySparse(t *testing.T) {
	from, to := filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "to")
	f, err := os.Create(from)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, off := range []int64{0, 3 << 20} {
		if _, err := f.WriteAt([]byte("data"), off); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Truncate(8 << 20); err != nil {
		t.Fatal(err)
	}
	a, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, start := range []int64{0, 2, 1 << 20, 3 << 20, 5 << 20} {
		if err := CopySparse(to, from, start); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(to); err != nil || !bytes.Equal(a[start:], b) {
			t.Errorf("the copy from %d on differs (%v)", start, err)
		}
	}
}
