package systemd

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// nobody is the number that every machine with systemd has a user and a group for.
const nobody = 65534

// users is what systemd-sysusers makes for the pod (sysusers.d(5)): a user or group for
// each number that the machine has none for, since systemd starts nothing as a number
// alone (status 217/USER, 216/GROUP). A number that is somebody's already stays that:
// sysusers would then choose another number for the new name, so the range that it
// may choose from (r) is one that is taken.
func (w *writer) users() []byte {
	users, groups := map[int64]bool{}, map[int64]bool{}
	note := func(m map[int64]bool, s string) {
		if n, err := strconv.ParseInt(s, 10, 64); err == nil && n != 0 && n != nobody {
			m[n] = true
		}
	}
	for _, s := range w.plan.Services {
		note(users, s.User)
		note(groups, s.Group)
		for _, g := range s.Groups {
			note(groups, fmt.Sprint(g))
		}
	}
	if len(users)+len(groups) == 0 {
		return nil
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "r - %d-%d\n", nobody, nobody)
	for _, n := range slices.Sorted(maps.Keys(groups)) {
		fmt.Fprintf(&b, "g pod-%d %d\n", n, n)
	}
	for _, n := range slices.Sorted(maps.Keys(users)) {
		fmt.Fprintf(&b, "u pod-%d %d:%d \"User %d of pods\"\n", n, n, nobody, n)
	}
	return b.Bytes()
}
