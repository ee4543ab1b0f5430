package recipe

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/agext/levenshtein"
	"go.yaml.in/yaml/v3"
)

// maxExtends bounds a chain of recipes; a longer one is a loop.
const maxExtends = 16

// Load reads the recipe file and those it extends, and checks the result.
func Load(file string) (*Recipe, error) {
	r, err := load(file, 0)
	if err != nil {
		return nil, err
	}
	if r, err = withRuntime(r); err != nil {
		return nil, err
	}
	return r, r.Check()
}

// withRuntime adds what a recipe's runtime brings. It comes first in every list:
// the other services depend on it.
func withRuntime(r *Recipe) (*Recipe, error) {
	if r.Runtime == "" {
		return r, nil
	}
	b, err := os.ReadFile(r.Runtime)
	if err != nil {
		return nil, fmt.Errorf("recipe %s: runtime: %w", r.File, err)
	}
	part, err := Parse(r.Runtime, b)
	if err != nil {
		return nil, fmt.Errorf("%w\n  the runtime of %s", err, r.File)
	}
	if part.Name != "" || part.Extends != "" || part.Runtime != "" || len(part.Outputs) > 0 {
		return nil, fmt.Errorf("recipe %s: it is the runtime of %s, and so part of a recipe: without name, extends, runtime and outputs", r.Runtime, r.File)
	}
	merge(reflect.ValueOf(part).Elem(), reflect.ValueOf(r).Elem())
	return part, nil
}

func load(file string, depth int) (*Recipe, error) {
	if depth > maxExtends {
		return nil, fmt.Errorf("recipe %s: more than %d recipes extend each other; is there a loop?", file, maxExtends)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("recipe: %w", err)
	}
	r, err := Parse(file, b)
	if err != nil {
		return nil, err
	}
	if r.Extends == "" {
		return r, nil
	}
	base, err := load(filepath.Join(r.Dir, r.Extends), depth+1)
	if err != nil {
		return nil, fmt.Errorf("%w\n  extended by %s", err, file)
	}
	if r.Kernel.Package != "" || r.Kernel.OCI != "" { // one source takes the other's place
		base.Kernel.Package, base.Kernel.OCI = "", ""
	}
	merge(reflect.ValueOf(base).Elem(), reflect.ValueOf(r).Elem())
	return base, nil
}

// Parse reads one recipe document without following extends.
func Parse(file string, b []byte) (*Recipe, error) {
	dec := yaml.NewDecoder(bytes.NewReader(b))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("recipe %s: empty", file)
	} else if err != nil {
		return nil, fmt.Errorf("recipe %s: %w", file, err)
	}
	if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("recipe %s: more than one document; a recipe is a single one", file)
	}
	r := &Recipe{File: file, Dir: filepath.Dir(file)}
	if err := strict(file, &doc, reflect.TypeOf(*r), ""); err != nil {
		return nil, err
	}
	if err := doc.Decode(r); err != nil {
		return nil, fmt.Errorf("recipe %s: %w", file, err)
	}
	r.File, r.Dir = file, filepath.Dir(file)
	if r.Runtime != "" {
		r.Runtime = filepath.Join(r.Dir, r.Runtime)
	}
	if LocalOCI(r.Kernel.OCI) && !filepath.IsAbs(r.Kernel.OCI) {
		r.Kernel.OCI = localOCI(filepath.Join(r.Dir, r.Kernel.OCI))
	}
	for i := range r.Overlays {
		if r.Overlays[i].Path != "" {
			r.Overlays[i].Path = filepath.Join(r.Dir, r.Overlays[i].Path)
		}
	}
	for i := range r.Disk.Content {
		if r.Disk.Content[i].Path != "" {
			r.Disk.Content[i].Path = filepath.Join(r.Dir, r.Disk.Content[i].Path)
		}
	}
	imagePaths(r.Dir, r.Images)
	imagePaths(r.Dir, r.Disk.Images)
	for i := range r.Services {
		r.Services[i] = filepath.Join(r.Dir, r.Services[i])
	}
	return r, nil
}

// strict walks a YAML document beside the Go type it is meant for and reports
// the first field that the type does not have, or that is given twice.
func strict(file string, n *yaml.Node, t reflect.Type, at string) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch n.Kind {
	case yaml.DocumentNode:
		return strict(file, n.Content[0], t, at)
	case yaml.AliasNode, yaml.ScalarNode:
		if n.Kind == yaml.AliasNode {
			return fmt.Errorf("recipe %s:%d: aliases are not used in recipes; use extends", file, n.Line)
		}
		if t.Kind() == reflect.Struct && n.Tag != "!!null" {
			return fmt.Errorf("recipe %s:%d: %s is a mapping, not the value %q", file, n.Line, at, n.Value)
		}
	case yaml.SequenceNode:
		if t.Kind() != reflect.Slice {
			return fmt.Errorf("recipe %s:%d: %s is not a list", file, n.Line, at)
		}
		for i, c := range n.Content {
			if err := strict(file, c, t.Elem(), fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
	case yaml.MappingNode:
		return strictMapping(file, n, t, at)
	}
	return nil
}

func strictMapping(file string, n *yaml.Node, t reflect.Type, at string) error {
	known := map[string]reflect.Type{}
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			if name, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ","); name != "-" {
				known[name] = t.Field(i).Type
			}
		}
	case reflect.Map:
	default:
		return fmt.Errorf("recipe %s:%d: %s is not a mapping", file, n.Line, at)
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		where := strings.TrimPrefix(at+"."+k.Value, ".")
		if seen[k.Value] {
			return fmt.Errorf("recipe %s:%d: %s is given twice", file, k.Line, where)
		}
		seen[k.Value] = true
		ft, ok := known[k.Value]
		if t.Kind() == reflect.Map {
			ft, ok = t.Elem(), true
		}
		if !ok {
			return fmt.Errorf("recipe %s:%d: unknown field %s%s", file, k.Line, where, didYouMean(k.Value, known))
		}
		if err := strict(file, v, ft, where); err != nil {
			return err
		}
	}
	return nil
}

func didYouMean(name string, known map[string]reflect.Type) string {
	best, score := "", 0.0
	for k := range known {
		if s := levenshtein.Similarity(name, k, nil); s > score || s == score && k < best {
			best, score = k, s
		}
	}
	if score < 0.4 {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// merge lays over (the extending recipe) on base: what is set replaces, lists are appended.
func merge(base, over reflect.Value) {
	for i := range base.NumField() {
		b, o := base.Field(i), over.Field(i)
		switch {
		case o.IsZero():
		case o.Kind() == reflect.Struct:
			merge(b, o)
		case o.Kind() == reflect.Slice:
			b.Set(reflect.AppendSlice(b, o))
		default:
			b.Set(o)
		}
	}
}
