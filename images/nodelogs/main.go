// Command nodelogs is one container of the node pod: it writes a log of the node
// to its standard output, so that kubectl and log collectors read it as any
// pod's. `nodelogs NAME` follows /logs/NAME.log and keeps its position in
// /state/NAME: a container that is started again goes on where it was.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: nodelogs NAME; it follows /logs/NAME.log")
		os.Exit(2)
	}
	f := &follower{path: "/logs/" + os.Args[1] + ".log", state: "/state/" + os.Args[1], out: os.Stdout,
		say: func(format string, args ...any) { fmt.Fprintf(os.Stderr, "nodelogs: "+format+"\n", args...) }}
	if err := f.start(); err != nil {
		f.say("%v", err)
		os.Exit(1)
	}
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-term
		f.stop()
	}()
	if err := f.run(); err != nil {
		f.say("%v", err)
		os.Exit(1)
	}
}
