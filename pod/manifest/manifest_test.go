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
		{"unknown kind", "kind: Pod", "kind: Widget", `kind "Widget"`},
		{"list", "kind: Pod", "kind: List", "documents of their own"},
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

func TestReadFile(t *testing.T) {
	if _, err := ReadFile(t.TempDir() + "/none.yaml"); !os.IsNotExist(err) && (err == nil || !strings.Contains(err.Error(), "none.yaml")) {
		t.Errorf("error %v", err)
	}
}

// FuzzRead: whatever the bytes are, there is an error with a place or documents
// whose fields have lines.
func FuzzRead(f *testing.F) {
	f.Add([]byte(good))
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
