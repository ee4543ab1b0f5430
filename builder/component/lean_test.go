package component

import (
	"bytes"
	"strings"
	"testing"
)

const leanConfig = "module: example.com/greet\nbinaries: {greet: ./cmd/greet}\nlean: true\n"

func TestLean(t *testing.T) {
	f := newFake(t)
	f.write("overlays/src/greet/component.yaml", leanConfig)
	f.build()
	f.write("overlays/src/greet/patches/0001-louder.patch", helloPatch)
	f.write("overlays/src/greet/files/text/more.go", `package text

import (
	"os"
	"reflect"
)

func more() string {
	return reflect.ValueOf(os.Stdout).MethodByName(os.Args[0]).String()
}
`)
	f.buildError("component is to be lean", "\nexample.com/greet/text.more <- main.main\npatch it out", "component.yaml")

	// A linker's failure is told as in any build.
	f.write("overlays/src/greet/files/text/more.go", "package text\n\nfunc more() string\n")
	f.write("overlays/src/greet/files/text/empty.s", "")
	f.buildError("its last lines:", "relocation target example.com/greet/text.more not defined")

	f.write("overlays/src/greet/files/text/more.go", "package text\n\nfunc more() string { return 1 }\n")
	f.buildError("more.go:3:29")
}

func TestLinkDump(t *testing.T) {
	var rest bytes.Buffer
	d := linkDump{rest: &rest}
	text := "# command-line\n_ -> main.main\nmain.main -> type:map[string]func() <-chan int <UsedInIface>\n" +
		"main.main <UsedInIface> -> a.F <UsedInIface><ReflectMethod>\na.F <ReflectMethod> -> b.G\nb.G -> c.H[go.shape.interface { A() }] <ReflectMethod>\nthe end\n"
	for i := range len(text) {
		if _, err := d.Write([]byte(text[i : i+1])); err != nil {
			t.Fatal(err)
		}
	}
	if got := rest.String(); got != "# command-line\nthe end\n" {
		t.Errorf("the rest is %q", got)
	}
	want := "\na.F <- main.main\nc.H[go.shape.interface { A() }] <- b.G <- a.F <- main.main\n"
	if err := d.check(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v", err)
	}
}
