package fieldtemplate

import (
	"reflect"
	"text/template/parse"
)

// pipe evaluates what stands between braces and sets the variables in it.
func (s *state) pipe(dot reflect.Value, n *parse.PipeNode) reflect.Value {
	if len(n.Cmds) != 1 {
		s.fail(n, "pipelines of several commands are not supported")
	}
	args := n.Cmds[0].Args
	var v reflect.Value
	if f, ok := args[0].(*parse.IdentifierNode); ok {
		v = s.call(dot, f, args[1:])
	} else if len(args) > 1 {
		s.fail(args[0], "only functions take arguments")
	} else {
		v = s.operand(dot, args[0])
	}
	for _, d := range n.Decl {
		if n.IsAssign {
			*s.variable(d, d.Ident[0]) = v
		} else {
			s.vars = append(s.vars, variable{d.Ident[0], v})
		}
	}
	return v
}

func (s *state) operand(dot reflect.Value, node parse.Node) reflect.Value {
	switch n := node.(type) {
	case *parse.DotNode:
		return dot
	case *parse.FieldNode:
		return s.fields(n, dot, n.Ident)
	case *parse.VariableNode:
		return s.fields(n, *s.variable(n, n.Ident[0]), n.Ident[1:])
	case *parse.IdentifierNode:
		return s.call(dot, n, nil)
	case *parse.PipeNode:
		return s.pipe(dot, n)
	case *parse.StringNode:
		return reflect.ValueOf(n.Text)
	case *parse.BoolNode:
		return reflect.ValueOf(n.True)
	case *parse.NumberNode:
		if n.IsInt {
			return reflect.ValueOf(int(n.Int64))
		}
	}
	s.fail(node, "this is not supported here")
	return reflect.Value{}
}

func (s *state) variable(n parse.Node, name string) *reflect.Value {
	for i := len(s.vars) - 1; i >= 0; i-- {
		if s.vars[i].name == name {
			return &s.vars[i].value
		}
	}
	s.fail(n, "there is no variable %s", name)
	return nil
}

// fields follows a chain of fields and methods.
func (s *state) fields(n parse.Node, v reflect.Value, names []string) reflect.Value {
	for _, name := range names {
		if m := method(v, name); m.IsValid() {
			v = bare(s.try(n, m, nil)[0])
			continue
		}
		v = indirect(v)
		switch {
		case v.Kind() == reflect.Map && v.Type().Key().Kind() == reflect.String:
			v = bare(v.MapIndex(reflect.ValueOf(name).Convert(v.Type().Key())))
			continue
		case v.Kind() != reflect.Struct:
			s.fail(n, "%s of a value of kind %s", name, v.Kind())
		}
		field, ok := v.Type().FieldByName(name)
		if !ok || !field.IsExported() {
			s.fail(n, "%s has neither an exported field %s nor a known method of that name", v.Type(), name)
		}
		f, err := v.FieldByIndexErr(field.Index)
		if err != nil {
			s.fail(n, "%w", err)
		}
		v = bare(f)
	}
	return v
}

// call calls a function; its arguments must be of the very types it takes.
func (s *state) call(dot reflect.Value, n *parse.IdentifierNode, args []parse.Node) reflect.Value {
	f := reflect.ValueOf(s.funcs[n.Ident])
	t := f.Type()
	if len(args) < t.NumIn() && !t.IsVariadic() || len(args) > t.NumIn() && !t.IsVariadic() {
		s.fail(n, "%s takes %d arguments, not %d", n.Ident, t.NumIn(), len(args))
	}
	in := make([]reflect.Value, len(args))
	for i, a := range args {
		want := t.In(min(i, t.NumIn()-1))
		if t.IsVariadic() && i >= t.NumIn()-1 {
			want = want.Elem()
		}
		in[i] = s.operand(dot, a)
		if !in[i].IsValid() {
			in[i] = reflect.Zero(want)
		}
		if !in[i].Type().AssignableTo(want) {
			s.fail(a, "%s takes a %s here, not a %s", n.Ident, want, in[i].Type())
		}
	}
	out := s.try(n, f, in)
	if err, ok := out[len(out)-1].Interface().(error); ok {
		s.fail(n, "%w", err)
	}
	return bare(out[0])
}

// try calls what a template names. Its panic fails the execution, as in
// text/template: upstream's `crio help status` relies on it.
func (s *state) try(n parse.Node, f reflect.Value, in []reflect.Value) []reflect.Value {
	defer func() {
		if r := recover(); r != nil {
			s.fail(n, "it panicked: %v", r)
		}
	}()
	return f.Call(in)
}
