package qemu

import "testing"

// The bootstrap pod of docs/examples, as it stands there, restarts the kubelet
// once and nothing else; then the node ends in order.
func TestVMBootstrapPod(t *testing.T) {
	runBoot(t, testMachine(t, "test-amd64"), "bootstrap", bootLimit, func(b *boot) error {
		if _, err := b.sees(`^garboard: system socket: restart-kubelet from pid \d+ \(garboard-ctl\), uid 65534, restart socket`, podsCeiling); err != nil {
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
