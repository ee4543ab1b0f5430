package systemd

import (
	"fmt"
	"strings"

	"garboard.local/pod"
)

// hostSpecifier is the machine's name, which the manager fills in (systemd.unit(5)).
const hostSpecifier = "%H"

// Word quotes one word of a command line or one assignment of Environment= so
// that systemd's parser gives back exactly s: C escapes, doubled percent signs
// (systemd.syntax(7), systemd.unit(5)). It says nothing of $: commands are
// written with the prefix ":", which turns variables off.
func Word(s string) string {
	s, plain := escape(s, "")
	if plain {
		return s
	}
	return `"` + s + `"`
}

// pathWord quotes a path in a list whose parts may hold colons.
func pathWord(s string) string {
	s, plain := escape(s, ":")
	if plain {
		return s
	}
	return `"` + s + `"`
}

// escape is the inside of a quoted word, and whether it can go without quotes.
func escape(s, special string) (out string, plain bool) {
	var b strings.Builder
	plain = s != ""
	for i, part := range strings.Split(s, pod.NodeName) {
		if i > 0 {
			b.WriteString(hostSpecifier)
		}
		for j := range len(part) { // bytes: those of UTF-8 stay as they are
			c := part[j]
			switch {
			case c == '%':
				b.WriteString("%%")
			case c == '\\' || c == '"':
				b.WriteByte('\\')
				b.WriteByte(c)
				plain = false
			case c == '\n':
				b.WriteString(`\n`)
				plain = false
			case c == '\t':
				b.WriteString(`\t`)
				plain = false
			case c < ' ' || c == 0x7f:
				fmt.Fprintf(&b, `\x%02x`, c)
				plain = false
			default:
				b.WriteByte(c)
				if c >= 0x80 || !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+=:,@", rune(c)) || strings.IndexByte(special, c) >= 0 {
					plain = false
				}
			}
		}
	}
	return b.String(), plain
}

// raw is a value that is taken whole, such as that of WorkingDirectory=: there
// specifiers count and nothing else. What cannot be written so is refused by
// package pod (control characters, spaces at the ends).
func raw(s string) string { return strings.ReplaceAll(s, "%", "%%") }

// command is a command line. The prefix ":" has systemd take every $ as it is.
func command(argv []string) string {
	words := make([]string, len(argv))
	for i, w := range argv {
		words[i] = Word(w)
	}
	return ":" + strings.Join(words, " ")
}

// EnvironmentFile is the content of a file for EnvironmentFile=, whose values are
// quoted as a shell's (systemd.exec(5)).
func EnvironmentFile(vars []pod.Setting) []byte {
	var b strings.Builder
	for _, v := range vars {
		b.WriteString(v.Name + `="`)
		for i := range len(v.Value) {
			if c := v.Value[i]; strings.IndexByte("\"\\`$", c) >= 0 {
				b.WriteByte('\\')
			}
			b.WriteByte(v.Value[i])
		}
		b.WriteString("\"\n")
	}
	return []byte(b.String())
}
