package qemu

import (
	"strings"
	"testing"
	"time"
)

func TestJudge(t *testing.T) {
	const good = "[   20.000000] default/tester-node/tester: GARBOARD-VERDICT n1 node PASS"
	for _, tt := range []struct {
		name  string
		lines []string
		want  string // part of the error; "" = accepted
	}{
		{"one good verdict", []string{"[    1.000000] Command line: garboard.nonce=n1", "default/hello-node/hello: hi", good}, ""},
		{"silence", []string{"default/tester-node/tester: tester: checking"}, "no verdict"},
		{"nothing at all", nil, "no verdict"},
		{"twice", []string{good, good}, "2 verdicts"},
		{"pass and fail", []string{good, "default/tester-node/tester: GARBOARD-VERDICT n1 node FAIL x"}, "2 verdicts"},
		{"wrong nonce", []string{"default/tester-node/tester: GARBOARD-VERDICT n2 node PASS"}, "nonce"},
		{"wrong scenario", []string{"default/tester-node/tester: GARBOARD-VERDICT n1 other PASS"}, `scenario "other"`},
		{"fail", []string{"default/tester-node/tester: GARBOARD-VERDICT n1 node FAIL ports: tcp 0.0.0.0:1"}, "FAIL: ports: tcp 0.0.0.0:1"},
		{"from another pod", []string{"default/hello-node/hello: GARBOARD-VERDICT n1 node PASS"}, "only the tester"},
		{"from no pod", []string{"[    1.000000] GARBOARD-VERDICT n1 node PASS"}, "no verdict"},
		{"pass with a tail", []string{good + " nearly"}, "malformed"},
		{"fail without a reason", []string{"default/tester-node/tester: GARBOARD-VERDICT n1 node FAIL"}, "malformed"},
		{"in the middle of a line", []string{"default/tester-node/tester: echo GARBOARD-VERDICT n1 node PASS"}, "malformed"},
		{"cut off", []string{"default/tester-node/tester: GARBOARD-VERDICT n1"}, "malformed"},
		{"lower case", []string{"default/tester-node/tester: GARBOARD-VERDICT n1 node pass"}, "malformed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var lines []Line
			for _, l := range tt.lines {
				lines = append(lines, ParseLine(l, time.Time{}))
			}
			err := Judge(lines, "n1", "node")
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func FuzzParseVerdict(f *testing.F) {
	for _, s := range []string{"", "GARBOARD-VERDICT n s PASS", "GARBOARD-VERDICT n s FAIL a b", "GARBOARD-VERDICT  PASS", "xGARBOARD-VERDICT n s PASS"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, found, err := ParseVerdict(text)
		if v.Pass && (err != nil || !found || text != "GARBOARD-VERDICT "+v.Nonce+" "+v.Scenario+" PASS") {
			t.Errorf("%q passes as %+v, %v", text, v, err)
		}
		if (err != nil || v != Verdict{}) && !found {
			t.Errorf("%q: %+v, %v, but not found", text, v, err)
		}
	})
}
