package contents

import (
	"regexp"
	"strings"
)

// pattern is a path in which "*" stands for any characters but a slash, "{id}"
// for an identifier of hexadecimal digits and dashes, and "**" at the end for
// everything below.
type pattern struct {
	text string
	re   *regexp.Regexp
}

func compile(text string) pattern {
	quoted := regexp.QuoteMeta(text)
	for _, r := range [][2]string{{`\*\*`, `.+`}, {`\*`, `[^/]+`}, {`\{id\}`, `[0-9a-f-]+`}} {
		quoted = strings.ReplaceAll(quoted, r[0], r[1])
	}
	return pattern{text, regexp.MustCompile(`^(?:` + quoted + `)$`)}
}

func (p pattern) match(s string) bool { return p.re.MatchString(s) }
