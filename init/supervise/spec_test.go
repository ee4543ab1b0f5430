package supervise

import (
	"os"
	"slices"
	"testing"

	"garboard.local/init/launch"
	"garboard.local/init/table"
)

// What a process is started with: the usual variables unless the table has them, and a
// directory only where it is in the node's root.
func TestSpec(t *testing.T) {
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		s    table.Service
		env  []string
		dir  string
		as   string // the program's name
	}{
		{"plain", table.Service{Dir: "/d"}, []string{defaultPath, defaultHome, "HOSTNAME=" + name}, "/d", "/x"},
		{"its own", table.Service{Env: []string{"HOME=/own", "HOSTNAME=h"}}, []string{"HOME=/own", "HOSTNAME=h", defaultPath}, "", "/x"},
		{"launched", table.Service{Dir: "/d", User: "7"}, []string{defaultPath, defaultHome, "HOSTNAME=" + name}, "/d", launch.Name},
		{"with a volume", table.Service{Dir: "/v/d", Mounts: []table.Mount{{Source: "/s", Target: "/v"}}}, []string{defaultPath, defaultHome, "HOSTNAME=" + name}, "", launch.Name},
		{"with an image", table.Service{Dir: "/in/there", Root: &table.Root{Path: "/r"}}, []string{defaultPath, defaultHome, "HOSTNAME=" + name}, "", launch.Name},
	} {
		got, err := (&service{Service: tt.s}).spec([]string{"/x"})
		if err != nil || !slices.Equal(got.Env, tt.env) || got.Dir != tt.dir || got.Argv[0] != tt.as {
			t.Errorf("%s: %+v, %v", tt.name, got, err)
		}
	}
}
