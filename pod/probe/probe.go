// Package probe carries out the probes of a Pod outside a kubelet: a command, a
// TCP or unix connection, an HTTP request, a gRPC health check, again and again
// until enough of them in a row succeeded or failed.
package probe

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

// Exit statuses.
const (
	healthy   = 0
	unhealthy = 1
	usage     = 2
)

const help = `usage: garboard-probe [--watch] [--delay D] [--period D] [--timeout D] [--successes N] [--failures N] KIND

  exec COMMAND [ARG...]         status 0 is success
  tcp HOST:PORT                 a connection is success
  unix PATH                     a connection is success
  http URL ["Header: value"...] status 200 to 399 is success
  grpc HOST:PORT [SERVICE]      SERVING is success (grpc.health.v1)
  sleep D                       no probe: sleeps
  fail UNIT                     no probe: has systemd end a service and start it again

Without --watch it ends with status 0 after N successes in a row; with it it goes on.
It ends with status 1 after N failures in a row; 0 means never.
`

// Loop is how often is probed, and until when.
type Loop struct {
	Watch                  bool
	Delay, Period, Timeout time.Duration
	Successes, Failures    int
}

// Check probes once.
type Check func(ctx context.Context) error

// Main is the program.
func Main(ctx context.Context, args []string, diag io.Writer) int {
	var l Loop
	f := flag.NewFlagSet("garboard-probe", flag.ContinueOnError)
	f.SetOutput(diag)
	f.Usage = func() { fmt.Fprint(diag, help) }
	f.BoolVar(&l.Watch, "watch", false, "")
	f.DurationVar(&l.Delay, "delay", 0, "")
	f.DurationVar(&l.Period, "period", 10*time.Second, "")
	f.DurationVar(&l.Timeout, "timeout", time.Second, "")
	f.IntVar(&l.Successes, "successes", 1, "")
	f.IntVar(&l.Failures, "failures", 0, "")
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return healthy
	case err != nil:
		return usage
	}
	if f.NArg() == 2 && f.Arg(0) == "sleep" {
		d, err := time.ParseDuration(f.Arg(1))
		if err != nil {
			fmt.Fprintf(diag, "garboard-probe: sleep: %v\n", err)
			return usage
		}
		wait(ctx, d)
		return healthy
	}
	if f.NArg() == 2 && f.Arg(0) == "fail" {
		if err := fail(ctx, systemctl, notifySocket, f.Arg(1)); err != nil {
			fmt.Fprintf(diag, "garboard-probe: fail: %v\n", err)
			return unhealthy
		}
		return healthy
	}
	check, err := New(f.Args())
	if err != nil || l.Period <= 0 || l.Timeout <= 0 {
		fmt.Fprintf(diag, "garboard-probe: %v (period and timeout are above 0)\n%s", err, help)
		return usage
	}
	if err := l.Run(ctx, check, diag); err != nil {
		fmt.Fprintf(diag, "garboard-probe: %v\n", err)
		return unhealthy
	}
	return healthy
}

// New is the check that words of a command line ask for.
func New(words []string) (Check, error) {
	if len(words) < 2 || words[1] == "" {
		return nil, errors.New("a kind of probe and what it is for are needed")
	}
	kind, target, rest := words[0], words[1], words[2:]
	switch {
	case kind == "exec":
		return func(ctx context.Context) error { return run(ctx, words[1:]) }, nil
	case kind == "tcp" && len(rest) == 0:
		return func(ctx context.Context) error { return connect(ctx, "tcp", target) }, nil
	case kind == "unix" && len(rest) == 0:
		return func(ctx context.Context) error { return connect(ctx, "unix", target) }, nil
	case kind == "http":
		return newHTTP(target, rest)
	case kind == "grpc" && len(rest) < 2:
		service := strings.Join(rest, "")
		return func(ctx context.Context) error { return health(ctx, target, service) }, nil
	}
	return nil, fmt.Errorf("%q with %d arguments is no probe", kind, len(words)-1)
}

// Run probes until the loop has what it waits for; the error is the last
// failure of too many, or nil. The end of ctx is no failure.
func (l Loop) Run(ctx context.Context, check Check, diag io.Writer) error {
	if !wait(ctx, l.Delay) {
		return nil
	}
	good, bad := 0, 0
	for {
		began := time.Now()
		c, cancel := context.WithTimeout(ctx, l.Timeout)
		err := check(c)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			good, bad = good+1, 0
			if !l.Watch && good >= l.Successes {
				return nil
			}
		default:
			good, bad = 0, bad+1
			if l.Failures > 0 && bad >= l.Failures {
				return fmt.Errorf("failed %d times in a row: %w", bad, err)
			}
			if bad == 1 {
				fmt.Fprintf(diag, "garboard-probe: %v\n", err) // the first of a row; the others say the same
			}
		}
		if !wait(ctx, l.Period-time.Since(began)) {
			return nil
		}
	}
}

// wait sleeps; false if ctx ended first.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(max(0, d))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// killWait is how long a killed command's output is waited for.
const killWait = time.Second

func run(ctx context.Context, argv []string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.WaitDelay = killWait
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if text := strings.TrimSpace(string(out[:min(len(out), 512)])); text != "" {
		return fmt.Errorf("%s: %w: %s", argv[0], err, text)
	}
	return fmt.Errorf("%s: %w", argv[0], err)
}
