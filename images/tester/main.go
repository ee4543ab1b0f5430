// Command tester is the guest's half of the QEMU tests. As the privileged
// static pod "tester" it carries out the scenario that the kernel command line
// names and gives the verdict that the host waits for; under other arguments it
// is each of the small pods that the scenarios look at.
package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

func main() {
	say := func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	args := os.Args[1:]
	if len(args) == 0 {
		args = []string{"run"}
	}
	if err := dispatch(args, say); err != nil {
		say("tester: %v", err)
		os.Exit(1)
	}
}

// dispatch runs one of the pods.
func dispatch(args []string, say func(string, ...any)) error {
	switch args[0] {
	case "run":
		return run(say)
	case "seccomp":
		return seccomp(say)
	case "sigterm":
		if len(args) != 2 {
			return fmt.Errorf("usage: tester sigterm DURATION")
		}
		d, err := time.ParseDuration(args[1])
		if err != nil {
			return fmt.Errorf("sigterm: %w", err)
		}
		return sigterm(d, say)
	case "rooted":
		if len(args) != 2 {
			return fmt.Errorf("usage: tester rooted plain|frozen|alive|able")
		}
		return rooted(args[1], say)
	case "stats":
		return stats("/proc", 15*time.Second, say)
	case "sleep":
		return sleep(say)
	case "tick":
		return tick(say)
	case "say":
		say("%s", strings.Join(args[1:], " "))
		return nil
	case "write":
		if len(args) != 2 {
			return fmt.Errorf("usage: tester write DISK")
		}
		return write(args[1])
	}
	return fmt.Errorf("no pod %q: there are run, rooted, seccomp, sigterm, stats, say, sleep, tick, write", args[0])
}
