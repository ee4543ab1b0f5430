package main

import (
	"errors"
	"io/fs"
	"os/exec"
	"syscall"
)

// hint is the cure for a fault of the host, or "".
func hint(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "the disk is full; `garboard cache gc --limit 5G` frees space, and GARBOARD_CACHE, TMPDIR and --output name other places"
	case errors.Is(err, syscall.EROFS):
		return "that place is read-only; GARBOARD_CACHE, TMPDIR and --output name other ones"
	case errors.Is(err, exec.ErrNotFound):
		return "a build needs Go in PATH, and nothing else of the host"
	case errors.Is(err, fs.ErrPermission):
		return "GARBOARD_CACHE, TMPDIR and --output name places that this user can write to"
	}
	return ""
}
