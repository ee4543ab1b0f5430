// Package qemu drives one virtual machine: it starts QEMU with the fewest
// devices a node needs, reads the serial console line by line, presses the
// machine's buttons over QMP, and says how the guest ended. On top of that it
// holds what `garboard run` does, the boot benchmark, and the integration tests.
//
// The console is read as evidence: a kernel panic, a missing root image or
// PID 1's fatal line ends a wait at once, with the console's tail in the error.
// Two faults are not the guest's: see Int3Signature and TimerSignature.
package qemu
