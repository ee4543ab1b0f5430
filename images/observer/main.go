// Command observer is a program for a pod that writes down what it sees of itself:
// user, capabilities, environment, mounts, order, signals. The same manifests are run
// by a kubelet, by systemd and by PID 1 of a node, and qemu/observed compares what they tell.
//
// Each container appends its events, one JSON object a line, to a file of its own in
// a directory that all pods mount; "collect" prints the files to the console in the end.
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := dispatch(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "observer:", err)
		os.Exit(1)
	}
}

func dispatch(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("usage: observer run|event|sick|collect|load ...")
	}
	switch args[0] {
	case "run":
		return run(args[1:])
	case "event":
		return event(args[1:])
	case "sick":
		return sick(args[1:])
	case "collect":
		return collect(args[1:])
	case "load":
		return load(args[1:])
	}
	return fmt.Errorf("no command %q: there are run, event, sick, collect, load", args[0])
}
