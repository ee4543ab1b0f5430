package builder

import (
	"strings"

	"garboard.local/builder/source/debian"
)

// toolEnv is the environment of programs from Debian: of the user's it has what
// says where things lie, and nothing that could reach an artefact, such as
// SOURCE_DATE_EPOCH (which mkfs.erofs obeys more than its own option), a
// locale or a time zone. FAKETIME is `garboard repro`'s.
func toolEnv(environ []string) []string {
	out := []string{"LC_ALL=C", "TZ=UTC"}
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		switch name {
		case "PATH", "HOME", "TMPDIR", debian.PreloadEnv, "FAKETIME", "FAKETIME_DONT_FAKE_MONOTONIC", "NO_FAKE_STAT":
			out = append(out, kv)
		}
	}
	return out
}
