package main

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

func TestHint(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{syscall.ENOSPC, "cache gc"}, {syscall.EDQUOT, "cache gc"}, {syscall.EROFS, "--output"}, {syscall.EACCES, "this user"},
		{exec.ErrNotFound, "Go in PATH"}, {errors.New("other"), ""},
	} {
		got := hint(fmt.Errorf("output: %w", c.err))
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%v: %q, want %q in it", c.err, got, c.want)
		}
	}
}
