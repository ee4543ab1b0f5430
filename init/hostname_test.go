package boot

import (
	"testing"
	"time"
)

func TestHostnameWait(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want time.Duration
		bad  bool
	}{
		{"", 0, false}, {"0s", 0, false}, {"20s", 20 * time.Second, false}, {"1m30s", 90 * time.Second, false},
		{"20", 0, true}, {"-1s", 0, true}, {"1h", 0, true}, {"soon", 0, true},
	} {
		if got, err := hostnameWait(tt.in); got != tt.want || (err != nil) != tt.bad {
			t.Errorf("%q: %s, %v", tt.in, got, err)
		}
	}
}
