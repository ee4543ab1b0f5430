package qemu

import (
	"strings"
	"testing"
	"time"
)

// The bootstrap pod of docs/examples, as it stands there, restarts the kubelet
// once and nothing else; the node pod shows it in the services' logs, and none of
// its lines comes to the console, from where they would come to a log again.
func TestVMBootstrapAndNodePod(t *testing.T) {
	runBoot(t, testMachine(t, "test-amd64"), "bootstrap", bootLimit, func(b *boot) error {
		if _, err := b.sees(`^garboard: system socket: restart-kubelet from pid \d+ \(garboard-ctl\), uid 65534, restart socket`, podsCeiling); err != nil {
			return err
		}
		if err := b.verdict(5 * time.Minute); err != nil {
			return err
		}
		if err := b.endsInOrder(false); err != nil {
			return err
		}
		for _, l := range b.Console.Lines() {
			p, ok := l.Pod()
			if ok && p.Namespace == "kube-system" && strings.HasPrefix(p.Pod, "node-") {
				t.Errorf("the node pod is echoed: %s", l.Text)
			}
			if ok && p.Container == "tester" {
				t.Log(p.Text)
			}
		}
		return b.judged()
	})
}
