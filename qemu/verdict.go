package qemu

import (
	"fmt"
	"strings"
)

// verdictWord begins the line by which a guest gives its verdict:
//
//	GARBOARD-VERDICT <nonce> <scenario> PASS
//	GARBOARD-VERDICT <nonce> <scenario> FAIL <reason>
//
// The nonce is drawn by the host for each run and given to the guest in
// garboard.nonce=, so that no stored, echoed or guessed text can pass.
const verdictWord = "GARBOARD-VERDICT"

// Verdict is what the guest said of one scenario.
type Verdict struct {
	Nonce, Scenario string
	Pass            bool
	Reason          string // of a failure
}

// ParseVerdict reads a verdict from what a container printed. found is true if
// the text claims to be one; a claim that cannot be read is an error.
func ParseVerdict(text string) (v Verdict, found bool, err error) {
	if !strings.Contains(text, verdictWord) {
		return v, false, nil
	}
	words := strings.SplitN(text, " ", 5)
	if len(words) < 4 || words[0] != verdictWord {
		return v, true, fmt.Errorf("malformed verdict %q", text)
	}
	v = Verdict{Nonce: words[1], Scenario: words[2]}
	switch {
	case words[3] == "PASS" && len(words) == 4:
		v.Pass = true
	case words[3] == "FAIL" && len(words) == 5:
		v.Reason = words[4]
	default:
		return Verdict{}, true, fmt.Errorf("malformed verdict %q", text)
	}
	return v, true, nil
}

// Judge demands exactly one verdict among the lines, from the tester pod, with
// this nonce and scenario, and that it is PASS. Anything else is an error:
// silence, two verdicts, another run's verdict, one from another pod.
func Judge(lines []Line, nonce, scenario string) error {
	var found []Verdict
	for _, l := range lines {
		p, ok := l.Pod()
		if !ok {
			continue // the kernel echoes its command line, for instance
		}
		v, claims, err := ParseVerdict(p.Text)
		switch {
		case err != nil:
			return err
		case !claims:
			continue
		case p.Container != "tester":
			return fmt.Errorf("container %s of pod %s gave a verdict; only the tester may", p.Container, p.Pod)
		}
		found = append(found, v)
	}
	switch {
	case len(found) == 0:
		return fmt.Errorf("scenario %s: the guest gave no verdict", scenario)
	case len(found) > 1:
		return fmt.Errorf("scenario %s: %d verdicts, exactly one is allowed: %+v", scenario, len(found), found)
	}
	switch v := found[0]; {
	case v.Nonce != nonce:
		return fmt.Errorf("scenario %s: the verdict carries nonce %q, this run's is %q", scenario, v.Nonce, nonce)
	case v.Scenario != scenario:
		return fmt.Errorf("scenario %s: the verdict is about scenario %q", scenario, v.Scenario)
	case !v.Pass:
		return fmt.Errorf("scenario %s: the guest says FAIL: %s", scenario, v.Reason)
	}
	return nil
}
