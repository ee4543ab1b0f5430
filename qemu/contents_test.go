package qemu

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"garboard.local/builder/recipe"
	"garboard.local/builder/report"
	"garboard.local/contents"
	"garboard.local/contents/observed"
)

// nodeContents asks the tester what it saw, first of the node as it is and then
// of the node it had spoilt.
func nodeContents(t *testing.T, tester int) (clean, spoilt *observed.Node, err error) {
	c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", tester), 5*time.Second)
	if err != nil {
		return nil, nil, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return nil, nil, err
	}
	if _, err := io.WriteString(c, "contents\n"); err != nil {
		return nil, nil, err
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		return nil, nil, err
	}
	answer, err := io.ReadAll(c)
	if err != nil {
		return nil, nil, fmt.Errorf("the tester's word on the node's contents: %w", err)
	}
	if err := os.WriteFile(filepath.Join(t.ArtifactDir(), "contents.json"), answer, 0o644); err != nil {
		return nil, nil, err
	}
	_, js, _ := bytes.Cut(answer, []byte("\n")) // the greeting
	var looks []*observed.Node
	if err := json.Unmarshal(js, &looks); err != nil || len(looks) != 2 {
		return nil, nil, fmt.Errorf("the tester's word on the node's contents: %d looks in %d bytes: %v", len(looks), len(js), err)
	}
	return looks[0], looks[1], nil
}

// testerProcesses are those of the test image's own pods.
var testerProcesses = []contents.ProcessRule{
	{Program: "tester", Parent: "conmon", Args: "/tester run", UID: "0", Caps: "all", Seccomp: "0", Cgroup: "/kubepods/**", Need: true, Why: "privileged"},
	// What a pod gets that asks for nothing: the runtime's default capabilities, and the seccomp filter.
	{Program: "tester", Parent: "conmon", Args: "/tester seccomp", UID: "0", Caps: "00000000000005fb", Seccomp: "2", OOM: "1000", Cgroup: "/kubepods/**", Need: true},
	{Program: "tester", Parent: "conmon", Args: "/tester sigterm", UID: "0", Caps: "00000000000005fb", Seccomp: "2", OOM: "1000", Cgroup: "/kubepods/**", Need: true},
}

// spoiltOnPurpose is what the comparison must find after the tester's spoil, no
// more and no less: kind, what and name of each difference.
var spoiltOnPurpose = []string{
	"extra file /run/garboard/spoilt",
	"different file /run/system.sock",
	"different file /etc/nsswitch.conf",
	"different file /usr/bin/nsenter",
	"extra mount /usr/bin/nsenter",
	"different mount /dev/shm",
	"different sysctl kernel.sysrq",
	"different cgroup garboard/kubelet/cpu.weight",
	"extra socket tcp 127.0.0.1:18081",
	"extra socket unix @spoilt",
	"different process kubelet",
}

// nodeIsAsDocumented compares the running node with the list of which
// docs/node-contents.md is made, and demands that the same comparison finds what
// was spoilt on purpose. It is part of the node's longest boot.
func nodeIsAsDocumented(t *testing.T, tester int, image string) error {
	r, err := recipe.Load("../recipes/test.yaml")
	if err != nil {
		return err
	}
	m, err := report.ReadManifest(filepath.Join(*imagesFlag, image))
	if err != nil {
		return err
	}
	if r, err = r.For(m.Arch); err != nil {
		return err
	}
	x, err := contents.New(r, m, testerProcesses...)
	if err != nil {
		return err
	}
	clean, spoilt, err := nodeContents(t, tester)
	if err != nil {
		return err
	}
	for _, d := range x.Compare(clean) {
		t.Errorf("not as documented: %s", d)
	}
	var found []string
	for _, d := range x.Compare(spoilt) {
		t.Logf("spoilt on purpose: %s", d)
		found = append(found, fmt.Sprintf("%s %s %s", d.Kind, d.What, d.Name))
	}
	slices.Sort(found)
	if want := slices.Sorted(slices.Values(spoiltOnPurpose)); !slices.Equal(found, want) {
		t.Errorf("of the spoilt node the comparison finds\n%s\nwant\n%s", strings.Join(found, "\n"), strings.Join(want, "\n"))
	}
	return nil
}
