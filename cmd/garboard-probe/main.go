// Command garboard-probe asks a service for its health: it is what the probe
// units run that `garboard convert --to systemd` writes.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"garboard.local/pod/probe"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(probe.Main(ctx, os.Args[1:], os.Stderr))
}
