// Command pause is PID 1 of a pod's sandbox: it holds the pod's namespaces,
// reaps what is orphaned in them, ends at once on SIGTERM or SIGINT, and
// otherwise sleeps.
//
// It exists once per pod, so it is built to weigh nothing. The packages os and
// os/signal are left out because they cost two threads and a quarter of the
// memory; two dispositions that the kernel carries out itself replace them:
// SIGCHLD is ignored, which makes the kernel reap children (sigaction(2),
// "SA_NOCLDWAIT" and POSIX.1-2001's SIG_IGN), and SIGTERM and SIGINT go to a
// handler of three instructions that is exit_group(0).
package main

import (
	"syscall"
	"unsafe"
)

// sigaction is the kernel's struct sigaction of amd64 and arm64, not the C
// library's.
type sigaction struct {
	handler  uintptr
	flags    uintptr
	restorer uintptr
	mask     uint64
}

const (
	sigIgn = 1 // SIG_IGN

	// saRestorer says that the restorer field is set: x86-64 delivers no signal
	// without it. The handler never returns, so the restorer is never run.
	saRestorer = 0x04000000
	// saOnStack puts the signal's frame on the alternate stack that the Go
	// runtime keeps for each thread; a goroutine's stack may be too small.
	saOnStack = 0x08000000
)

// exitOK ends the process with status 0. It is a signal handler: it touches
// neither the stack nor the Go runtime.
func exitOK()

// exitOKAddr is the address of exitOK's first instruction; a Go func value is
// a pointer to more than that.
func exitOKAddr() uintptr

func main() {
	end := sigaction{handler: exitOKAddr(), flags: saRestorer | saOnStack, restorer: exitOKAddr()}
	reap := sigaction{handler: sigIgn, flags: saRestorer, restorer: exitOKAddr()}
	ok := handle(syscall.SIGCHLD, &reap) && handle(syscall.SIGTERM, &end) && handle(syscall.SIGINT, &end)
	if !ok {
		println("pause: rt_sigaction failed; is a seccomp profile in the way?")
		syscall.Exit(1)
	}
	for {
		// No descriptors, no limit: sleep until a signal, then sleep again.
		syscall.Syscall6(syscall.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
	}
}

// handle is rt_sigaction(2). It goes around the Go runtime, which would start
// a thread to deliver a signal that a program asks for.
func handle(sig syscall.Signal, a *sigaction) bool {
	_, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(a)), 0, unsafe.Sizeof(a.mask), 0, 0)
	return errno == 0
}
