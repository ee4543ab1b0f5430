package pod

import (
	"flag"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"garboard.local/init/logs"
	"garboard.local/init/table"
)

var update = flag.Bool("update", false, "rewrite testdata/node.yaml")

func TestNodePod(t *testing.T) {
	got, err := NodePod("localhost/garboard/node-logs:1", []table.Service{{Name: "containerd"}, {Name: "kubelet"}})
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/node.yaml"
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("is not %s (go test ./pod -update writes it):\n%s", golden, got)
	}
	var p corev1.Pod
	if err := yaml.UnmarshalStrict(got, &p); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range p.Spec.Containers {
		names = append(names, c.Name)
		if sc := c.SecurityContext; !*sc.ReadOnlyRootFilesystem || *sc.AllowPrivilegeEscalation || sc.Capabilities.Drop[0] != "ALL" || !c.VolumeMounts[0].ReadOnly {
			t.Errorf("container %s has more than it needs", c.Name)
		}
	}
	if strings.Join(names, " ") != "containerd kubelet init" {
		t.Errorf("containers %q", names)
	}
	if sc := p.Spec.SecurityContext; *sc.RunAsGroup != logs.Group || *sc.RunAsUser == 0 || !*sc.RunAsNonRoot {
		t.Errorf("runs as %d:%d; the logs are for group %d", *sc.RunAsUser, *sc.RunAsGroup, logs.Group)
	}
}

func TestNodePodNamesAreUnique(t *testing.T) {
	if _, err := NodePod("x", []table.Service{{Name: "init"}}); err == nil || !strings.Contains(err.Error(), `service "init"`) {
		t.Errorf("err = %v", err)
	}
}
