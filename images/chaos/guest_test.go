package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestParseOrders(t *testing.T) {
	for _, tt := range []struct {
		cmdline string
		want    orders
		err     string
	}{
		{"quiet garboard.nonce=n garboard.chaos.port=4000 garboard.chaos.first=3 garboard.chaos.count=8\n", orders{"n", 4000, 3, 8, 0}, ""},
		{"garboard.nonce=n garboard.chaos.kills=2", orders{nonce: "n", kills: 2}, ""},
		{"garboard.chaos.port=4000", orders{}, "no garboard.nonce="},
		{"garboard.nonce=n garboard.chaos.port=x", orders{}, `"garboard.chaos.port=x" is no number`},
		{"garboard.nonce=n garboard.chaos.first=-1", orders{}, "is no number"},
	} {
		got, err := parseOrders(tt.cmdline)
		if tt.err == "" && (err != nil || got != tt.want) || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%q: %+v, %v", tt.cmdline, got, err)
		}
	}
}

func TestNumber(t *testing.T) {
	for in, want := range map[string]int{ref(7): 7, ref(0): 0, "127.0.0.1:5000/chaos:x": -1, "127.0.0.1:5000/other:1": -1, "": -1} {
		if got := number(in); got != want {
			t.Errorf("number(%q) = %d, want %d", in, got, want)
		}
	}
}

// The pods are those that have a manifest; half-written ones do not count.
func TestPods(t *testing.T) {
	var said []string
	g := &guest{root: t.TempDir(), say: func(format string, _ ...any) { said = append(said, format) }}
	if err := os.MkdirAll(g.manifests(), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{"hello.yaml", ".chaosload-9", "chaosload-x.yaml"} {
		if err := os.WriteFile(filepath.Join(g.manifests(), other), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, i := range []int{10, 2, 3} {
		if err := g.makePod(i); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.removePod(2); err != nil {
		t.Fatal(err)
	}
	if got, err := g.pods(); err != nil || !slices.Equal(got, []int{3, 10}) {
		t.Errorf("pods %v, %v", got, err)
	}
	if !running(map[string]bool{"chaosload-10-garboard": true}, 10) || running(map[string]bool{"chaosload-10-garboard": true}, 1) {
		t.Error("pods are taken for one another")
	}
	if len(said) != 4 {
		t.Errorf("said %q", said)
	}
}

func TestProcesses(t *testing.T) {
	proc := t.TempDir()
	for dir, files := range map[string]map[string]string{
		"self": {"cgroup": "0::/kubepods/besteffort/pod11/crio-1\n"},
		"10":   {"comm": "conmon\n", "cgroup": "0::/kubepods/besteffort/pod11/crio-conmon-1\n"},
		"11":   {"comm": "conmon\n", "cgroup": "0::/kubepods/besteffort/pod22/crio-conmon-2\n"},
		"12":   {"comm": "crio\n", "cgroup": "0::/garboard/crio\n"},
		"13":   {"comm": "conmon\n"}, // it is just ending
	} {
		if err := os.Mkdir(filepath.Join(proc, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(proc, dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, want := range map[string][]int{"conmon": {11}, "crio": {12}, "kubelet": nil} {
		if got, err := processes(proc, name); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v, want %v", name, got, err, want)
		}
	}
}
