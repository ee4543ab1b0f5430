package fieldtemplate_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"text/template"

	"github.com/cri-o/cri-o/pkg/fieldtemplate"
)

type embedded struct{ Root string }

type flag struct{ name string }

func (f *flag) String() string  { return "--" + f.name }
func (f *flag) Names() []string { return []string{f.name, "x"} }
func (f *flag) Name() string    { return f.name }

type category struct{ flags []*flag }

func (c *category) Flags() []*flag { return c.flags }

// app has what the templates ask for: fields of each kind, and methods.
type app struct {
	embedded
	*category
	Text, Empty string
	Number      int64
	Yes, No     bool
	List, None  []string
	Map         map[string]*embedded
	Paths       map[string]string
	Sub, Nil    *embedded
	Flag        interface{ String() string }
	NoFlag      interface{ String() string }
}

func (a *app) VisibleFlags() []*flag { return []*flag{{"one"}, {"two"}} }

func data() *app {
	return &app{
		embedded: embedded{"/root"}, Text: "a \"text\"", Number: 5, Yes: true, List: []string{"x", "y", "z"},
		Map:   map[string]*embedded{"b": {"B"}, "a": {"A"}, "c": nil},
		Paths: map[string]string{"q": "1", "p": "2"}, Sub: &embedded{"sub"}, Flag: &flag{"flag"},
	}
}

var funcs = map[string]any{
	"join": strings.Join,
	"add":  func(a, b int) int { return a + b },
	"fail": func() (string, error) { return "", errors.New("this went wrong") },
	"boom": func() string { panic("boom") },
}

const part = "a part: {{.}}"

// What both can execute comes out alike.
func TestLikeTextTemplate(t *testing.T) {
	for _, text := range []string{
		"", "plain", "{{.Text}} {{.Root}} {{ .Number }}{{.Yes}}{{.No}}{{.Sub.Root}}{{.List}}", "{{/* a comment */}}x",
		"{{$.Text}}{{with .Sub}}{{.Root}}{{$.Root}}{{end}}{{with .Nil}}no{{else}}nil{{end}}",
		"{{if .Text}}1{{end}}{{if .Empty}}2{{end}}{{if .Yes}}3{{end}}{{if .No}}4{{else if .Sub}}5{{end}}{{if .Nil}}6{{end}}{{if .None}}7{{end}}{{if .Number}}8{{end}}{{if .Paths}}9{{end}}",
		"{{range .List}}{{.}},{{end}}{{range .None}}x{{else}}none{{end}}{{range $e := .List}}{{printf \"\\t%q,\\n\" $e}}{{end}}",
		"{{range $i, $e := .List}}{{if $i}} {{end}}{{$i}}={{$e}}{{end}}",
		"{{range $k, $v := .Map}}{{$k}}:{{if $v}}{{$v.Root}}{{end}};{{end}}",
		"{{$first := true}}{{range $k, $v := .Paths}}{{if not $first}}, {{end}}{{printf \"%q = %q\" $k $v}}{{$first = false}}{{end}}",
		"{{.Paths.q}} {{.Paths.nothing}} {{.Map.a.Root}} {{if .Paths.no}}x{{end}}",
		"{{- \" a \" }}  {{- \"\\t\" -}}  {{len .List}} {{len .Text}} {{eq 1 2}}{{ne 1 2}}{{gt (len .List) 2}}",
		"{{$v := add (len .List) 2}}{{add $v 1}} {{join .List \", \"}} {{with $n := len .List}}{{if ne 1 $n}}S{{end}}{{end}}",
		"{{range .VisibleFlags}}{{.}} {{.String}} {{.Name}} {{join .Names \"/\"}};{{end}}{{.Flag}} {{.Flag.String}}",
		"{{range $i, $e := .VisibleFlags}}{{$e.String}}{{$e}}{{end}}",
		"{{define \"x\"}}[{{.Root}} {{$.Root}}]{{end}}{{template \"x\" .Sub}}{{template \"part\" .Number}}",
	} {
		std := template.Must(template.New("t").Funcs(funcs).Parse(text))
		template.Must(std.New("part").Parse(part))
		var want, got bytes.Buffer
		if err := std.Execute(&want, data()); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		ours, err := fieldtemplate.New("t").Funcs(funcs).Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		fieldtemplate.Must(ours.New("part").Parse(part))
		if err := ours.Execute(&got, data()); err != nil || got.String() != want.String() {
			t.Errorf("%s: %q, %v; want %q", text, got.String(), err, want.String())
		}
	}
}

func TestErrors(t *testing.T) {
	for text, want := range map[string]string{
		"{{":                              "t:1: unclosed action",
		"{{upper .Text}}":                 `function "upper" not defined`,
		"a\n{{.Nothing}}":                 "t:2:2: at <.Nothing>: fieldtemplate_test.app has neither an exported field",
		"{{.name}}":                       "neither an exported field",
		"{{.Nil.Root}}":                   "at <.Nil.Root>: Root of a value of kind invalid",
		"{{.Text.Root}}":                  "Root of a value of kind string",
		"{{.NoFlag.String}}":              "String of a value of kind invalid",
		"{{.Flags}}":                      "t:1:2: at <.Flags>",
		"{{fail}}":                        "this went wrong",
		"{{boom}}":                        "at <boom>: it panicked: boom",
		"{{add 1}}":                       "add takes 2 arguments, not 1",
		"{{add 1 .Text}}":                 "add takes a int here, not a string",
		"{{len .Nil}}":                    "len of a *fieldtemplate_test.embedded",
		"{{.Text | printf}}":              "several commands",
		"{{.Text 1}}":                     "only functions take arguments",
		"{{1.5}}":                         "not supported",
		"{{range .List}}{{break}}{{end}}": "not supported",
		"{{range .Text}}{{end}}":          "range cannot go over a string",
		`{{template "x"}}`:                `there is no template "x"`,
	} {
		tmpl, err := fieldtemplate.New("t").Funcs(funcs).Parse(text)
		if err == nil {
			err = tmpl.Execute(io.Discard, data())
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
	if err := fieldtemplate.New("t").Execute(io.Discard, nil); err == nil {
		t.Error("a template without text was executed")
	}
	full := fieldtemplate.Must(fieldtemplate.New("t").Parse("text"))
	if err := full.Execute(failing{}, nil); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("a writer that fails: %v", err)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrShortWrite }
