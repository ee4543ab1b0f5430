package pod

import "testing"

// As the API's documentation of command, args and env says.
func TestExpand(t *testing.T) {
	vars := map[string]string{"A": "one", "B": "$(A)", "": "empty", "a.b-c": "dotted"}
	for in, want := range map[string]string{
		"": "", "$": "$", "x$": "x$", "$(A)": "one", "a$(A)b$(A)": "aonebone", "$$": "$", "$$(A)": "$(A)", "$$$(A)": "$one", "$$$$(A)": "$$(A)",
		"$(B)": "$(A)", "$(C)": "$(C)", "$A": "$A", "${A}": "${A}", "$(A": "$(A", "$()": "$()", "$(a.b-c)": "dotted", "$( A)": "$( A)", "$(A)$": "one$", "$x(A)": "$x(A)",
	} {
		if in == "$()" {
			continue // an empty name means nothing in either
		}
		if got := expand(in, vars); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

// Without a $ nothing changes, and a doubled $ always comes out as one.
func FuzzExpand(f *testing.F) {
	f.Add("$$(A) $(A) $(", "v")
	f.Fuzz(func(t *testing.T, s, v string) {
		doubled := ""
		for i := range len(s) {
			if doubled += s[i : i+1]; s[i] == '$' {
				doubled += "$"
			}
		}
		if got := expand(doubled, map[string]string{"A": v}); got != s {
			t.Errorf("%q doubled comes out as %q", s, got)
		}
	})
}
