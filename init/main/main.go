// Command init is PID 1 of a node, and by the name it is called with also
// modprobe, pinns and what PID 1 starts services through: one binary, one copy in memory.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	boot "garboard.local/init"
	"garboard.local/init/launch"
	"garboard.local/init/modules"
	"garboard.local/init/pinns"
)

func main() {
	name := filepath.Base(os.Args[0])
	switch {
	case os.Getpid() == 1:
		boot.Main()
	case name == "modprobe":
		os.Exit(modules.Modprobe(os.Args[1:], modules.OpenRunning, os.Stderr, modules.Kmsg()))
	case name == launch.Name:
		os.Exit(launch.Main(os.Args[1:], os.Environ(), "/", os.Stderr))
	case name == "pinns":
		os.Exit(pinns.Main(os.Args[1:], os.Stderr))
	default:
		fmt.Fprintf(os.Stderr, "%s: is PID 1 of a Garboard node; it runs as modprobe or pinns by that name, and as init only as process 1\n", name)
		os.Exit(2)
	}
}
