package manifest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
	"go.yaml.in/yaml/v3"
)

// maxDepth bounds how deep a manifest nests; the types need less than 20.
const maxDepth = 64

// walker goes through a YAML document beside the Go type it is meant for.
type walker struct {
	doc   *Document
	depth int
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// whole says whether a type is a value to its users though it is a struct.
func whole(t reflect.Type) bool { return reflect.PointerTo(t).Implements(unmarshaler) }

// value checks a node and turns it into what encoding/json would have read.
func (w *walker) value(n *yaml.Node, t reflect.Type, at, schema string) (any, error) {
	if w.depth++; w.depth > maxDepth {
		return nil, w.doc.Errorf(n.Line, "%s nests deeper than %d", at, maxDepth)
	}
	defer func() { w.depth-- }()
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		return nil, w.doc.Errorf(n.Line, "%s: anchors and aliases are not read; write the value out", at)
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		return nil, nil // as if the field were not there, as for Kubernetes
	case whole(t):
		return w.opaque(n, t, at, schema)
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		if n.Kind != yaml.MappingNode {
			return nil, w.doc.Errorf(n.Line, "%s is a mapping, not %s", at, what(n))
		}
		return w.mapping(n, t, at, schema)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return w.bytes(n, at, schema)
		}
		if n.Kind != yaml.SequenceNode {
			return nil, w.doc.Errorf(n.Line, "%s is a list, not %s", at, what(n))
		}
		return w.list(n, t, at, schema)
	}
	v, err := w.scalar(n, t, at)
	if err != nil {
		return nil, err
	}
	return v, w.add(n, at, schema, v)
}

func what(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	return fmt.Sprintf("the value %q", n.Value)
}

// add keeps a value with its place.
func (w *walker) add(n *yaml.Node, at, schema string, v any) error {
	js, err := json.Marshal(v)
	if err != nil {
		return w.doc.Errorf(n.Line, "%s: %v", at, err)
	}
	w.doc.Fields = append(w.doc.Fields, Field{Path: at, Schema: schema, Line: n.Line, Value: string(js)})
	return nil
}

func (w *walker) mapping(n *yaml.Node, t reflect.Type, at, schema string) (any, error) {
	out := map[string]any{}
	var known []Member
	if t.Kind() == reflect.Struct {
		known = Members(t)
	}
	if len(n.Content) == 0 {
		return out, w.add(n, at, schema, out)
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, c := n.Content[i], n.Content[i+1]
		where := join(at, k.Value)
		if k.Kind != yaml.ScalarNode || k.Tag == "!!merge" {
			return nil, w.doc.Errorf(k.Line, "%s: a key is a plain word; merge keys are not read", at)
		}
		if _, twice := out[k.Value]; twice {
			return nil, w.doc.Errorf(k.Line, "%s is given twice", where)
		}
		ft, below := t, schema
		if t.Kind() == reflect.Map {
			ft = t.Elem()
		} else {
			j := slices.IndexFunc(known, func(m Member) bool { return m.Name == k.Value })
			if j < 0 {
				return nil, w.doc.Errorf(k.Line, "unknown field %s%s", where, didYouMean(k.Value, known))
			}
			ft, below = known[j].Type, join(schema, k.Value)
		}
		v, err := w.value(c, ft, where, below)
		if err != nil {
			return nil, err
		}
		out[k.Value] = v
	}
	return out, nil
}

func join(at, name string) string { return strings.TrimPrefix(at+"."+name, ".") }

func (w *walker) list(n *yaml.Node, t reflect.Type, at, schema string) (any, error) {
	out := make([]any, 0, len(n.Content))
	scalars := Plain(t.Elem())
	mark := len(w.doc.Fields)
	for i, c := range n.Content {
		v, err := w.value(c, t.Elem(), fmt.Sprintf("%s[%d]", at, i), schema+"[]")
		if err != nil {
			return nil, err
		}
		if v == nil {
			return nil, w.doc.Errorf(c.Line, "%s[%d] is empty", at, i)
		}
		out = append(out, v)
	}
	if !scalars && len(out) > 0 {
		return out, nil
	}
	w.doc.Fields = w.doc.Fields[:mark] // one field, not one for each word
	return out, w.add(n, at, schema, out)
}

// Plain says whether values of a type have no fields of their own.
func Plain(t reflect.Type) bool {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return whole(t) || t.Kind() != reflect.Struct && t.Kind() != reflect.Map && t.Kind() != reflect.Slice
}

// yaml11 are words that are strings in YAML 1.2 and booleans for Kubernetes' reader.
var yaml11 = []string{"y", "Y", "n", "N", "yes", "Yes", "YES", "no", "No", "NO", "on", "On", "ON", "off", "Off", "OFF"}

func (w *walker) scalar(n *yaml.Node, t reflect.Type, at string) (any, error) {
	wrong := func(kind string) error { return w.doc.Errorf(n.Line, "%s is %s, not %s", at, kind, what(n)) }
	if n.Kind != yaml.ScalarNode {
		return nil, wrong(map[bool]string{true: "a string", false: "a single value"}[t.Kind() == reflect.String])
	}
	switch t.Kind() {
	case reflect.String:
		if n.Tag != "!!str" && n.Tag != "!!timestamp" {
			return nil, w.doc.Errorf(n.Line, "%s is a string, and %s without quotes is none: write %q", at, n.Value, n.Value)
		}
		if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0 && slices.Contains(yaml11, n.Value) {
			return nil, w.doc.Errorf(n.Line, "%s: Kubernetes takes %s without quotes for a boolean: write %q", at, n.Value, n.Value)
		}
		if strings.ContainsRune(n.Value, 0) {
			return nil, w.doc.Errorf(n.Line, "%s holds a NUL byte", at)
		}
		return n.Value, nil
	case reflect.Bool:
		var b bool
		if n.Tag != "!!bool" || n.Decode(&b) != nil {
			return nil, wrong("true or false")
		}
		return b, nil
	case reflect.Int, reflect.Int32, reflect.Int64:
		i := reflect.New(t)
		if n.Tag != "!!int" || n.Decode(i.Interface()) != nil {
			return nil, wrong("a whole number")
		}
		return i.Elem().Int(), nil
	}
	return nil, w.doc.Errorf(n.Line, "%s has a type that is not read (%s)", at, t)
}

// opaque reads a value whose type has a syntax of its own, such as a quantity.
func (w *walker) opaque(n *yaml.Node, t reflect.Type, at, schema string) (any, error) {
	var v any
	if n.Kind != yaml.ScalarNode {
		if err := n.Decode(&v); err != nil {
			return nil, w.doc.Errorf(n.Line, "%s: %v", at, err)
		}
	} else if v = n.Value; n.Tag == "!!int" || n.Tag == "!!float" {
		v = json.RawMessage(n.Value)
	}
	js, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(js, reflect.New(t).Interface())
	}
	if err != nil {
		return nil, w.doc.Errorf(n.Line, "%s: %s: %v", at, what(n), err)
	}
	return v, w.add(n, at, schema, v)
}

func (w *walker) bytes(n *yaml.Node, at, schema string) (any, error) {
	s := strings.Map(func(r rune) rune {
		if r == '\n' || r == ' ' {
			return -1
		}
		return r
	}, n.Value)
	if n.Kind != yaml.ScalarNode {
		return nil, w.doc.Errorf(n.Line, "%s is base64, not %s", at, what(n))
	}
	if _, err := base64.StdEncoding.DecodeString(s); err != nil {
		return nil, w.doc.Errorf(n.Line, "%s is not base64: %v", at, err)
	}
	return s, w.add(n, at, schema, "(base64)")
}

// Member is a field of an API type by its name in manifests.
type Member struct {
	Name string
	Type reflect.Type
}

// Members are the fields of a struct of the API, those of inlined structs included.
func Members(t reflect.Type) []Member {
	var out []Member
	for i := range t.NumField() {
		f := t.Field(i)
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case name == "" && (f.Anonymous || strings.Contains(opts, "inline")):
			out = append(out, Members(f.Type)...)
		default:
			out = append(out, Member{name, f.Type})
		}
	}
	return out
}

func didYouMean(name string, known []Member) string {
	best, score := "", 0.0
	for _, m := range known {
		if s := levenshtein.Similarity(name, m.Name, nil); s > score || s == score && m.Name < best {
			best, score = m.Name, s
		}
	}
	if score < 0.4 {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}
