// Package podlog follows the log files of pods and hands each line on, so that
// the console shows what pods say without asking the kubelet.
package podlog

import (
	"bytes"
	"strings"
)

// MaxText is how much of one line is kept, in bytes; the rest is cut off.
const MaxText = 4096

// entry is one line of a CRI log file (the format of the CRI's logging design:
// "TIME STREAM TAGS TEXT", tags separated by ':', the first P or F).
type entry struct {
	partial bool // more of the same line follows
	text    []byte
}

// parse reads one line without its newline. ok is false if it is not in the
// format; such a line is handed on as it is.
func parse(line []byte) (e entry, ok bool) {
	_, rest, ok1 := bytes.Cut(line, []byte(" "))
	stream, rest, ok2 := bytes.Cut(rest, []byte(" "))
	tags, text, ok3 := bytes.Cut(rest, []byte(" "))
	if !ok3 { // an empty text may come without its space
		tags, text, ok3 = rest, nil, ok2
	}
	if !ok1 || !ok2 || !ok3 || (string(stream) != "stdout" && string(stream) != "stderr") {
		return entry{text: line}, false
	}
	first, _, _ := bytes.Cut(tags, []byte(":"))
	switch string(first) {
	case "F":
		return entry{text: text}, true
	case "P":
		return entry{partial: true, text: text}, true
	}
	return entry{text: line}, false
}

// stream puts the bytes of one log file together into lines.
type stream struct {
	raw  []byte // an unfinished line of the file
	text []byte // an unfinished line of the pod (tag P)
}

// maxRaw is the longest line of the file: the text and what stands before it.
const maxRaw = MaxText + 256

// put takes the next bytes and calls emit for each whole line of the pod.
func (s *stream) put(b []byte, emit func(string)) {
	for len(b) > 0 {
		i := bytes.IndexByte(b, '\n')
		piece := b
		if i >= 0 {
			piece = b[:i]
		}
		if room := maxRaw - len(s.raw); len(piece) > room {
			piece = piece[:room] // what is too long is cut off, never gathered
		}
		s.raw = append(s.raw, piece...)
		if i < 0 {
			return
		}
		b = b[i+1:]
		s.line(emit)
	}
}

func (s *stream) line(emit func(string)) {
	e, _ := parse(s.raw)
	room := MaxText - len(s.text)
	s.text = append(s.text, e.text[:min(room, len(e.text))]...)
	s.raw = s.raw[:0]
	if !e.partial {
		emit(string(s.text))
		s.text = s.text[:0]
	}
}

// flush hands on what has no end yet: the pod will say no more.
func (s *stream) flush(emit func(string)) {
	if len(s.raw) > 0 {
		s.line(emit)
	}
	if len(s.text) > 0 {
		emit(string(s.text))
		s.text = s.text[:0]
	}
}

// podOf takes apart the name that the kubelet gives a pod's log directory:
// <namespace>_<pod>_<uid>. A pod's namespace and name hold no '_'. The namespace
// is "" where the name is another's.
func podOf(podDir string) (namespace, pod string) {
	f := strings.SplitN(podDir, "_", 3)
	if len(f) < 3 {
		return "", podDir
	}
	return f[0], f[1]
}

// source names a container by its directories.
func source(podDir, container string) string {
	namespace, pod := podOf(podDir)
	if namespace == "" {
		return pod + "/" + container
	}
	return namespace + "/" + pod + "/" + container
}
