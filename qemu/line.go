package qemu

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Line is one line of the serial console.
type Line struct {
	At      time.Time // when its end was read
	Text    string    // without terminal control sequences and carriage returns
	Stamp   float64   // the kernel's time stamp in seconds of uptime, or -1
	Message string    // Text without the stamp
}

var (
	// Terminal control: CSI, OSC and two-byte sequences (ECMA-48), as firmware prints them.
	escapes = regexp.MustCompile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|[ -/]*[0-~])")
	// printk's prefix, with the caller's id where CONFIG_PRINTK_CALLER is on.
	stamp = regexp.MustCompile(`^\[ {0,8}(\d{1,9}\.\d{6})\](?:\[ *[CT]\d+\])? `)
	// namespace/pod/container, each as Kubernetes allows them (RFC 1123).
	podPrefix = regexp.MustCompile(`^([a-z0-9][a-z0-9-]{0,62})/([a-z0-9][a-z0-9.-]{0,252})/([a-z0-9][a-z0-9-]{0,62}): ?(.*)$`)
)

// ParseLine reads one line as the serial port gave it, without its newline.
func ParseLine(raw string, at time.Time) Line {
	text := escapes.ReplaceAllString(raw, "")
	text = strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r == 0x7f {
			return -1
		}
		return r
	}, text)
	l := Line{At: at, Text: text, Stamp: -1, Message: text}
	if m := stamp.FindStringSubmatch(text); m != nil {
		if s, err := strconv.ParseFloat(m[1], 64); err == nil {
			l.Stamp, l.Message = s, text[len(m[0]):]
		}
	}
	return l
}

// Own returns what PID 1 said, if the line is PID 1's.
func (l Line) Own() (string, bool) { return strings.CutPrefix(l.Message, "garboard: ") }

// PodLine is a line that a container printed and PID 1 carried to the console.
type PodLine struct{ Namespace, Pod, Container, Text string }

// Pod returns what a container said, if the line is a container's.
func (l Line) Pod() (PodLine, bool) {
	m := podPrefix.FindStringSubmatch(l.Message)
	if m == nil {
		return PodLine{}, false
	}
	return PodLine{m[1], m[2], m[3], m[4]}, true
}
