package pod

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"garboard.local/init/table"
	"garboard.local/pod/manifest"
)

// fields visits every field of a type of the API, at any depth, that has no
// fields of its own or whose path stop accepts.
func fields(t reflect.Type, at string, stop func(string) bool, visit func(string)) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case at != "" && stop(at), manifest.Plain(t):
		visit(at)
	case t.Kind() == reflect.Map:
		visit(at)
	case t.Kind() == reflect.Slice && manifest.Plain(t.Elem()):
		visit(at)
	case t.Kind() == reflect.Slice:
		fields(t.Elem(), at+"[]", stop, visit)
	default:
		for _, m := range manifest.Members(t) {
			fields(m.Type, strings.TrimPrefix(at+"."+m.Name, "."), stop, visit)
		}
	}
}

// Every field of a Pod has an entry: a new version of Kubernetes that adds one
// fails here until somebody has decided about it.
func TestEveryFieldHasAnEntry(t *testing.T) {
	x := newIndex()
	n := 0
	hasEntry := func(f string) bool { _, ok := x.find(f, Systemd); return ok }
	fields(reflect.TypeFor[corev1.Pod](), "", hasEntry, func(f string) {
		n++
		if !hasEntry(f) {
			t.Errorf("%s has no entry in the mapping", f)
		}
	})
	if n < 200 {
		t.Errorf("only %d fields were visited", n)
	}
	// Direct fields of PodSpec and Container, by name, beside the walk.
	for _, c := range []struct {
		t  reflect.Type
		at string
	}{{reflect.TypeFor[corev1.PodSpec](), "spec"}, {reflect.TypeFor[corev1.Container](), containers}} {
		for _, m := range manifest.Members(c.t) {
			f, found := c.at+"."+m.Name, false
			for field := range x {
				found = found || field == f || strings.HasPrefix(field, f+".") || strings.HasPrefix(field, f+"[]")
			}
			if !found {
				t.Errorf("%s has no row", f)
			}
		}
	}
}

// Negative control: the walk notices a field that the mapping lacks.
func TestFieldWithoutEntryIsNoticed(t *testing.T) {
	type future struct {
		corev1.PodSpec `json:",inline"`
		Teleport       *string `json:"teleport"`
	}
	x := newIndex()
	var missing []string
	fields(reflect.TypeFor[future](), "spec", func(f string) bool { return false }, func(f string) {
		if _, ok := x.find(f, Systemd); !ok {
			missing = append(missing, f)
		}
	})
	if !slices.Equal(missing, []string{"spec.teleport"}) {
		t.Errorf("missing are %q", missing)
	}
}

// Every entry is for a field that exists, once, and says why.
func TestEntriesAreForFields(t *testing.T) {
	known := map[string]bool{}
	var walk func(t reflect.Type, at string)
	walk = func(t reflect.Type, at string) {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		known[at] = true
		switch {
		case manifest.Plain(t):
		case t.Kind() == reflect.Slice:
			walk(t.Elem(), at+"[]")
		case t.Kind() == reflect.Struct:
			for _, m := range manifest.Members(t) {
				walk(m.Type, strings.TrimPrefix(at+"."+m.Name, "."))
			}
		}
	}
	walk(reflect.TypeFor[corev1.Pod](), "")
	seen := map[string]bool{}
	for _, e := range Mapping() {
		if !known[e.Field] {
			t.Errorf("%s: there is no such field", e.Field)
		}
		if seen[e.Field] {
			t.Errorf("%s has two entries", e.Field)
		}
		seen[e.Field] = true
		for _, target := range []Target{Init, Systemd} {
			r := e.For(target)
			if r.Text == "" || !slices.Contains([]Verdict{Supported, Ignored, Refused}, r.Verdict) {
				t.Errorf("%s for %s: %q %q", e.Field, target, r.Verdict, r.Text)
			}
		}
	}
}

// docs/pod-mapping.md is generated from the table.
func TestMappingDocument(t *testing.T) {
	const file = "../docs/pod-mapping.md"
	if *update {
		if err := os.WriteFile(file, []byte(Markdown()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != Markdown() {
		t.Errorf("%s is not what the table says (%v); go test ./pod -update writes it", file, err)
	}
}

// valueOnly are fields that some values are supported of, which make no
// difference then, with a value that is refused.
var valueOnly = map[Target]map[string]any{
	Systemd: {
		"apiVersion": "v2", "kind": "Job", "spec.os": "windows", "spec.hostUsers": false, "spec.setHostnameAsFQDN": true,
		"spec.shareProcessNamespace": true, "spec.automountServiceAccountToken": true, "spec.dnsPolicy": "ClusterFirstWithHostNet",
		containers + ".ports[].hostPort": 81, containers + ".securityContext.procMount": "Unmasked", containers + ".securityContext.runAsNonRoot": nil,
		"spec.securityContext.runAsNonRoot": nil, "spec.securityContext.supplementalGroupsPolicy": nil, "spec.serviceAccount": nil,
		containers + ".stdin": true, containers + ".stdinOnce": true, containers + ".tty": true,
		containers + ".volumeMounts[].recursiveReadOnly": nil, containers + ".volumeMounts[].mountPropagation": "Bidirectional",
	},
	Init: {
		"apiVersion": "v2", "kind": "Job", "spec.os": "windows", "spec.hostUsers": false, "spec.shareProcessNamespace": false,
		"spec.hostNetwork": false, "spec.hostPID": false, "spec.hostIPC": false, "spec.dnsPolicy": "None", "spec.volumes[].hostPath.type": "FileOrCreate",
		"spec.automountServiceAccountToken": true, containers + ".ports[].hostPort": 81, containers + ".securityContext.procMount": "Unmasked",
		containers + ".securityContext.readOnlyRootFilesystem": false, containers + ".securityContext.seccompProfile": nil, containers + ".securityContext.appArmorProfile": nil,
		containers + ".securityContext.runAsNonRoot": nil, "spec.securityContext.runAsNonRoot": nil,
		"spec.securityContext.supplementalGroupsPolicy": nil, "spec.serviceAccount": nil,
		containers + ".stdin": true, containers + ".stdinOnce": true, containers + ".tty": true, containers + ".volumeMounts[].mountPropagation": nil,
	},
}

// Other values of those fields are refused where they stand.
func TestOtherValuesAreRefused(t *testing.T) {
	for target, fields := range valueOnly {
		raw, err := os.ReadFile("testdata/everything-" + string(target) + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.Split(string(raw), "\n---\n")
		for schema, value := range fields {
			if value == nil { // any value will do
				continue
			}
			var where string
			var part int
			for i := range parts {
				docs, err := manifest.Read("x", []byte(parts[i]))
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range docs[0].Fields {
					if where == "" && docs[0].Pod != nil && strings.HasPrefix(f.Schema, schema) {
						where, part = f.Path, i
					}
				}
			}
			if where == "" {
				where = strings.ReplaceAll(schema, "[]", "[0]") // absent there
			}
			var v any
			if err := yaml.Unmarshal([]byte(parts[part]), &v); err != nil {
				t.Fatal(err)
			}
			b, err := yaml.Marshal(edit(v, where, value))
			if err != nil {
				t.Fatal(err)
			}
			docs, err := manifest.Read("x", append(b, "\n---\n"+parts[len(parts)-1]...))
			if err == nil {
				_, _, err = Translate(docs[0], Options{Target: target, Objects: docs})
			}
			if last := schema[strings.LastIndexByte(schema, '.')+1:]; err == nil || !strings.Contains(err.Error(), last) {
				t.Errorf("%s for %s: %v makes the error %v", where, target, value, err)
			}
		}
	}
}

// remove stands for no value in edit.
var remove = new(int)

func without(v any, path string) any { return edit(v, path, remove) }

// edit is a manifest with another value in one of its fields, which is named by its path.
func edit(v any, path string, value any) any {
	switch x := v.(type) {
	case map[string]any:
		out := map[string]any{}
		if _, ok := x[path]; !ok && value != remove && !strings.ContainsAny(path, ".[") {
			out[path] = value
		}
		for k, c := range x {
			switch rest, ok := strings.CutPrefix(path, k); {
			case path == k && value == remove:
			case path == k:
				out[k] = value
			case ok && strings.HasPrefix(rest, "."):
				out[k] = edit(c, rest[1:], value)
			case ok && strings.HasPrefix(rest, "["):
				out[k] = edit(c, rest, value)
			default:
				out[k] = c
			}
		}
		return out
	case []any:
		number, rest, _ := strings.Cut(strings.TrimPrefix(path, "["), "]")
		i, err := strconv.Atoi(number)
		if err != nil || i >= len(x) {
			return v
		}
		out := slices.Clone(x)
		out[i] = edit(x[i], strings.TrimPrefix(rest, "."), value)
		return out
	}
	return v
}

// testEffects: every supported field is set by
// one of the manifests in testdata/everything-TARGET, and without it what comes
// out is different. So nothing is called supported that is not done.
func testEffects(t *testing.T, target Target, result func(docs []*manifest.Document) string) {
	raw, err := os.ReadFile("testdata/everything-" + string(target) + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	docs, err := manifest.Read("everything.yaml", raw)
	if err != nil {
		t.Fatal(err)
	}
	before := result(docs)
	if strings.Contains(before, "everything.yaml") {
		t.Fatalf("the manifests themselves are refused: %s", before)
	}
	x := newIndex()
	effective := map[string]bool{}
	for i, part := range strings.Split(string(raw), "\n---\n") {
		var v any
		if err := yaml.Unmarshal([]byte(part), &v); err != nil {
			t.Fatal(err)
		}
		for _, f := range docs[i].Fields {
			e, _ := x.find(f.Schema, target)
			own, _ := x.nearest(f.Schema)
			if effective[e.Field] && effective[own.Field] || docs[i].Pod == nil {
				continue
			}
			b, err := yaml.Marshal(without(v, f.Path))
			if err != nil {
				t.Fatal(err)
			}
			changed := slices.Clone(docs)
			d, err := manifest.Read("everything.yaml", b)
			if err == nil {
				changed[i] = d[0]
			}
			differs := err != nil || result(changed) != before
			effective[e.Field] = effective[e.Field] || differs
			effective[own.Field] = effective[own.Field] || differs
		}
	}
	for _, e := range Mapping() {
		_, only := valueOnly[target][e.Field]
		switch _, tried := effective[e.Field]; {
		case e.For(target).Verdict != Supported || only:
		case !tried:
			t.Errorf("%s is supported for %s, but no manifest in testdata uses it", e.Field, target)
		case !effective[e.Field]:
			t.Errorf("%s is supported for %s, but makes no difference", e.Field, target)
		}
	}
}

// plans is everything that a translation makes.
func plans(docs []*manifest.Document, target Target) string {
	var b strings.Builder
	var all []*Plan
	for _, d := range docs {
		if d.Pod == nil {
			continue
		}
		p, _, err := Translate(d, Options{Target: target, Objects: docs, NodeIP: "192.0.2.1"})
		if err != nil {
			fmt.Fprintln(&b, err)
			continue
		}
		all = append(all, p)
	}
	if target == Init && b.Len() == 0 {
		services, err := Table(all)
		if err != nil {
			return err.Error()
		}
		js, err := JSON(&table.Table{Version: 1, Services: services})
		return fmt.Sprint(string(js), err)
	}
	for _, p := range all {
		p.Document = nil
		js, err := json.MarshalIndent(p, "", " ")
		fmt.Fprintln(&b, string(js), err)
	}
	return b.String()
}

func TestSupportedFieldsHaveAnEffect(t *testing.T) {
	for _, target := range []Target{Init, Systemd} {
		t.Run(string(target), func(t *testing.T) {
			testEffects(t, target, func(docs []*manifest.Document) string { return plans(docs, target) })
		})
	}
}
