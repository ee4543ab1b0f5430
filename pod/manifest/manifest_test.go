package manifest

import (
	"os"
	"strings"
	"testing"
)

const good = `apiVersion: v1
kind: Pod
metadata:
  name: a
  annotations: {x.y/z: "1"}
spec:
  terminationGracePeriodSeconds: 5
  hostNetwork: true
  containers:
    - name: c
      command: [/x, "y"]
      resources: {limits: {cpu: 1, memory: 1Mi}}
      env:
        - {name: A, value: "yes"}
        - name: B
          value: |
            two
            lines
  volumes:
    - {name: v, emptyDir: {}}
`

// What is wrong is named by file and line, with the nearest known name.
func TestErrors(t *testing.T) {
	for _, c := range []struct{ name, from, to, want string }{
		{"unknown field", "hostNetwork", "hostNetwrk", `p.yaml:8: unknown field spec.hostNetwrk; did you mean "hostNetwork"?`},
		{"unknown field in a list", "command", "comand", `p.yaml:11: unknown field spec.containers[0].comand; did you mean "command"?`},
		{"nothing near", "hostNetwork", "qqqqqqqqqqqqqqq", "unknown field spec.qqqqqqqqqqqqqqq"},
		{"twice", "  hostNetwork: true\n", "  hostNetwork: true\n  hostNetwork: false\n", "p.yaml:9: spec.hostNetwork is given twice"},
		{"string for a number", "Seconds: 5", "Seconds: five", `p.yaml:7: spec.terminationGracePeriodSeconds is a whole number, not the value "five"`},
		{"string for a boolean", "hostNetwork: true", "hostNetwork: yes", "spec.hostNetwork is true or false"},
		{"number for a string", `value: "yes"`, "value: 1", `spec.containers[0].env[0].value is a string, and 1 without quotes is none: write "1"`},
		{"boolean of YAML 1.1", `value: "yes"`, "value: yes", `Kubernetes takes yes without quotes for a boolean: write "yes"`},
		{"scalar for a list", `[/x, "y"]`, "/x", `spec.containers[0].command is a list, not the value "/x"`},
		{"list for a mapping", "{limits: {cpu: 1, memory: 1Mi}}", "[a]", "spec.containers[0].resources is a mapping, not a list"},
		{"mapping for a string", "name: c", "name: {a: b}", "spec.containers[0].name is a string, not a mapping"},
		{"quantity", "1Mi", "1 MB", "p.yaml:12: spec.containers[0].resources.limits.memory"},
		{"empty item", `[/x, "y"]`, "[/x, ]\n      args: [~]", "args[0] is empty"},
		{"alias", "name: c", "name: &n c", "anchors and aliases are not read"},
		{"another kind", "kind: Pod", "kind: Deployment", "p.yaml:2: kind Deployment: Pods are read; its spec.template makes one"},
		{"unknown kind", "kind: Pod", "kind: Widget", `kind "Widget": Pod, ConfigMap, Secret, DaemonSet and List are read`},
		{"no kind", "kind: Pod\n", "", "kind is missing"},
		{"list without items", "kind: Pod", "kind: List", "p.yaml:6: unknown field spec of a List"},
		{"set of another version", "kind: Pod", "kind: DaemonSet", `p.yaml:1: apiVersion "v1": a DaemonSet is of apps/v1`},
		{"version", "apiVersion: v1", "apiVersion: v2", `p.yaml:1: apiVersion "v2"`},
		{"scalar", good, "hello", "p.yaml:1: a manifest is a mapping"},
		{"nothing", good, "# nothing\n", "p.yaml:1: empty"},
		{"no YAML", good, "a: [", "p.yaml: yaml"},
		{"NUL", `"yes"`, `"a\0b"`, "NUL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := strings.Replace(good, c.from, c.to, 1)
			if in == good {
				t.Fatal("the case does not change the manifest")
			}
			if _, err := Read("p.yaml", []byte(in)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one that says %q", err, c.want)
			}
		})
	}
}

// Fields are in their order, each with its line; entries of maps have their map's schema.
func TestFields(t *testing.T) {
	docs, err := Read("p.yaml", []byte(good+"---\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {k: dg==}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if len(docs) != 2 || docs[0].Pod == nil || docs[1].Secret == nil || string(docs[1].Secret.Data["k"]) != "v" {
		t.Fatalf("documents %+v", docs)
	}
	byPath := map[string]Field{}
	for _, f := range docs[0].Fields {
		byPath[f.Path] = f
	}
	for _, want := range []Field{
		{"metadata.annotations.x.y/z", "metadata.annotations", 5, `"1"`},
		{"spec.containers[0].command", "spec.containers[].command", 11, `["/x","y"]`},
		{"spec.containers[0].resources.limits.cpu", "spec.containers[].resources.limits", 12, "1"},
		{"spec.containers[0].env[1].value", "spec.containers[].env[].value", 16, `"two\nlines\n"`},
		{"spec.volumes[0].emptyDir", "spec.volumes[].emptyDir", 20, "{}"},
	} {
		if got := byPath[want.Path]; got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	for path, line := range map[string]int{"spec.containers[0].command": 11, "spec.containers[0].absent.deep": 10, "spec.containers[1].x": 7, "absent": 1} {
		if got := docs[0].LineOf(path); got != line && path != "spec.containers[1].x" {
			t.Errorf("%s is at line %d, want %d", path, got, line)
		}
	}
}

// A List is its items, with their own lines.
func TestList(t *testing.T) {
	const list = "apiVersion: v1\nkind: List\nmetadata: {resourceVersion: \"\"}\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: a}\n- apiVersion: v1\n  kind: ConfigMap\n  metadata:\n    name: m\n"
	docs, err := Read("l.yaml", []byte("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n---\n"+list))
	if err != nil {
		t.Fatal(err)
	}
	if len(docs) != 3 || docs[1].Pod == nil || docs[2].ConfigMap == nil || docs[2].LineOf("metadata.name") != 15 {
		t.Errorf("documents %+v", docs)
	}
	for _, c := range [][3]string{
		{"kind: ConfigMap", "kind: List", "l.yaml:9: kind List: a List holds no other"},
		{"metadata: {name: a}", "metadata: {nam: a}", "l.yaml:7: unknown field metadata.nam"},
		{"items:\n", "items: &a\n", "anchors and aliases"},
		{"items:", "item:", "unknown field item of a List"},
		{"apiVersion: v1\nkind: List", "apiVersion: v2\nkind: List", "a List is of v1"},
		{list[strings.Index(list, "items:"):], "items: []\n", "items is empty"},
		{list[strings.Index(list, "items:"):], "items: 5\n", "items is a list, not"},
		{list[strings.Index(list, "items:"):], "", "a List has items"},
		{"items:\n", "kind: List\nitems:\n", "given twice"},
		{"- apiVersion: v1\n  kind: Pod\n  metadata: {name: a}", "- just words", "a manifest is a mapping"},
	} {
		in := strings.Replace(list, c[0], c[1], 1)
		if _, err := Read("l.yaml", []byte(in)); err == nil || !strings.Contains(err.Error(), c[2]) {
			t.Errorf("%q for %q: error %v, want %q", c[1], c[0], err, c[2])
		}
	}
}

const set = `apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: ns, labels: {of: the set}}
spec:
  selector: {matchLabels: {app: agent}}
  updateStrategy: {type: OnDelete}
  template:
    metadata:
      name: nobody reads this
      labels: {app: agent}
    spec:
      hostNetwork: true
      containers:
      - name: c
        command: [/c]
`

// A DaemonSet is the one pod of it that a machine has: called as the set is, labelled as
// its template says.
func TestDaemonSet(t *testing.T) {
	docs, err := Read("d.yaml", []byte(set))
	if err != nil {
		t.Fatal(err)
	}
	d := docs[0]
	if p := d.Pod; p == nil || p.Name != "agent" || p.Namespace != "ns" || len(p.Labels) != 1 || p.Labels["app"] != "agent" || !p.Spec.HostNetwork || d.Of != "DaemonSet" {
		t.Fatalf("pod %+v", d.Pod)
	}
	byPath := map[string]Field{}
	for _, f := range d.Fields {
		byPath[f.Path] = f
	}
	for path, want := range map[string]Field{
		"metadata.name":                         {Schema: "metadata.name", Line: 3},
		"DaemonSet.metadata.labels.of":          {Schema: "DaemonSet.metadata.labels", Line: 3},
		"DaemonSet.spec.updateStrategy.type":    {Schema: "DaemonSet.spec.updateStrategy.type", Line: 6},
		"DaemonSet.spec.template.metadata.name": {Schema: "DaemonSet.spec.template.metadata.name", Line: 9},
		"metadata.labels.app":                   {Schema: "metadata.labels", Line: 10},
		"spec.containers[0].command":            {Schema: "spec.containers[].command", Line: 15},
	} {
		if got := byPath[path]; got.Schema != want.Schema || got.Line != want.Line {
			t.Errorf("%s: %+v, want %+v", path, got, want)
		}
	}
	for path, want := range map[string]string{
		"spec.containers[0].name": "spec.template.spec.containers[0].name", "metadata.name": "metadata.name", "metadata.labels.app": "spec.template.metadata.labels.app",
		"DaemonSet.spec.selector": "spec.selector",
	} {
		if got := d.Where(path); got != want {
			t.Errorf("%s is at %s in the file, want %s", path, got, want)
		}
	}
	for _, c := range [][3]string{
		{"matchLabels: {app: agent}", "matchLabels: {app: other}", "d.yaml:5: spec.selector has to match spec.template.metadata.labels"},
		{"  selector: {matchLabels: {app: agent}}\n", "", "spec.selector has to match"},
		{"matchLabels: {app: agent}", "matchExpressions: [{key: app, operator: Like}]", "d.yaml:5: spec.selector:"},
		{"hostNetwork: true", "restartPolicy: Never", `d.yaml:12: spec.template.spec.restartPolicy: "Never": a DaemonSet's pods have Always`},
		{"hostNetwork: true", "hostNetwrk: true", `d.yaml:12: unknown field spec.template.spec.hostNetwrk; did you mean "hostNetwork"?`},
		{"updateStrategy", "replicas: 2\n  updateStrategy", "unknown field spec.replicas"},
		{"apps/v1", "apps/v1beta1", "a DaemonSet is of apps/v1"},
	} {
		in := strings.Replace(set, c[0], c[1], 1)
		if _, err := Read("d.yaml", []byte(in)); err == nil || !strings.Contains(err.Error(), c[2]) {
			t.Errorf("%q: error %v, want %q", c[1], err, c[2])
		}
	}
}

func TestReadFile(t *testing.T) {
	if _, err := ReadFile(t.TempDir() + "/none.yaml"); !os.IsNotExist(err) && (err == nil || !strings.Contains(err.Error(), "none.yaml")) {
		t.Errorf("error %v", err)
	}
}

// FuzzRead: whatever the bytes are, there is an error with a place or documents
// whose fields have lines.
func FuzzRead(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(set))
	f.Add([]byte("apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Pod}, {}]"))
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("apiVersion: v1\nkind: Pod\nspec: {containers: [{env: [{<<: {name: a}}]}]}"))
	f.Add([]byte("apiVersion: v1\nkind: Secret\ndata: {a: !!binary aGk=, b: 0x10}\n--- \n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		docs, err := Read("f", b)
		if err != nil && !strings.HasPrefix(err.Error(), "f:") {
			t.Errorf("an error without a place: %v", err)
		}
		for _, d := range docs {
			for _, x := range d.Fields {
				if x.Line < 1 || x.Path == "" {
					t.Errorf("%q: field %+v", b, x)
				}
			}
		}
	})
}
