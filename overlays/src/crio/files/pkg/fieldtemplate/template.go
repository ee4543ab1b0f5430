// Package fieldtemplate executes the templates of cri-o and its command line
// library as text/template does, but finds fields, not methods, by their names.
//
// text/template calls whatever method a template names, and a program that can
// do so must keep every exported method of every type: 8 MB of cri-o. The few
// methods that those templates call are known here by name, see [method].
// What they do not use is left out: pipelines of several commands, break and
// continue, arguments of methods. Asking for it is an error
// of Parse or Execute.
package fieldtemplate

import (
	"fmt"
	"io"
	"maps"
	"reflect"
	"text/template/parse"
)

// FuncMap holds functions by the names that templates call them by. Their
// last result may be an error.
type FuncMap map[string]any

// Template is a template and those that it can invoke.
type Template struct {
	name  string
	funcs FuncMap
	trees map[string]*parse.Tree
}

// New makes an empty template.
func New(name string) *Template {
	return &Template{name: name, funcs: maps.Clone(builtins), trees: map[string]*parse.Tree{}}
}

// New makes a template that t can invoke, and the other way round.
func (t *Template) New(name string) *Template {
	return &Template{name: name, funcs: t.funcs, trees: t.trees}
}

// Funcs adds functions; they must be there before Parse.
func (t *Template) Funcs(funcs FuncMap) *Template {
	maps.Copy(t.funcs, funcs)
	return t
}

// Parse gives the template its text.
func (t *Template) Parse(text string) (*Template, error) {
	trees, err := parse.Parse(t.name, text, "", "", t.funcs)
	if err != nil {
		return nil, err
	}
	maps.Copy(t.trees, trees)
	return t, nil
}

// Must returns the template and panics if there is an error.
func Must(t *Template, err error) *Template {
	if err != nil {
		panic(err)
	}
	return t
}

// Execute writes the template's output for data. When it fails, part of the
// output may have been written.
func (t *Template) Execute(w io.Writer, data any) error {
	return t.ExecuteTemplate(w, t.name, data)
}

// ExecuteTemplate is Execute for the template of that name that t can invoke.
func (t *Template) ExecuteTemplate(w io.Writer, name string, data any) (err error) {
	tree := t.trees[name]
	if tree == nil {
		return fmt.Errorf("template %s: it has no text", name)
	}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			err = r.error
		default:
			panic(r)
		}
	}()
	v := reflect.ValueOf(data)
	s := &state{Template: t, tree: tree, w: w, vars: []variable{{"$", v}}}
	s.walk(v, tree.Root)
	return nil
}

// builtins are those functions of text/template that are used.
var builtins = FuncMap{
	"eq":     func(a, b int) bool { return a == b },
	"gt":     func(a, b int) bool { return a > b },
	"len":    length,
	"ne":     func(a, b int) bool { return a != b },
	"not":    func(v any) bool { return !truth(reflect.ValueOf(v)) },
	"printf": fmt.Sprintf,
}

func length(of any) (int, error) {
	switch v := reflect.ValueOf(of); v.Kind() {
	case reflect.Map, reflect.Slice, reflect.String:
		return v.Len(), nil
	}
	return 0, fmt.Errorf("len of a %T", of)
}
