package pod

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"garboard.local/pod/manifest"
	"garboard.local/pod/seccomp"
)

// filtered are the services of a pod of containers with one security context each.
func filtered(t *testing.T, node Node, pod string, containers ...string) []Service {
	t.Helper()
	var b strings.Builder
	security := func(s string) string {
		if s == "" {
			return ""
		}
		return ", securityContext: {" + s + "}"
	}
	fmt.Fprintf(&b, "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [")
	for i, c := range containers {
		fmt.Fprintf(&b, "{name: c%d, command: [/c]%s}, ", i, security(c))
	}
	fmt.Fprintf(&b, "]%s}}\n", security(pod))
	docs, err := manifest.Read("p.yaml", []byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := Translate(docs[0], Options{Target: Init, Node: node})
	if err != nil {
		t.Fatal(err)
	}
	return p.Services
}

// A container has the filter that is nearest to it, for its capabilities.
func TestSeccompProfiles(t *testing.T) {
	const byDefault, local = "seccompProfile: {type: RuntimeDefault}", "seccompProfile: {type: Localhost, localhostProfile: testdata/seccomp.json}"
	for _, arch := range seccomp.Arches() {
		s := filtered(t, Node{Arch: arch}, byDefault, "", "seccompProfile: {type: Unconfined}", "privileged: true", "capabilities: {drop: [ALL]}", local, local+", capabilities: {drop: [ALL]}")
		program := func(p *seccomp.Profile, caps []string) []byte {
			f, err := p.Filter(seccomp.Target{Arch: arch, Caps: caps})
			if err != nil {
				t.Fatal(err)
			}
			return f.Program
		}
		d, _, err := seccomp.Default()
		if err != nil {
			t.Fatal(err)
		}
		own, err := (&translation{findings: &findings{doc: &manifest.Document{File: "p.yaml"}}}).profile("testdata/seccomp.json")
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range [][]byte{program(d, nil), nil, nil, program(d, []string{}), program(own, nil), program(own, []string{})} {
			switch got := s[i].Filter; {
			case want == nil && got != nil:
				t.Errorf("%s: container %d has a filter", arch, i)
			case want != nil && (got == nil || !bytes.Equal(got.Program, want)):
				t.Errorf("%s: container %d has %+v, want %d bytes", arch, i, got, len(want))
			}
		}
		if slices.Equal(s[0].Filter.Program, s[3].Filter.Program) || slices.Equal(s[4].Filter.Program, s[5].Filter.Program) {
			t.Errorf("%s: capabilities make no difference", arch)
		}
	}
	if none := filtered(t, Node{}, "", ""); none[0].Filter != nil {
		t.Error("a filter that nobody asked for")
	}
}

// The filter is in the table, and a table with a broken one is refused.
func TestSeccompInTheTable(t *testing.T) {
	docs, err := manifest.Read("p.yaml", []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {securityContext: {seccompProfile: {type: RuntimeDefault}}, containers: [{name: c, command: [/c]}]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := Translate(docs[0], Options{Target: Init, Node: Node{Arch: "arm64"}})
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := Table([]*Plan{p})
	if err != nil || compiled.Services[0].Seccomp == nil {
		t.Fatalf("%+v, %v", compiled, err)
	}
	p.Services[0].Filter.Program = p.Services[0].Filter.Program[:9]
	if _, err := Table([]*Plan{p}); err == nil || !strings.Contains(err.Error(), "service p: a seccomp program of 9 bytes") {
		t.Errorf("%v", err)
	}
}
