package qemu

import (
	"errors"
	"strings"
	"testing"
)

// A recipe's own service (recipes/node-exporter.yaml): its task first, then the
// service, as its own user, in its limits; it comes back after it was killed, without
// its task, and ends after the pods.
func TestVMAgent(t *testing.T) { eachArch(t, agentIsAsItsManifestSays) }

func agentIsAsItsManifestSays(t *testing.T, arch string) {
	runBoot(t, testMachine(t, "test-agent-"+arch), "agent", bootLimit, func(b *boot) error {
		for _, line := range []string{
			`^garboard: service node-exporter-port: done$`,
			`^garboard: service node-exporter-exporter: started, pid \d+$`,
			`^garboard: service node-exporter-exporter: ready, `,
			`^garboard: service node-exporter-exporter: exited: signal: killed, restart in 1s`,
			`^garboard: service node-exporter-exporter: started, pid \d+$`,
		} {
			if _, err := b.sees(line, podsCeiling); err != nil {
				return err
			}
		}
		if err := b.verdict(podsCeiling); err != nil {
			return err
		}
		for _, line := range []string{
			`^garboard: shutdown requested by `,
			podLine("sigterm", "sigterm: finished$"),
			`^garboard: service node-exporter-exporter: .*, SIGTERM, at most 5s$`,
			`^garboard: service node-exporter-exporter: ended`,
			`^garboard: shutdown: clean$`,
		} {
			if _, err := b.sees(line, endCeiling); err != nil {
				return err
			}
		}
		exit, err := b.ends(endCeiling)
		if err == nil && (!exit.GuestShutdown || exit.Panicked) {
			err = b.Console.Failure(nil, "the machine ended by %+v", exit)
		}
		if err != nil {
			return err
		}
		tasks := 0
		for _, l := range b.Console.Lines() {
			if own, ok := l.Own(); ok && strings.HasPrefix(own, "service node-exporter-port: started") {
				tasks++
			}
		}
		if tasks != 1 {
			err = b.Console.Failure(nil, "the task was started %d times", tasks)
		}
		return errors.Join(err, b.judged())
	})
}
