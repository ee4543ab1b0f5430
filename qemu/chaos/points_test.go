package chaos

import (
	"maps"
	"slices"
	"testing"
)

// A promise counts from its moment on, unless it is withdrawn later in the boot.
func TestPromisedAt(t *testing.T) {
	l := NewLedger(sumOf)
	l.Boot("one")
	stages := []stage{{0, l.copy()}}
	for i, line := range []string{
		"garboard: data: /dev/vda1 on /var, 9 of 9 MiB free",
		"chaos: N pulled " + image(0) + " id0",
		"chaos: N pod chaosload-0 " + image(0),
		"chaos: N pulled " + image(1) + " id1",
		"chaos: N unpod chaosload-0",
		"chaos: N removing " + image(0),
	} {
		before := l.promises
		hear(l, line)
		if l.promises == before {
			t.Errorf("%q changes no promise", line)
		}
		stages = append(stages, stage{10 * (i + 1), l.copy()})
	}
	for _, tt := range []struct {
		moment    int
		partition bool
		images    []string
	}{
		{0, false, nil}, {9, false, nil}, {10, true, nil}, {25, true, nil}, {39, true, nil}, {40, true, []string{image(1)}}, {99, true, []string{image(1)}},
	} {
		got := promisedAt(stages, tt.moment)
		if got.partition != tt.partition || !slices.Equal(slices.Sorted(maps.Keys(got.images)), tt.images) || len(got.pods) > 0 {
			t.Errorf("at %d: %+v", tt.moment, got)
		}
	}
	if got := promisedAt(stages[:4], 31); len(got.images) != 1 || len(got.pods) != 1 {
		t.Errorf("before anything is withdrawn: %+v", got)
	}
	if len(stages[3].ledger.images) != 1 || len(l.images) != 1 {
		t.Error("the stages were changed")
	}
}
