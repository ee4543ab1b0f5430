package settings

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	x64 = strings.Repeat("a", 31) + "." + strings.Repeat("b", 32)
	x65 = x64 + "b"
)

func TestHostname(t *testing.T) {
	for _, tt := range []struct {
		what, cmdline, etc, table string
		want                      Name
		complain                  string
	}{
		{"command line first", "a", "b", "c", Name{"a", "garboard.hostname on the kernel command line", true}, ""},
		{"comment and blank lines", "", "# comment\n\n \t\nb\nx\n", "c", Name{"b", "/etc/hostname", true}, ""},
		{"CRLF", "", "# dos\r\n\r\nb\r\n", "c", Name{"b", "/etc/hostname", true}, ""},
		{"no newline", "", "b", "c", Name{"b", "/etc/hostname", true}, ""},
		{"only a comment", "", "# b\n", "c", Name{"c", "the node table", false}, ""},
		{"comment behind the name", "", "b # mine\n", "c", Name{"c", "the node table", false}, `' ' is not one of`},
		{"table", "", "", "c", Name{"c", "the node table", false}, ""},
		{"nothing", "", "", "", Name{DefaultHostname, "the default", false}, ""},
		{"upper case", "Node-7", "", "", Name{"node-7", "garboard.hostname on the kernel command line", true}, ""},
		{"qualified", "node-1.example.com", "", "", Name{"node-1.example.com", "garboard.hostname on the kernel command line", true}, ""},
		{"rooted", "", "node-1.example.com.\n", "", Name{"node-1.example.com", "/etc/hostname", true}, ""},
		{"64 characters", x64, "", "", Name{x64, "garboard.hostname on the kernel command line", true}, ""},
		{"65 characters", x65, "b", "", Name{"b", "/etc/hostname", true}, "65 characters"},
		{"part of 64", strings.Repeat("a", 64), "", "", Name{DefaultHostname, "the default", false}, "1 to 63"},
		{"underscore", "bad_name", "b", "", Name{"b", "/etc/hostname", true}, `'_'`},
		{"all bad", "-a", "a..b", "b-", Name{DefaultHostname, "the default", false}, "begin or end"},
		{"localhost", "", "localhost\n", "c", Name{"c", "the node table", false}, "every machine's"},
		{"localhost.localdomain", "localhost.localdomain", "", "c", Name{"c", "the node table", false}, "every machine's"},
		{"not ASCII", "knötchen", "", "c", Name{"c", "the node table", false}, "'ö'"},
		{"only a dot", ".", "", "c", Name{"c", "the node table", false}, "1 to 63"},
	} {
		got, err := Hostname(tt.cmdline, tt.etc, tt.table)
		if got != tt.want || (err != nil) != (tt.complain != "") || err != nil && !strings.Contains(err.Error(), tt.complain) {
			t.Errorf("%s: got %+v, %v", tt.what, got, err)
		}
	}
}

// naming plays a node: its log of names set, and of lines.
func naming(t *testing.T, n Name) (g *Naming, set, said *[]string) {
	t.Helper()
	set, said = new([]string), new([]string)
	g = &Naming{
		Set: func(name string) error { *set = append(*set, name); return nil },
		Printf: func(format string, args ...any) {
			line := fmt.Sprintf(format, args...)
			t.Log(line)
			*said = append(*said, line)
		}}
	if err := g.Begin(n); err != nil {
		t.Fatal(err)
	}
	return g, set, said
}

func TestNaming(t *testing.T) {
	table := Name{"garboard", "the node table", false}
	type step = func(*Naming)
	offer := func(text string) step { return func(g *Naming) { g.Offer("eth0", text) } }
	settle := func(g *Naming) { g.Settle() }
	for _, tt := range []struct {
		name  string
		begin Name
		steps []step
		set   []string
		lines int
		last  string
	}{
		{"DHCP names a node that has none", table, []step{offer("edge-7"), settle}, []string{"garboard", "edge-7"}, 2, "hostname edge-7, from DHCP on eth0"},
		{"not one that was given its own", Name{"a", "/etc/hostname", true}, []step{offer("edge-7")}, []string{"a"}, 1, ""},
		{"too late", table, []step{settle, offer("edge-7"), offer("edge-7")}, []string{"garboard"}, 2, "too late"},
		{"each refused name is said once", table, []step{settle, offer("edge-7"), offer("edge-8"), offer("edge-8")}, []string{"garboard"}, 3, "says edge-8"},
		{"renewals say nothing", table, []step{offer("edge-7"), settle, offer("edge-7"), offer("edge-7")}, []string{"garboard", "edge-7"}, 2, ""},
		{"the first of two links", table, []step{offer("edge-7"), offer("edge-8")}, []string{"garboard", "edge-7"}, 3, "came first"},
		{"the default's own name is an answer", table, []step{offer("garboard"), offer("edge-8")}, []string{"garboard"}, 2, "came first"},
		{"none offered", table, []step{offer(""), offer("")}, []string{"garboard"}, 1, ""},
		{"not a name", table, []step{offer("a b\nnameserver 6.6.6.6"), offer("edge-7")}, []string{"garboard", "edge-7"}, 3, "edge-7"},
		{"localhost", table, []step{offer("localhost")}, []string{"garboard"}, 2, "every machine's"},
		{"zero bytes, case, root", table, []step{offer("Edge-7.Example.COM.\x00\x00")}, []string{"garboard", "edge-7.example.com"}, 2, ""},
		{"zero bytes at the end", table, []step{offer("edge-7\x00")}, []string{"garboard", "edge-7"}, 2, ""},
		{"64 characters", table, []step{offer(x64)}, []string{"garboard", x64}, 2, ""},
		{"65 characters are cut at the first dot", table, []step{offer(x65)}, []string{"garboard", strings.Repeat("a", 31)}, 2, ""},
		{"65 without a dot", table, []step{offer(strings.Repeat("a", 65))}, []string{"garboard"}, 2, "65 characters"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g, set, said := naming(t, tt.begin)
			for _, s := range tt.steps {
				s(g)
			}
			if !slices.Equal(*set, tt.set) || len(*said) != tt.lines || !strings.Contains((*said)[len(*said)-1], tt.last) {
				t.Errorf("set %q, want %q; said %q", *set, tt.set, *said)
			}
			if got := g.Settle(); got != tt.set[len(tt.set)-1] {
				t.Errorf("settled as %q", got)
			}
		})
	}
}

func TestNamingWait(t *testing.T) {
	done, cancel := context.WithCancel(t.Context())
	cancel()
	g, _, _ := naming(t, Name{"a", "/etc/hostname", true})
	if !g.Wait(done) || g.Given() != "a" {
		t.Error("a given name is waited for")
	}
	g, _, _ = naming(t, Name{"garboard", "the node table", false})
	if g.Wait(done) || g.Given() != "" {
		t.Error("nobody gave a name, and DHCP is told one")
	}
	go g.Offer("eth0", "edge-7")
	long, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if !g.Wait(long) {
		t.Error("an offer does not end the wait")
	}
	g.Offer("eth0", "localhost")
	if got := g.Settle(); got != "edge-7" {
		t.Errorf("settled as %q", got)
	}
}

func FuzzHostname(f *testing.F) {
	f.Add("a", "# x\r\nb.\r\n", "Edge-7\x00")
	f.Fuzz(func(t *testing.T, cmdline, etc, dhcp string) {
		n, _ := Hostname(cmdline, etc, "")
		if err := CheckHostname(n.Text); err != nil {
			t.Errorf("chose %q: %v", n.Text, err)
		}
		if d, err := dhcpHostname(dhcp); err == nil && CheckHostname(d) != nil {
			t.Errorf("took %q", d)
		}
	})
}
