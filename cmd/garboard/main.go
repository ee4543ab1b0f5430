// Command garboard builds bootable Kubernetes node images and runs them.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Exit statuses beside 0.
const (
	exitFailed = 1 // what was asked for did not succeed
	exitUsage  = 2 // the command line is wrong
)

func main() {
	os.Exit(Main(os.Args[1:]))
}

// Main runs the command line and returns the exit status.
func Main(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := newRoot()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var usage usageError
	var status statusError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		fmt.Fprintf(os.Stderr, "garboard: %v\n", err)
		return exitUsage
	case errors.As(err, &status):
		if status.error != nil {
			fmt.Fprintf(os.Stderr, "garboard: %v\n", err)
		}
		return status.code
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		fmt.Fprintln(os.Stderr, "garboard: interrupted; nothing half-written is left, and what was finished is reused next time")
		return exitFailed
	}
	fmt.Fprintf(os.Stderr, "garboard: %v\n", err)
	if h := hint(err); h != "" {
		fmt.Fprintf(os.Stderr, "garboard: %s\n", h)
	}
	return exitFailed
}

// usageError is a wrong command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// statusError ends the program with a status of its own, and silently if it
// holds no error.
type statusError struct {
	code int
	error
}

func (e statusError) Unwrap() error { return e.error }

func (e statusError) Error() string {
	if e.error == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.error.Error()
}
