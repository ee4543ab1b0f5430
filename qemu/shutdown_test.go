package qemu

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// A stopped kubelet, a pod that does not end, and busy, nested and bound mounts
// with white space in their names: the node says what it does and ends clean.
func TestVMShutdownWithTroubles(t *testing.T) {
	runBoot(t, testMachine(t, "test-amd64"), "stuck", bootLimit, func(b *boot) error {
		if err := b.verdict(2 * podsCeiling); err != nil {
			return err
		}
		for _, line := range []string{
			`^garboard: shutdown requested by shutdown from pid`,
			`^garboard: service kubelet: pid \d+ was stopped, SIGCONT`,
			`^garboard: shutdown: waiting for the kubelet to end its pods, at most 40s`,
			`^garboard: shutdown: the kubelet is done, `,
			`^garboard: shutdown: clean`,
			`^garboard: power-off`,
		} {
			if _, err := b.sees(line, endCeiling); err != nil {
				return err
			}
		}
		exit, err := b.ends(endCeiling)
		if err != nil {
			return err
		}
		if !exit.GuestShutdown || exit.Panicked {
			return b.Console.Failure(nil, "the machine ended by %+v", exit)
		}
		for _, l := range b.Console.Lines() {
			if strings.Contains(l.Text, "/var/lib/tester") {
				t.Errorf("a mount was not free: %s", l.Text)
			}
			if own, ok := l.Own(); ok && strings.HasPrefix(own, "shutdown") {
				t.Log(l.Text)
			}
		}
		return b.judged()
	})
}

// momentCeiling is more than the node's own for a boot that has no pods to end
// yet, on an emulated machine.
const momentCeiling = 90 * time.Second

// Asked for at any moment of the boot, the end comes, and it is clean. The
// moments are random within slices of the boot; what they were is printed.
func TestVMShutdownAmidTheBoot(t *testing.T) {
	type moment struct {
		name  string
		after time.Duration // after PID 1's first line
		press func(*boot) error
		reset bool
	}
	button := func(b *boot) error { return b.PowerButton(b.ctx) }
	moments := []moment{{"ctrl-alt-del at the first line", 0, func(b *boot) error { return b.CtrlAltDel(b.ctx) }, true}}
	for i := range 5 {
		d := time.Duration(i)*1500*time.Millisecond + rand.N(1500*time.Millisecond)
		moments = append(moments, moment{fmt.Sprintf("the power button %s later", d.Round(10*time.Millisecond)), d, button, false})
	}
	for _, tt := range moments {
		t.Run(strings.ReplaceAll(tt.name, " ", "-"), func(t *testing.T) {
			runBoot(t, testMachine(t, "node-amd64"), "", bootLimit, func(b *boot) error {
				if _, err := b.sees(`^garboard: `, time.Minute); err != nil {
					return err
				}
				time.Sleep(tt.after)
				asked, err := b.pressUntilHeard(tt.press)
				if err != nil {
					return err
				}
				if _, err := b.sees(`^garboard: shutdown: clean$`, momentCeiling); err != nil {
					return err
				}
				exit, err := b.ends(30 * time.Second)
				if err != nil {
					return err
				}
				if exit.Panicked || exit.GuestReset != tt.reset || exit.GuestShutdown == tt.reset {
					return b.Console.Failure(nil, "the machine ended by %+v", exit)
				}
				last := ""
				for _, l := range b.Console.Lines() {
					if own, ok := l.Own(); ok && strings.HasPrefix(own, "shutdown requested") {
						break
					} else if ok {
						last = own
					}
				}
				t.Logf("ended %s after it was asked; before that the last line was %q", time.Since(asked).Round(100*time.Millisecond), last)
				return nil
			})
		})
	}
}

// pressUntilHeard presses once every two seconds, as a person would: until the
// drivers are loaded a press reaches nobody.
func (b *boot) pressUntilHeard(press func(*boot) error) (time.Time, error) {
	for range 10 {
		asked := time.Now()
		if err := press(b); err != nil {
			return asked, err
		}
		_, err := b.sees(`^garboard: shutdown requested by `, 2*time.Second)
		if err == nil {
			return asked, nil
		}
		if time.Since(asked) < 2*time.Second { // not for lack of a driver
			return asked, err
		}
	}
	return time.Time{}, b.Console.Failure(nil, "nobody hears it")
}
