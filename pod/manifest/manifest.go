// Package manifest reads Pod, ConfigMap and Secret manifests, Lists of them, and the pod
// of a DaemonSet, strictly: a field
// that the Kubernetes types do not have, one given twice, or a value of another
// kind is an error that names file, line and the nearest known field. What is
// read keeps its place, so that later findings can name a line too.
package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
)

// Document is one manifest of a file. Exactly one of Pod, ConfigMap and Secret is set.
type Document struct {
	File      string
	Line      int // where it begins
	Pod       *corev1.Pod
	ConfigMap *corev1.ConfigMap
	Secret    *corev1.Secret
	// Fields are the values that the manifest sets, in its order.
	Fields []Field
	// Of is "DaemonSet" where the Pod is made of one's template, and else empty. The
	// paths of Fields are the Pod's then; those that are about the DaemonSet alone begin
	// with its kind.
	Of string
}

// Field is one value of a manifest: a scalar, a list of scalars, an entry of a
// map, or a structure without a field.
type Field struct {
	Path   string // spec.containers[0].name
	Schema string // spec.containers[].name; an entry of a map has the path of its map
	Line   int
	Value  string // as JSON
}

// Error is a fault in a manifest.
type Error struct {
	File string
	Line int
	Text string
}

func (e *Error) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Text) }

// Errorf makes an Error at a line of the document.
func (d *Document) Errorf(line int, format string, args ...any) error {
	return &Error{d.File, line, fmt.Sprintf(format, args...)}
}

// LineOf is the line of a field, or of the nearest thing around it that the manifest has.
func (d *Document) LineOf(path string) int {
	best, line := -1, d.Line
	for _, f := range d.Fields {
		if n := common(f.Path, path); n > best {
			best, line = n, f.Line
		}
	}
	return line
}

// common is how many bytes of two paths agree, up to the end of a part.
func common(a, b string) int {
	n := 0
	for i := 0; ; i++ {
		endA, endB := i == len(a) || a[i] == '.' || a[i] == '[', i == len(b) || b[i] == '.' || b[i] == '['
		if endA && endB {
			n = i
		}
		if i == len(a) || i == len(b) || a[i] != b[i] {
			return n
		}
	}
}

// ReadFile reads every document of a file.
func ReadFile(file string) ([]*Document, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	return Read(file, b)
}

// kinds are the objects that are read, with the type of each.
var kinds = map[string]reflect.Type{
	"Pod": reflect.TypeFor[corev1.Pod](), "ConfigMap": reflect.TypeFor[corev1.ConfigMap](), "Secret": reflect.TypeFor[corev1.Secret](),
}

// withTemplate are kinds that hold a Pod somewhere below. How many of them a machine
// should run, and for how long, these kinds leave to a cluster.
var withTemplate = map[string]string{
	"Deployment": "spec.template", "StatefulSet": "spec.template", "ReplicaSet": "spec.template",
	"ReplicationController": "spec.template", "Job": "spec.template", "CronJob": "spec.jobTemplate.spec.template", "PodTemplate": "template",
}

// Read reads every document of b; file is the name in messages.
func Read(file string, b []byte) ([]*Document, error) {
	dec := yaml.NewDecoder(bytes.NewReader(b))
	var docs []*Document
	for {
		var n yaml.Node
		err := dec.Decode(&n)
		switch {
		case errors.Is(err, io.EOF) && len(docs) == 0:
			return nil, &Error{file, 1, "empty: a manifest of kind Pod is needed"}
		case errors.Is(err, io.EOF):
			return docs, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if len(n.Content) == 1 && n.Content[0].Tag == "!!null" {
			continue // nothing between two separators
		}
		parts, err := documents(file, n.Content[0])
		if err != nil {
			return nil, err
		}
		docs = append(docs, parts...)
	}
}

// documents is a manifest, or each item of a List.
func documents(file string, n *yaml.Node) ([]*Document, error) {
	if kind := scalar(n, "kind"); n.Kind != yaml.MappingNode || kind.Value != "List" {
		d, err := document(file, n)
		return []*Document{d}, err
	}
	items, err := listItems(&Document{File: file, Line: n.Line}, n)
	if err != nil {
		return nil, err
	}
	var docs []*Document
	for _, item := range items {
		d, err := document(file, item)
		if err != nil {
			return nil, err
		}
		docs = append(docs, d)
	}
	return docs, nil
}

func document(file string, n *yaml.Node) (*Document, error) {
	d := &Document{File: file, Line: n.Line}
	if n.Kind != yaml.MappingNode {
		return nil, d.Errorf(n.Line, "a manifest is a mapping with apiVersion, kind, metadata and spec")
	}
	kind, version := scalar(n, "kind"), scalar(n, "apiVersion")
	t, ok := kinds[kind.Value]
	switch {
	case withTemplate[kind.Value] != "":
		return nil, d.Errorf(kind.Line, "kind %s: Pods are read; its %s makes one, with apiVersion: v1, kind: Pod and a metadata.name", kind.Value, withTemplate[kind.Value])
	case kind.Value == "List":
		return nil, d.Errorf(kind.Line, "kind List: a List holds no other; write its items into one")
	case kind.Value == "DaemonSet":
		return d, d.daemonSet(n, version)
	case kind.Value == "":
		return nil, d.Errorf(n.Line, "kind is missing: Pod, ConfigMap, Secret, DaemonSet and List are read")
	case !ok:
		return nil, d.Errorf(kind.Line, "kind %q: Pod, ConfigMap, Secret, DaemonSet and List are read; leave others out of what is converted", kind.Value)
	case version.Value != "v1":
		return nil, d.Errorf(version.Line, "apiVersion %q: a %s is of v1", version.Value, kind.Value)
	}
	object, err := d.decode(n, t)
	if err != nil {
		return nil, err
	}
	switch o := object.(type) {
	case *corev1.Pod:
		d.Pod = o
	case *corev1.ConfigMap:
		d.ConfigMap = o
	case *corev1.Secret:
		d.Secret = o
	}
	return d, nil
}

// decode walks through a node and makes the object that it describes.
func (d *Document) decode(n *yaml.Node, t reflect.Type) (any, error) {
	w := &walker{doc: d}
	v, err := w.value(n, t, "", "")
	if err != nil {
		return nil, err
	}
	js, err := json.Marshal(v)
	if err != nil {
		return nil, d.Errorf(n.Line, "%v", err)
	}
	object := reflect.New(t).Interface()
	if err := json.Unmarshal(js, object); err != nil {
		return nil, d.Errorf(n.Line, "%v", err)
	}
	return object, nil
}

// scalar is the value of a key of a mapping; the mapping itself, without a value, if it has none.
func scalar(n *yaml.Node, key string) yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key && n.Content[i+1].Kind == yaml.ScalarNode {
			return *n.Content[i+1]
		}
	}
	return yaml.Node{Line: n.Line}
}
