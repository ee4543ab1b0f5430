package table

import (
	"strings"
	"testing"
)

func good() Table {
	return Table{Version: 1, Services: []Service{
		{Name: "crio", Role: RoleRuntime, Command: []string{"/usr/bin/crio"}, Restart: RestartAlways},
		{Name: "kubelet", Role: RoleKubelet, Command: []string{"/usr/bin/kubelet"}, Restart: RestartAlways, After: []string{"crio"}},
	}}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*Table)
		want  string
	}{
		{"as it should be", func(*Table) {}, ""},
		{"another version", func(t *Table) { t.Version = 2 }, "version 2"},
		{"no name", func(t *Table) { t.Services[0].Name = "" }, "no name"},
		{"one name twice", func(t *Table) { t.Services[1].Name = "crio" }, "two services"},
		{"no command", func(t *Table) { t.Services[0].Command = nil }, "absolute path"},
		{"relative command", func(t *Table) { t.Services[0].Command = []string{"crio"} }, "absolute path"},
		{"empty command", func(t *Table) { t.Services[0].Command = []string{""} }, "absolute path"},
		{"restart policy", func(t *Table) { t.Services[0].Restart = "always" }, `"always"`},
		{"grace", func(t *Table) { t.Services[0].GraceSeconds = -1 }, "negative"},
		{"one role twice", func(t *Table) { t.Services[1].Role = RoleRuntime }, "both have the role"},
		{"after a later one", func(t *Table) { t.Services[0].After = []string{"kubelet"} }, "not defined before"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tab := good()
			c.spoil(&tab)
			err := tab.Check()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}
