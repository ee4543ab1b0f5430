// Command chaos is the guest's half of the power-cut tests (qemu/chaos). As a
// privileged static pod it says what the container store holds and whether that
// is whole, then pulls images and has the kubelet run them, and says each thing
// as soon as it is done: what it said, a power cut must not take back.
//
// It speaks through the kernel's log, so that a line is on the serial port
// before the next thing is done.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
)

func main() {
	term, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := start(term); err != nil && term.Err() == nil {
		fmt.Println("chaos:", err)
		os.Exit(1)
	}
}

// orders are the host's, from the kernel command line.
type orders struct {
	nonce        string
	port         int // of the registry, on the host's loopback
	first, count int // numbers of the images to pull
	kills        int // processes to kill meanwhile
}

func parseOrders(cmdline string) (o orders, err error) {
	numbers := map[string]*int{"garboard.chaos.port": &o.port, "garboard.chaos.first": &o.first, "garboard.chaos.count": &o.count, "garboard.chaos.kills": &o.kills}
	for _, w := range strings.Fields(cmdline) {
		key, value, _ := strings.Cut(w, "=")
		if key == "garboard.nonce" {
			o.nonce = value
		}
		if p := numbers[key]; p != nil {
			if *p, err = strconv.Atoi(value); err != nil || *p < 0 {
				return o, fmt.Errorf("kernel command line: %q is no number", w)
			}
		}
	}
	if o.nonce == "" {
		return o, fmt.Errorf("no garboard.nonce= on the kernel command line")
	}
	return o, nil
}

func start(ctx context.Context) error {
	cmdline, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return err
	}
	o, err := parseOrders(string(cmdline))
	if err != nil {
		return err
	}
	kmsg, err := os.OpenFile("/host/dev/kmsg", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer kmsg.Close()
	runtime, err := connect("/run/crio/crio.sock")
	if err != nil {
		return err
	}
	g := &guest{orders: o, root: "/host", runtime: runtime, say: func(format string, args ...any) {
		line := fmt.Sprintf(format, args...)
		// The kernel refuses more than some 1000 bytes.
		line = line[:min(len(line), 800)]
		// User, warning: shown on a quiet console too.
		fmt.Fprintf(kmsg, "<12>chaos: %s %s\n", o.nonce, line)
	}}
	switch err := g.run(ctx); {
	case err != nil && ctx.Err() != nil: // a shutdown, in the middle of a pull
		g.say("ended %q", err)
		return nil
	case err != nil:
		g.say("broken %q", err)
		return err
	}
	<-ctx.Done()
	return nil
}
