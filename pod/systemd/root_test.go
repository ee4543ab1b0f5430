package systemd

import (
	"strings"
	"testing"

	"garboard.local/pod"
)

// A container writes to a layer of its own above its image, which goes with the pod; one
// that may not write has the image itself.
func TestLayers(t *testing.T) {
	plan := func(readOnly bool, root string) *pod.Plan {
		return &pod.Plan{Namespace: "ns", Name: "p-1", Services: []pod.Service{
			{Name: "a", Kind: pod.Container, Argv: []string{"/a"}, Restart: "Always", Root: root},
			{Name: "b", Kind: pod.Container, Argv: []string{"/b"}, Restart: "Always", Root: root, ReadOnly: readOnly},
		}}
	}
	text := func(p *pod.Plan) map[string]string {
		t.Helper()
		files, err := Units(p, Options{})
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for _, f := range files {
			out[f.Path[strings.LastIndexByte(f.Path, '/')+1:]] = string(f.Content)
		}
		return out
	}
	all := text(plan(true, "/i/.sha256-1/rootfs"))
	const mount = `run-garboard-pods-ns_p\x2d1-.root\x2da.mount`
	for file, wants := range map[string][]string{
		mount: {"\nRequires=pod-ns-p\\x2d1.service\n", "\nPartOf=pod-ns-p\\x2d1.target\n", "\nWhere=/run/garboard/pods/ns_p-1/.root-a\n",
			"\nOptions=lowerdir=/i/.sha256-1/rootfs,upperdir=/var/lib/garboard/pods/ns_p-1/.root-a/upper,workdir=/var/lib/garboard/pods/ns_p-1/.root-a/work\n"},
		`pod-ns-p\x2d1-a.service`: {"\nRootDirectory=/run/garboard/pods/ns_p-1/.root-a\n", "\nRequires=" + mount + "\n", "\nAfter=" + mount + "\n"},
		`pod-ns-p\x2d1-b.service`: {"\nRootDirectory=/i/.sha256-1/rootfs\n"},
		"tmpfiles.conf":           {"\nD /var/lib/garboard/pods/ns_p-1/.root-a 0700 - - -\n", "/.root-a/upper 0755 - - -\n"},
	} {
		for _, want := range wants {
			if !strings.Contains(all[file], want) {
				t.Errorf("%s has no %q:\n%s", file, want, all[file])
			}
		}
	}
	if strings.Contains(all["tmpfiles.conf"], ".root-b") || strings.Contains(all[`pod-ns-p\x2d1-b.service`], ".mount") {
		t.Error("a container that may not write has a layer")
	}
	other := text(plan(false, "/i/.sha256-1/rootfs"))
	if other[`run-garboard-pods-ns_p\x2d1-.root\x2db.mount`] == "" {
		t.Error("the second container has no layer of its own")
	}
	if _, err := Units(plan(true, "/i:j/rootfs"), Options{}); err == nil || !strings.Contains(err.Error(), "no colon") {
		t.Errorf("a path that an overlay would split: %v", err)
	}
}
