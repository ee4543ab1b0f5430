// Package image writes artefacts: one file per output. Each writer is a pure
// function of its inputs, so that the same inputs give the same bytes.
package image

import "os/exec"

// Run makes the command that runs a host tool out of the pinned packages.
type Run func(tool string, args ...string) *exec.Cmd
