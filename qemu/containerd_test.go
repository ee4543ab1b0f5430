package qemu

import "testing"

// The same promises with containerd in place of cri-o, in one boot: static pods
// from preloaded images, seccomp, versions, ports, SIGKILL of the runtime and
// socket command 4 under running pods, and a shutdown that lets pods finish.
func TestVMContainerdKeepsItsPromises(t *testing.T) { eachArch(t, containerdKeepsItsPromises) }

func containerdKeepsItsPromises(t *testing.T, arch string) {
	keepsItsPromises(t, "test-containerd-"+arch, "containerd")
}
