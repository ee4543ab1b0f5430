package qemu

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// A stopped kubelet, a pod that does not end, busy, nested and bound mounts with
// white space in their names, swap on the data partition and no room on it: the node
// says what it does and ends clean.
func TestVMShutdownWithTroubles(t *testing.T) {
	d := newImage(t, 512*mib)
	m := testMachine(t, "test-amd64")
	m.Disks = []Disk{{Path: d.path}}
	m.Cmdline += " garboard.data=/dev/vda"
	runBoot(t, m, "stuck", bootLimit, func(b *boot) error {
		if err := b.verdict(2 * podsCeiling); err != nil {
			return err
		}
		return b.endsInSpiteOfTroubles()
	})
	d.clean()
}

func (b *boot) endsInSpiteOfTroubles() error {
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
		if strings.Contains(l.Text, "/var/lib/tester") || strings.Contains(l.Text, "/var (ext4)") {
			b.t.Errorf("a mount was not free: %s", l.Text)
		}
		if own, ok := l.Own(); ok && strings.HasPrefix(own, "shutdown") {
			b.t.Log(l.Text)
		}
	}
	return b.judged()
}

// momentCeiling is more than the node's own for a boot that has no pods to end
// yet, on an emulated machine.
const momentCeiling = 90 * time.Second

// moment is when somebody presses, after PID 1's first line.
type moment struct {
	name  string
	after time.Duration
	press func(*boot) error
	reset bool
}

// moments are ctrl-alt-del at the first line, and the power button once at random
// within each of so many slices of the boot.
func moments(slices int, slice time.Duration) []moment {
	list := []moment{{"ctrl-alt-del at the first line", 0, func(b *boot) error { return b.CtrlAltDel(b.ctx) }, true}}
	for i := range slices {
		d := time.Duration(i)*slice + rand.N(slice)
		list = append(list, moment{fmt.Sprintf("the power button %s later", d.Round(10*time.Millisecond)), d,
			func(b *boot) error { return b.PowerButton(b.ctx) }, false})
	}
	return list
}

// Asked for at any moment of the boot, the end comes, and it is clean. The
// moments are random within slices of the boot; what they were is printed.
func TestVMShutdownAmidTheBoot(t *testing.T) {
	t.Run(AMD64, func(t *testing.T) { shutdownAmidTheBoot(t, AMD64, moments(5, 1500*time.Millisecond)) })
	t.Run(ARM64, func(t *testing.T) { shutdownAmidTheBoot(t, ARM64, moments(1, 8*time.Second)) })
}

func shutdownAmidTheBoot(t *testing.T, arch string, list []moment) {
	for _, tt := range list {
		t.Run(strings.ReplaceAll(tt.name, " ", "-"), func(t *testing.T) {
			runBoot(t, testMachine(t, "node-"+arch), "", bootLimit, func(b *boot) error {
				if _, err := b.sees(`^garboard: `, time.Minute); err != nil {
					return err
				}
				time.Sleep(tt.after)
				asked, err := b.goesDown(tt.press, tt.reset)
				if err != nil {
					return err
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

// goesDown presses, and demands a clean end of that kind.
func (b *boot) goesDown(press func(*boot) error, reset bool) (asked time.Time, err error) {
	if asked, err = b.pressUntilHeard(press); err != nil {
		return asked, err
	}
	if _, err := b.sees(`^garboard: shutdown: clean$`, momentCeiling); err != nil {
		return asked, err
	}
	exit, err := b.ends(30 * time.Second)
	if err != nil {
		return asked, err
	}
	if exit.Panicked || exit.GuestReset != reset || exit.GuestShutdown == reset {
		return asked, b.Console.Failure(nil, "the machine ended by %+v", exit)
	}
	return asked, nil
}
