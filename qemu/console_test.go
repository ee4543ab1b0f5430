package qemu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

func testConsole() *Console {
	return newConsole(nil, nil, true, func() time.Time { return time.Unix(1, 0) })
}

func TestConsoleSplitsLines(t *testing.T) {
	var log bytes.Buffer
	var out []string
	c := newConsole(&log, func(l Line) { out = append(out, l.Text) }, false, time.Now)
	raw := "one\r\n\ntw" + "o\n" + strings.Repeat("x", maxLine+5) + "\nlast"
	for chunk := range strings.SplitSeq(raw, "w") { // pieces that are no lines
		fmt.Fprint(c, chunk)
		if !strings.HasSuffix(chunk, "last") {
			fmt.Fprint(c, "w")
		}
	}
	c.end()
	want := []string{"one", "", "two", strings.Repeat("x", maxLine), "xxxxx", "last"}
	if got := fmt.Sprint(out); got != fmt.Sprint(want) {
		t.Errorf("lines %.200q, want %.200q", out, want)
	}
	if log.String() != raw {
		t.Error("the log does not hold the raw bytes")
	}
}

func TestConsoleKeepsTheNewestLines(t *testing.T) {
	c := testConsole()
	for i := range keepLines + 10 {
		fmt.Fprintf(c, "line %d\n", i)
	}
	lines := c.Lines()
	if len(lines) > keepLines || lines[len(lines)-1].Text != fmt.Sprintf("line %d", keepLines+9) {
		t.Errorf("%d lines, last %q", len(lines), lines[len(lines)-1].Text)
	}
	if _, err := c.Expect(t.Context(), regexp.MustCompile(fmt.Sprintf("line %d$", keepLines))); err != nil {
		t.Error(err)
	}
}

func TestExpect(t *testing.T) {
	t.Run("goes on after the last match", func(t *testing.T) {
		c := testConsole()
		fmt.Fprint(c, "a 1\na 2\n")
		for _, want := range []string{"1", "2"} {
			m, err := c.Expect(t.Context(), regexp.MustCompile(`^a (\d)$`))
			if err != nil || m.Groups[1] != want {
				t.Errorf("got %v, %v, want group %s", m, err, want)
			}
		}
	})
	t.Run("waits", func(t *testing.T) {
		c := testConsole()
		go fmt.Fprint(c, "[    1.000000] late\n")
		if _, err := c.Expect(t.Context(), regexp.MustCompile(`^late$`)); err != nil {
			t.Error(err)
		}
	})
	t.Run("a fault ends it at once, with the tail", func(t *testing.T) {
		c := testConsole()
		for i := range 100 {
			fmt.Fprintf(c, "line %d\n", i)
		}
		go fmt.Fprint(c, "[    1.000000] Kernel panic - not syncing: x\n")
		_, err := c.Expect(t.Context(), regexp.MustCompile(`^never$`))
		var e *ConsoleError
		if !errors.As(err, &e) || e.Fault == nil || e.Fault.Kind != FaultPanic || len(e.Tail) > TailLines || len(e.Tail) < TailLines-1 {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a line before the fault still counts", func(t *testing.T) {
		c := testConsole()
		fmt.Fprint(c, "good\n[    1.000000] Kernel panic - not syncing: x\n")
		if _, err := c.Expect(t.Context(), regexp.MustCompile(`^good$`)); err != nil {
			t.Error(err)
		}
	})
	t.Run("only the first fault counts", func(t *testing.T) {
		c := testConsole()
		fmt.Fprint(c, "[    1.000000] BUG: unable to handle page fault\n[    1.100000] Oops: int3: 0000 [#1] SMP\n")
		if _, err := c.Expect(t.Context(), regexp.MustCompile(`^never$`)); err == nil || EmulatorFault(err) {
			t.Errorf("got %v: an oops before the signature was hidden behind it", err)
		}
	})
	t.Run("the machine's end", func(t *testing.T) {
		c := testConsole()
		go c.end()
		if _, err := c.Expect(t.Context(), regexp.MustCompile(`^never$`)); err == nil || !strings.Contains(err.Error(), "ended") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("the context's cause", func(t *testing.T) {
		cause := errors.New("the ceiling")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, cause)
		defer cancel()
		if _, err := testConsole().Expect(ctx, regexp.MustCompile(`x`)); !errors.Is(err, cause) {
			t.Errorf("got %v", err)
		}
	})
}

func TestConsoleReportsItsLog(t *testing.T) {
	c := newConsole(failing{}, nil, false, time.Now)
	if n, err := c.Write([]byte("x\n")); n != 2 || err != nil {
		t.Errorf("the guest would stall: %d, %v", n, err)
	}
	if c.LogErr() == nil || len(c.Lines()) != 1 {
		t.Errorf("log error %v, lines %v", c.LogErr(), c.Lines())
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("disk full") }
