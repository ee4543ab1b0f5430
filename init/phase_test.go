package boot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"garboard.local/init/power"
	"garboard.local/init/table"
)

type record struct {
	mu    sync.Mutex
	lines []string
}

func (r *record) printf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

func (r *record) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.lines, "\n")
}

func TestPhasesRunBesideOneAnother(t *testing.T) {
	var rec record
	met := make(chan struct{})
	r := runner{printf: rec.printf, now: time.Now, gate: newGate()}
	err := r.run([]phase{
		{name: "a", do: func() error { return nil }},
		{name: "b", after: []string{"a"}, do: func() error { met <- struct{}{}; return nil }},
		{name: "c", after: []string{"a"}, do: func() error { <-met; return nil }},
		{name: "d", after: []string{"b", "c"}, do: func() error { return errors.New("one\ntwo") }},
		{name: "e", after: []string{"d"}, do: func() error { return nil }},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := rec.text()
	for _, want := range []string{"phase a (1/5): done, 0s", "phase d (4/5): failed: one; two", "phase e (5/5): done"} {
		if !strings.Contains(s, want) {
			t.Errorf("no %q in\n%s", want, s)
		}
	}
}

func TestFatalPhaseEndsTheBoot(t *testing.T) {
	var rec record
	r := runner{printf: rec.printf, now: time.Now, gate: newGate()}
	err := r.run([]phase{
		{name: "a", do: func() error { panic("boom") }, fatal: true},
		{name: "b", after: []string{"a"}, do: func() error { t.Error("b was begun"); return nil }},
		{name: "c", after: []string{"b"}, do: func() error { t.Error("c was begun"); return nil }},
		{name: "d", do: func() error { return nil }},
	})
	if err == nil || !strings.Contains(err.Error(), "phase a: panic: boom") {
		t.Errorf("error %v", err)
	}
	if s := rec.text(); !strings.Contains(s, "phase d (4/4): done") {
		t.Error(s)
	}
}

// A shutdown can come at any moment of the boot: the phases that run are waited
// for, those that have not begun never begin, and none of that is a fault.
func TestShutdownAmidTheBoot(t *testing.T) {
	var rec record
	r := runner{printf: rec.printf, now: time.Now, gate: newGate()}
	inside, leave := make(chan struct{}), make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- r.run([]phase{
			{name: "a", do: func() error { close(inside); <-leave; return nil }, fatal: true},
			{name: "waits", do: func() error { <-r.gate.ctx.Done(); return errShut }},
			{name: "b", after: []string{"a"}, do: func() error { t.Error("b was begun"); return nil }, fatal: true},
			{name: "c", after: []string{"b"}, do: func() error { t.Error("c was begun"); return nil }},
		})
	}()
	<-inside
	r.gate.Stop()
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if r.gate.Wait(short) || !strings.Contains(r.gate.Running(), "phase a") {
		t.Errorf("a runs, the gate says: %q", r.gate.Running())
	}
	close(leave)
	if !r.gate.Wait(t.Context()) || r.gate.Running() != "" {
		t.Errorf("still running: %q", r.gate.Running())
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if r.gate.enter("late") {
		t.Error("a phase may begin after the gate was shut")
	}
}

// The same in each phase of the real boot, whatever runs beside it.
func TestShutdownInEachPhase(t *testing.T) {
	for i, in := range (&node{}).phases() {
		t.Run(in.name, func(t *testing.T) {
			r := runner{printf: t.Logf, now: time.Now, gate: newGate()}
			list := (&node{}).phases()
			var mu sync.Mutex
			shut, late := false, []string{}
			inside, leave := make(chan struct{}), make(chan struct{})
			for j := range list {
				name := list[j].name
				list[j].do = func() error {
					mu.Lock()
					defer mu.Unlock()
					if shut {
						late = append(late, name)
					}
					return nil
				}
			}
			list[i].do = func() error { close(inside); <-leave; return errors.New("cut short") }
			list[i].fatal = false
			ended := make(chan error, 1)
			go func() { ended <- r.run(list) }()
			<-inside
			r.gate.Stop()
			mu.Lock()
			began := r.gate.Running() // what began before that may still do its work
			shut = true
			mu.Unlock()
			close(leave)
			if !r.gate.Wait(t.Context()) {
				t.Error("the boot does not end")
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
			for _, name := range late {
				if !strings.Contains(began, "phase "+name) {
					t.Errorf("phase %s began after the shutdown", name)
				}
			}
		})
	}
}

func TestPhaseAfterUnknownPhase(t *testing.T) {
	r := runner{printf: t.Logf, now: time.Now, gate: newGate()}
	if err := r.run([]phase{{name: "a", after: []string{"b"}}}); err == nil {
		t.Error("accepted")
	}
}

// TestBootOrder holds the boot to what the design promises.
func TestBootOrder(t *testing.T) {
	list := (&node{}).phases()
	needs := map[string][]string{} // with everything before it
	for _, p := range list {
		if needs[p.name] != nil {
			t.Errorf("two phases are called %s", p.name)
		}
		all := []string{}
		for _, a := range p.after {
			if needs[a] == nil {
				t.Fatalf("phase %s comes after %q, which is not before it", p.name, a)
			}
			all = append(append(all, a), needs[a]...)
		}
		needs[p.name] = all
	}
	for _, slow := range []string{"modules", "network", "sysctls", "socket"} {
		if slices.Contains(needs["runtime"], slow) {
			t.Errorf("the runtime waits for %s", slow)
		}
	}
	if slices.Contains(needs["services"], "network") {
		t.Error("the kubelet waits for the network")
	}
	for _, early := range []string{"runtime ready", "socket", "etc"} {
		if !slices.Contains(needs["services"], early) {
			t.Errorf("the kubelet does not wait for %s", early)
		}
	}
}

// TestDocs keeps docs/init.md in step with the lists it describes.
func TestDocs(t *testing.T) {
	b, err := os.ReadFile("../docs/init.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(b)
	at := 0
	for i, p := range (&node{}).phases() {
		row := fmt.Sprintf("| %d | %s |", i+1, p.name)
		j := strings.Index(doc, row)
		if j < at {
			t.Errorf("docs/init.md: no row %q in its place", row)
			continue
		}
		at = j
	}
	for _, s := range power.Signals() {
		name := map[power.Action]string{power.PowerOff: "power-off", power.Reboot: "reboot", power.Report: "report", power.None: "nothing"}[s.Action]
		var row string
		for line := range strings.SplitSeq(doc, "\n") {
			if strings.Contains(line, "`"+signalName(s)+"`") {
				row = line
			}
		}
		if !strings.Contains(row, name) {
			t.Errorf("docs/init.md: the row of %s is %q, want %q in it", signalName(s), row, name)
		}
	}
	for _, f := range []string{logDir, "/etc/hosts", "/etc/resolv.conf", "/etc/machine-id", "garboard.hostname", consoleParam} {
		if !strings.Contains(doc, f) {
			t.Errorf("docs/init.md does not mention %s", f)
		}
	}
}

// The node pod alone is not shown: others of kube-system are.
func TestIsNodePod(t *testing.T) {
	n := &node{table: &table.Table{Services: []table.Service{{Name: "crio"}, {Name: "kubelet"}}}}
	for _, tt := range []struct {
		source string
		want   bool
	}{
		{"kube-system node-garboard init", true},
		{"kube-system node-edge-7 kubelet", true},
		{"kube-system node-garboard crio", true},
		{"kube-system node-local-dns-x7k2 node-cache", false},
		{"kube-system hello-garboard init", false},
		{"default node-garboard init", false},
	} {
		f := strings.Fields(tt.source)
		if got := n.isNodePod(f[0], f[1], f[2]); got != tt.want {
			t.Errorf("%s: %t", tt.source, got)
		}
	}
}

func signalName(s power.Signal) string {
	return unix.SignalName(s.Signal)
}
