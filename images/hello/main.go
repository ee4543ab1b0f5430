// Command hello is the pod that a new node runs to show that it works: it says
// where it runs, then that it is still there once a minute, and on SIGTERM it
// takes its leave, which a node that shuts down gracefully lets it finish.
package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	tick := time.NewTicker(time.Minute)
	h := hello{
		out:      os.Stdout,
		name:     os.Getenv("POD_NAME"),
		hostname: read("/proc/sys/kernel/hostname"),
		kernel:   read("/proc/sys/kernel/osrelease"),
		uptime:   strings.Fields(read("/proc/uptime") + " 0")[0],
		stop:     stop,
		tick:     tick.C,
		farewell: 500 * time.Millisecond,
	}
	h.run()
}

type hello struct {
	out              io.Writer
	name             string // the pod's, from the downward API; "" where the manifest passes none
	hostname, kernel string
	uptime           string // the node's at the pod's first instruction, seconds
	stop             <-chan os.Signal
	tick             <-chan time.Time
	farewell         time.Duration // from the last line to the end
}

func (h hello) run() {
	name := h.name
	if name == "" {
		name = h.hostname // the kubelet's default, unless the pod uses the host's network
	}
	fmt.Fprintln(h.out, "hello: hello from a pod on a Garboard node")
	fmt.Fprintf(h.out, "hello: hostname %s\n", h.hostname)
	fmt.Fprintf(h.out, "hello: kernel Linux %s\n", h.kernel)
	fmt.Fprintf(h.out, "hello: running as pod %s\n", name)
	fmt.Fprintf(h.out, "hello: began at uptime %s\n", h.uptime)
	for minutes := 1; ; minutes++ {
		select {
		case <-h.tick:
			fmt.Fprintf(h.out, "hello: still here after %d min\n", minutes)
		case s := <-h.stop:
			fmt.Fprintf(h.out, "hello: %s, bye\n", signalName(s))
			time.Sleep(h.farewell)
			return
		}
	}
}

// signalName is a signal's name as in signal(7); Signal.String gives a sentence.
func signalName(s os.Signal) string {
	switch s {
	case syscall.SIGTERM:
		return "SIGTERM"
	case syscall.SIGINT:
		return "SIGINT"
	}
	return s.String()
}

func read(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return "unknown (" + err.Error() + ")"
	}
	return strings.TrimSpace(string(b))
}
