package manifest

import (
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// listItems are the items of a List, as kubectl get -o yaml prints one.
func listItems(d *Document, n *yaml.Node) ([]*yaml.Node, error) {
	if version := scalar(n, "apiVersion"); version.Value != "v1" {
		return nil, d.Errorf(version.Line, "apiVersion %q: a List is of v1", version.Value)
	}
	var items *yaml.Node
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if seen[k.Value] {
			return nil, d.Errorf(k.Line, "%s is given twice", k.Value)
		}
		seen[k.Value] = true
		switch k.Value {
		case "apiVersion", "kind", "metadata":
		case "items":
			items = v
		default:
			return nil, d.Errorf(k.Line, "unknown field %s of a List", k.Value)
		}
	}
	switch {
	case items == nil:
		return nil, d.Errorf(n.Line, "a List has items")
	case items.Kind == yaml.AliasNode || items.Anchor != "":
		return nil, d.Errorf(items.Line, "items: anchors and aliases are not read; write the value out")
	case items.Kind != yaml.SequenceNode:
		return nil, d.Errorf(items.Line, "items is a list, not %s", what(items))
	case len(items.Content) == 0:
		return nil, d.Errorf(items.Line, "items is empty: there is nothing to read")
	}
	return items.Content, nil
}

// template is where a DaemonSet has its pod.
const template = "spec.template."

// daemonSet makes the one Pod that a DaemonSet has on a machine: its template, under its
// own name and in its own namespace.
func (d *Document) daemonSet(n *yaml.Node, version yaml.Node) error {
	if version.Value != "apps/v1" {
		return d.Errorf(version.Line, "apiVersion %q: a DaemonSet is of apps/v1", version.Value)
	}
	d.Of = "DaemonSet"
	object, err := d.decode(n, reflect.TypeFor[appsv1.DaemonSet]())
	if err != nil {
		return err
	}
	set := object.(*appsv1.DaemonSet)
	for i := range d.Fields {
		f := &d.Fields[i]
		path, inside := strings.CutPrefix(f.Path, template)
		switch {
		case inside && path != "metadata.name" && path != "metadata.namespace":
			f.Path, f.Schema = path, strings.TrimPrefix(f.Schema, template)
		case !ownField(f.Path):
			f.Path, f.Schema = d.Of+"."+f.Path, d.Of+"."+f.Schema
		}
	}
	d.Pod = &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: set.Spec.Template.ObjectMeta, Spec: set.Spec.Template.Spec}
	d.Pod.Name, d.Pod.Namespace = set.Name, set.Namespace
	return d.checkSet(set)
}

// ownField says whether a field of a DaemonSet is the pod's as well.
func ownField(path string) bool {
	return path == "apiVersion" || path == "kind" || path == "metadata.name" || path == "metadata.namespace"
}

// checkSet is what an API server demands of a DaemonSet beside what it does of a Pod.
func (d *Document) checkSet(set *appsv1.DaemonSet) error {
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		return d.Errorf(d.LineOf("DaemonSet.spec.selector"), "spec.selector: %v", err)
	}
	if set.Spec.Selector == nil || selector.Empty() || !selector.Matches(labels.Set(d.Pod.Labels)) {
		return d.Errorf(d.LineOf("DaemonSet.spec.selector"), "spec.selector has to match spec.template.metadata.labels, or the DaemonSet would not know its pods")
	}
	if p := d.Pod.Spec.RestartPolicy; p != "" && p != corev1.RestartPolicyAlways {
		return d.Errorf(d.LineOf("spec.restartPolicy"), "spec.template.spec.restartPolicy: %q: a DaemonSet's pods have Always", p)
	}
	return nil
}

// Where is the path, in the file, of a field of the Pod or of what holds it.
func (d *Document) Where(path string) string {
	if d.Of == "" || ownField(path) {
		return path
	}
	if own, ok := strings.CutPrefix(path, d.Of+"."); ok {
		return own
	}
	return template + path
}
