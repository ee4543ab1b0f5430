package chaos

import (
	"fmt"
	"testing"
)

func TestPlan(t *testing.T) {
	for _, cuts := range []int{1, 2, 5, 20, 37} {
		kinds, controls := map[Kind]int{}, 0
		cut := 0
		for i, r := range Plan(7, cuts) {
			if r.Number != i+1 {
				t.Errorf("round %d has number %d", i+1, r.Number)
			}
			if i == 0 && (!r.NewDisk || r.Kind != CutMaking) {
				t.Errorf("the first round is %+v", r)
			}
			kinds[r.Kind]++
			if r.Kind.cut() {
				cut++
			}
			if r.Control {
				controls++
				if r.Kind != Kills {
					t.Errorf("the control is in round %+v", r)
				}
			}
			if r.After <= 0 && r.Kind != Kills {
				t.Errorf("no moment: %+v", r)
			}
		}
		if cut != cuts || controls != 1 || kinds[Kills] == 0 || (kinds[Button] == 0) != (cuts < 3) {
			t.Errorf("%d cuts: %v, %d controls", cuts, kinds, controls)
		}
		if cuts == 20 && len(kinds) != 7 {
			t.Errorf("20 cuts see only %v", kinds)
		}
	}
}

// A seed says everything.
func TestPlanIsRepeatable(t *testing.T) {
	say := func(seed uint64) (s string) {
		for _, r := range Plan(seed, 20) {
			s += fmt.Sprintln(r.Kind, r.moment(), r.Model, r.random.Uint64())
		}
		return s
	}
	if say(1) != say(1) {
		t.Error("two plans from one seed")
	}
	if say(1) == say(2) {
		t.Error("one plan from two seeds")
	}
}

// Nothing lost is success only if the control saw its loss.
func TestReportErr(t *testing.T) {
	for _, tt := range []struct {
		report Report
		good   bool
	}{
		{Report{Control: []string{"x"}, Outcomes: []Outcome{{}}}, true},
		{Report{Outcomes: []Outcome{{}}}, false},
		{Report{Control: []string{"x"}, Outcomes: []Outcome{{Losses: []string{"y"}}}}, false},
	} {
		if err := tt.report.Err(); (err == nil) != tt.good {
			t.Errorf("%+v: %v", tt.report, err)
		}
	}
}
