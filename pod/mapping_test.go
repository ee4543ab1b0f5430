package pod

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

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
	fields(reflect.TypeFor[appsv1.DaemonSet](), "DaemonSet", hasEntry, func(f string) {
		if inside := strings.HasPrefix(f, "DaemonSet.spec.template."); !inside && !hasEntry(f) && f != "DaemonSet.kind" && f != "DaemonSet.apiVersion" {
			t.Errorf("%s has no entry in the mapping", f)
		}
	})
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
	walk(reflect.TypeFor[appsv1.DaemonSet](), "DaemonSet")
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
