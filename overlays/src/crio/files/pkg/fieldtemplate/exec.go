package fieldtemplate

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"text/template/parse"
)

// state is one execution of a template.
type state struct {
	*Template
	tree *parse.Tree // the one that is executed, for errors
	w    io.Writer
	vars []variable
}

type variable struct {
	name  string
	value reflect.Value
}

// failure ends an execution; ExecuteTemplate returns it.
type failure struct{ error }

func (s *state) fail(n parse.Node, format string, args ...any) {
	where, what := s.tree.ErrorContext(n)
	panic(failure{fmt.Errorf("template %s: at <%s>: %w", where, what, fmt.Errorf(format, args...))})
}

func (s *state) walk(dot reflect.Value, node parse.Node) {
	switch n := node.(type) {
	case *parse.ListNode:
		for _, n := range n.Nodes {
			s.walk(dot, n)
		}
	case *parse.TextNode:
		s.print(n, string(n.Text))
	case *parse.CommentNode:
	case *parse.ActionNode:
		if v := s.pipe(dot, n.Pipe); len(n.Pipe.Decl) == 0 {
			s.print(n, printable(v))
		}
	case *parse.IfNode:
		s.branch(dot, &n.BranchNode, func(reflect.Value) { s.walk(dot, n.List) })
	case *parse.WithNode:
		s.branch(dot, &n.BranchNode, func(v reflect.Value) { s.walk(v, n.List) })
	case *parse.RangeNode:
		s.branch(dot, &n.BranchNode, func(v reflect.Value) { s.loop(n, v) })
	case *parse.TemplateNode:
		s.invoke(dot, n)
	default:
		s.fail(n, "this is not supported here")
	}
}

// branch takes one of the two ways of if, with and range. Variables that are
// declared on it end with it.
func (s *state) branch(dot reflect.Value, n *parse.BranchNode, then func(reflect.Value)) {
	mark := len(s.vars)
	if v := s.pipe(dot, n.Pipe); truth(v) {
		then(v)
	} else if n.ElseList != nil {
		s.walk(dot, n.ElseList)
	}
	s.vars = s.vars[:mark]
}

// loop repeats a range's list for each element, a map's in the order of its keys.
func (s *state) loop(n *parse.RangeNode, over reflect.Value) {
	mark := len(s.vars)
	once := func(key, elem reflect.Value) {
		decl := s.vars[mark-len(n.Pipe.Decl) : mark]
		if len(decl) > 0 {
			decl[len(decl)-1].value = elem
		}
		if len(decl) > 1 {
			decl[0].value = key
		}
		s.walk(elem, n.List)
		s.vars = s.vars[:mark]
	}
	switch over = indirect(over); {
	case n.Pipe.IsAssign:
		s.fail(n, "range cannot assign here")
	case over.Kind() == reflect.Slice:
		for i := range over.Len() {
			once(reflect.ValueOf(i), bare(over.Index(i)))
		}
	case over.Kind() == reflect.Map && over.Type().Key().Kind() == reflect.String:
		byName := func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) }
		for _, k := range slices.SortedFunc(slices.Values(over.MapKeys()), byName) {
			once(k, bare(over.MapIndex(k)))
		}
	default:
		s.fail(n, "range cannot go over a %s", over.Kind())
	}
}

func (s *state) invoke(dot reflect.Value, n *parse.TemplateNode) {
	tree := s.trees[n.Name]
	if tree == nil {
		s.fail(n, "there is no template %q", n.Name)
	}
	if n.Pipe != nil {
		dot = s.pipe(dot, n.Pipe)
	}
	t := &state{Template: s.Template, tree: tree, w: s.w, vars: []variable{{"$", dot}}}
	t.walk(dot, tree.Root)
}

func (s *state) print(n parse.Node, what any) {
	if _, err := fmt.Fprint(s.w, what); err != nil {
		s.fail(n, "%w", err)
	}
}
