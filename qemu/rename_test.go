package qemu

import "testing"

// A node that is renamed while it runs keeps its static pods, containers and
// logs over the kubelet's restart; the console goes on following them.
func TestVMRenamedNodeKeepsItsPods(t *testing.T) {
	runBoot(t, testMachine(t, "test-amd64"), "rename", bootLimit, func(b *boot) error {
		if err := b.keepsPodsOverRename(); err != nil {
			return err
		}
		if err := b.verdict(podsCeiling); err != nil {
			return err
		}
		if err := b.endsInOrder(false); err != nil {
			return err
		}
		return b.judged()
	})
}

func (b *boot) keepsPodsOverRename() error {
	for _, line := range []string{
		`/tester: tester: the same [0-9]+ containers with the same processes`,
		`^default/ticker-garboard/tick: tick: `,
		`/tester: tester: /var/log/pods/default_ticker-garboard_[0-9a-f]{32}/tick/0.log has grown from `,
		`/tester: tester: logs and exec of ticker-renamed-7.example.com/tick`,
		`^default/ticker-renamed-7.example.com/tick: tick: 1$`,
		`/tester: tester: the killed container is back and writes /var/log/pods/default_ticker-renamed-7.example.com_[0-9a-f]{32}/tick/1.log`,
	} {
		if _, err := b.sees(line, podsCeiling); err != nil {
			return err
		}
	}
	return nil
}
