package fieldtemplate

import (
	"fmt"
	"reflect"
)

// method is a method that a template may call, or the zero Value. The names
// are constants: the linker then keeps the methods of these names only. Those
// whose type can be written here are found without reflection, and cost nothing.
func method(v reflect.Value, name string) reflect.Value {
	if !v.IsValid() {
		return v
	}
	switch name {
	case "Name":
		if x, ok := v.Interface().(interface{ Name() string }); ok {
			return reflect.ValueOf(x.Name)
		}
	case "Names":
		if x, ok := v.Interface().(interface{ Names() []string }); ok {
			return reflect.ValueOf(x.Names)
		}
	case "String":
		if x, ok := v.Interface().(fmt.Stringer); ok {
			return reflect.ValueOf(x.String)
		}
	case "Flags":
		return v.MethodByName("Flags")
	case "VisibleCategories":
		return v.MethodByName("VisibleCategories")
	case "VisibleCommands":
		return v.MethodByName("VisibleCommands")
	case "VisibleFlagCategories":
		return v.MethodByName("VisibleFlagCategories")
	case "VisibleFlags":
		return v.MethodByName("VisibleFlags")
	}
	return reflect.Value{}
}

// bare is what an interface holds: the zero Value if it holds nothing.
func bare(v reflect.Value) reflect.Value {
	if v.Kind() == reflect.Interface {
		return v.Elem()
	}
	return v
}

// indirect follows pointers, to the zero Value if there is a nil one.
func indirect(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Pointer {
		v = bare(v.Elem())
	}
	return v
}

// truth is what if goes by: neither zero nor empty. A struct always is true.
func truth(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Invalid:
		return false
	case reflect.Map, reflect.Slice:
		return v.Len() > 0
	case reflect.Struct:
		return true
	}
	return !v.IsZero()
}

// printable is what fmt should print for a value: what it points to, unless
// the pointer itself says how to print it.
func printable(v reflect.Value) any {
	for v.Kind() == reflect.Pointer {
		switch x := v.Interface().(type) {
		case fmt.Stringer, error:
			return x
		}
		v = bare(v.Elem())
	}
	if !v.IsValid() {
		return "<no value>"
	}
	return v.Interface()
}
