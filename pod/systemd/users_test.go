package systemd

import (
	"testing"

	"garboard.local/pod"
)

// Users and groups are made for numbers alone, each once, and for none that every machine has.
func TestUsers(t *testing.T) {
	for name, c := range map[string]struct {
		services []pod.Service
		want     string
	}{
		"root and names":     {[]pod.Service{{User: "0", Group: "0"}, {User: "www-data", Group: "adm"}, {}}, ""},
		"nobody":             {[]pod.Service{{User: "65534", Group: "65534"}}, ""},
		"numbers":            {[]pod.Service{{User: "1000", Group: "2000", Groups: []int64{3000, 0}}, {User: "1000", Group: "0"}}, "r - 65534-65534\ng pod-2000 2000\ng pod-3000 3000\nu pod-1000 1000:65534 \"User 1000 of pods\"\n"},
		"a group and a name": {[]pod.Service{{User: "www-data", Groups: []int64{20}}}, "r - 65534-65534\ng pod-20 20\n"},
	} {
		w := &writer{plan: &pod.Plan{Services: c.services}}
		if got := string(w.users()); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
}
