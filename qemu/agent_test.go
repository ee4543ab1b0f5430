package qemu

import (
	"errors"
	"regexp"
	"testing"
)

// A recipe's own service (recipes/node-exporter.yaml): its task first, then the
// service, as its own user, in its limits; it comes back after it was killed, without
// its task, and ends after the pods. Beside it run services with a container image
// (qemu/testdata/services/rooted.yaml), which look at what they are given.
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
		if err := b.saw(podLine("able", "rooted: effective capabilities 400$"), podsCeiling); err != nil {
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
		for _, w := range []struct {
			line  string
			times int
		}{
			{`^service node-exporter-port: started`, 1}, // a task, which its pod's restarts leave alone
			{`^service rooted-foreign: done$`, 1},
			{`^service rooted-plain: exited: exit status 7, restart in 1s$`, 1}, // as its first run is to
			{`^service rooted-(plain|frozen): ended: exit status 0`, 2},
			{`^service rooted-(plain|frozen): .*, SIGQUIT, at most 5s$`, 2}, // the image's signal
		} {
			n := 0
			for _, l := range b.Console.Lines() {
				if own, ok := l.Own(); ok && regexp.MustCompile(w.line).MatchString(own) {
					n++
				}
			}
			if n != w.times {
				err = errors.Join(err, b.Console.Failure(nil, "%d lines are %q, want %d", n, w.line, w.times))
			}
		}
		return errors.Join(err, b.judged())
	})
}
