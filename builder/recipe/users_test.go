package recipe

import (
	"strings"
	"testing"
)

func TestCheckUsers(t *testing.T) {
	ok := User{Name: "agent", UID: 900, Reason: "r"}
	for _, tt := range []struct {
		name  string
		users []User
		at    int
		want  string // part of the error; "" = none
	}{
		{"none", nil, 0, ""},
		{"two", []User{ok, {Name: "_b-2", UID: 65533, Reason: "r"}}, 0, ""},
		{"no name", []User{{UID: 1, Reason: "r"}}, 0, "is no name"},
		{"name with a colon", []User{{Name: "a:0", UID: 1, Reason: "r"}}, 0, "is no name"},
		{"name with a line feed", []User{{Name: "a\nroot", UID: 1, Reason: "r"}}, 0, "is no name"},
		{"a number for a name", []User{{Name: "0", UID: 1, Reason: "r"}}, 0, "is no name"},
		{"long name", []User{{Name: strings.Repeat("a", 33), UID: 1, Reason: "r"}}, 0, "is no name"},
		{"no uid", []User{{Name: "a", Reason: "r"}}, 0, "0 is root's"},
		{"nobody's", []User{{Name: "a", UID: 65534, Reason: "r"}}, 0, "not within"},
		{"negative", []User{{Name: "a", UID: -1, Reason: "r"}}, 0, "not within"},
		{"no reason", []User{{Name: "a", UID: 1}}, 0, "reason"},
		{"name twice", []User{ok, {Name: "agent", UID: 901, Reason: "r"}}, 1, "twice"},
		{"uid twice", []User{ok, {Name: "other", UID: 900, Reason: "r"}}, 1, "that of agent"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			at, err := checkUsers(tt.users)
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || at != tt.at {
				t.Fatalf("users[%d]: %v, want users[%d] with %q", at, err, tt.at, tt.want)
			}
		})
	}
}
