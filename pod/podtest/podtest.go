// Package podtest proves that the mapping of package pod tells the truth: what
// it calls supported makes a difference, whoever the plan is written for.
package podtest

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"garboard.local/pod"
	"garboard.local/pod/manifest"
)

// OneValue are fields that some values are supported of, which make no
// difference then, with a value that is refused; nil if any value is one of them.
func OneValue() map[pod.Target]map[string]any {
	const containers = "spec.containers[]"
	return map[pod.Target]map[string]any{
		pod.Systemd: {
			"apiVersion": "v2", "kind": "Job", "spec.os": "windows", "spec.hostUsers": false, "spec.setHostnameAsFQDN": true,
			"spec.shareProcessNamespace": true, "spec.automountServiceAccountToken": true, "spec.dnsPolicy": "ClusterFirstWithHostNet",
			containers + ".ports[].hostPort": 81, containers + ".securityContext.procMount": "Unmasked", containers + ".securityContext.runAsNonRoot": nil,
			"spec.securityContext.runAsNonRoot": nil, "spec.securityContext.supplementalGroupsPolicy": nil, "spec.serviceAccount": nil,
			containers + ".stdin": true, containers + ".stdinOnce": true, containers + ".tty": true,
			containers + ".volumeMounts[].recursiveReadOnly": nil, containers + ".volumeMounts[].mountPropagation": "Bidirectional",
		},
		pod.Init: {
			"apiVersion": "v2", "kind": "Job", "spec.os": "windows", "spec.hostUsers": false, "spec.shareProcessNamespace": false,
			"spec.hostNetwork": false, "spec.hostPID": false, "spec.hostIPC": false, "spec.dnsPolicy": "None", "spec.volumes[].hostPath.type": "FileOrCreate",
			"spec.automountServiceAccountToken": true, containers + ".ports[].hostPort": 81, containers + ".securityContext.procMount": "Unmasked",
			containers + ".securityContext.readOnlyRootFilesystem": false, containers + ".securityContext.appArmorProfile": nil,
			containers + ".securityContext.runAsNonRoot": nil, "spec.securityContext.runAsNonRoot": nil,
			"spec.securityContext.supplementalGroupsPolicy": nil, "spec.serviceAccount": nil,
			containers + ".stdin": true, containers + ".stdinOnce": true, containers + ".tty": true, containers + ".volumeMounts[].mountPropagation": "Bidirectional", containers + ".volumeMounts[].recursiveReadOnly": nil,
		},
	}
}

// OtherValuesAreRefused proves that other values of those fields are refused
// where they stand; file is where a target's manifests are.
func OtherValuesAreRefused(t *testing.T, file func(pod.Target) string) {
	t.Helper()
	for target, fields := range OneValue() {
		raw, err := os.ReadFile(file(target))
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
				_, _, err = pod.Translate(docs[0], pod.Options{Target: target, Objects: docs})
			}
			if last := schema[strings.LastIndexByte(schema, '.')+1:]; err == nil || !strings.Contains(err.Error(), last) {
				t.Errorf("%s for %s: %v makes the error %v", where, target, value, err)
			}
		}
	}
}

// own is the row of an init container's own that is nearest to a field, or "".
func own(schema string) string {
	best := ""
	for _, e := range pod.Mapping() {
		if strings.HasPrefix(e.Field, "spec.initContainers[]") && len(e.Field) > len(best) && (schema == e.Field || strings.HasPrefix(schema, e.Field+".")) {
			best = e.Field
		}
	}
	return best
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

// Effects proves that every supported field is set by one of the manifests of a
// file, and that without it what comes out (result) is different. So nothing
// is called supported that is not done.
func Effects(t *testing.T, file string, target pod.Target, result func(docs []*manifest.Document) string) {
	t.Helper()
	raw, err := os.ReadFile(file)
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
	effective := map[string]bool{}
	for i, part := range strings.Split(string(raw), "\n---\n") {
		var v any
		if err := yaml.Unmarshal([]byte(part), &v); err != nil {
			t.Fatal(err)
		}
		for _, f := range docs[i].Fields {
			e, _ := pod.Lookup(f.Schema, target)
			own := own(f.Schema)
			if effective[e.Field] && effective[own] || docs[i].Pod == nil {
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
			effective[own] = effective[own] || differs
		}
	}
	for _, e := range pod.Mapping() {
		_, only := OneValue()[target][e.Field]
		switch _, tried := effective[e.Field]; {
		case e.For(target).Verdict != pod.Supported || only:
		case !tried:
			t.Errorf("%s is supported for %s, but no manifest in testdata uses it", e.Field, target)
		case !effective[e.Field]:
			t.Errorf("%s is supported for %s, but makes no difference", e.Field, target)
		}
	}
}
