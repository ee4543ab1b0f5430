package pod

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"garboard.local/pod/manifest"
)

// Finding is what happens to one value of a manifest.
type Finding struct {
	Line    int     `json:"line"`
	Field   string  `json:"field"`
	Value   string  `json:"value,omitempty"`
	Verdict Verdict `json:"verdict"`
	Text    string  `json:"text"`
	shared  bool    // Text comes from the mapping
}

// findings are the mapping's word on every value of a document.
type findings struct {
	doc  *manifest.Document
	list []Finding
}

func newFindings(d *manifest.Document, target Target) *findings {
	f := &findings{doc: d}
	x := newIndex()
	for _, v := range d.Fields {
		e, ok := x.find(v.Schema, target)
		r := e.For(target)
		if !ok { // a test proves that this does not happen
			r = no("package pod does not know this field")
		}
		f.list = append(f.list, Finding{Line: v.Line, Field: v.Path, Value: v.Value, Verdict: r.Verdict, Text: r.Text, shared: true})
	}
	return f
}

// refuse says that a value cannot be had, and why.
func (f *findings) refuse(path, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	for i := range f.list {
		if f.list[i].Field == path {
			f.list[i].Verdict, f.list[i].Text, f.list[i].shared = Refused, text, false
			return
		}
	}
	f.list = append(f.list, Finding{Line: f.doc.LineOf(path), Field: path, Verdict: Refused, Text: text})
}

// refused says whether the value of a field, or one below it, was refused already.
func (f *findings) refused(path string) bool {
	for _, x := range f.list {
		if x.Verdict == Refused && (x.Field == path || strings.HasPrefix(x.Field, path+".") || strings.HasPrefix(x.Field, path+"[")) {
			return true
		}
	}
	return false
}

// found are the findings, with their fields as the file has them.
func (f *findings) found() []Finding {
	out := slices.Clone(f.list)
	for i := range out {
		out[i].Field = f.doc.Where(out[i].Field)
	}
	return out
}

// err is every refusal.
func (f *findings) err() error {
	var errs []error
	for _, x := range f.list {
		if x.Verdict == Refused {
			errs = append(errs, f.doc.Errorf(x.Line, "%s: %s", f.doc.Where(x.Field), x.Text))
		}
	}
	return errors.Join(errs...)
}
