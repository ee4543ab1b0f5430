package qemu

import (
	"strings"
	"testing"
	"time"
)

func TestParseLine(t *testing.T) {
	for _, tt := range []struct {
		name, raw string
		want      Line
		own       string
		pod       PodLine
	}{
		{name: "kernel", raw: "[    1.425233] Run /init as init process\r",
			want: Line{Text: "[    1.425233] Run /init as init process", Stamp: 1.425233, Message: "Run /init as init process"}},
		{name: "with a caller", raw: "[   12.000001][    T1] garboard: phase network (3/9): done, 12ms",
			want: Line{Text: "[   12.000001][    T1] garboard: phase network (3/9): done, 12ms", Stamp: 12.000001, Message: "garboard: phase network (3/9): done, 12ms"},
			own:  "phase network (3/9): done, 12ms"},
		{name: "pod", raw: "[   14.100000] default/hello-garboard/hello: hello: hostname x",
			want: Line{Text: "[   14.100000] default/hello-garboard/hello: hello: hostname x", Stamp: 14.1, Message: "default/hello-garboard/hello: hello: hostname x"},
			pod:  PodLine{"default", "hello-garboard", "hello", "hello: hostname x"}},
		{name: "firmware's escapes", raw: "\x1bc\x1b[?7l\x1b[2J\x1b[0mSeaBIOS (version 1.16)\x1b]0;title\x07",
			want: Line{Text: "SeaBIOS (version 1.16)", Stamp: -1, Message: "SeaBIOS (version 1.16)"}},
		{name: "no stamp without its six digits", raw: "[1.5] x", want: Line{Text: "[1.5] x", Stamp: -1, Message: "[1.5] x"}},
		{name: "not a pod", raw: "/usr/lib/x: y", want: Line{Text: "/usr/lib/x: y", Stamp: -1, Message: "/usr/lib/x: y"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ParseLine(tt.raw, time.Time{})
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			if own, ok := got.Own(); ok != (tt.own != "") || ok && own != tt.own {
				t.Errorf("own: got %q, want %q", own, tt.own)
			}
			if pod, _ := got.Pod(); pod != tt.pod {
				t.Errorf("pod: got %+v, want %+v", pod, tt.pod)
			}
		})
	}
}

func FuzzParseLine(f *testing.F) {
	for _, s := range []string{"", "[    1.425233] x\r", "[ 1.000000][ C1] garboard: y", "\x1b[31mred\x1b[0m", "a/b/c: d", "\x1b]0;never closed", "[99999999999.000000] x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		l := ParseLine(raw, time.Time{})
		if !strings.HasSuffix(l.Text, l.Message) {
			t.Errorf("message %q is not the end of text %q", l.Message, l.Text)
		}
		if strings.ContainsAny(l.Text, "\x1b\r\n\x00\x7f") {
			t.Errorf("control characters in %q", l.Text)
		}
		if l.Stamp < -1 || l.Stamp < 0 && l.Stamp != -1 {
			t.Errorf("stamp %v", l.Stamp)
		}
		if _, pod := l.Pod(); pod && faultOf(l, true) != nil {
			t.Errorf("a pod's line %q counts as a fault", l.Text)
		}
	})
}
