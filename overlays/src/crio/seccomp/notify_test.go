package seccomp

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// trap starts a thread whose getpgid(2) calls wait for an answer, and returns
// the descriptor on which they are announced and the results of calls made on
// request. The thread ends with the test; the filter is on no other.
func trap(t *testing.T) (fd ScmpFd, call chan<- uintptr, result <-chan syscall.Errno, values <-chan uintptr) {
	t.Helper()
	type filter struct {
		code   uint16
		jt, jf uint8
		k      uint32
	}
	program := []filter{
		{0x20, 0, 0, 0}, // load the call's number
		{0x15, 0, 1, uint32(syscall.SYS_GETPGID)}, // getpgid?
		{0x06, 0, 0, 0x7fc00000},                  // SECCOMP_RET_USER_NOTIF
		{0x06, 0, 0, 0x7fff0000},                  // SECCOMP_RET_ALLOW
	}
	fprog := struct {
		len    uint16
		filter *filter
	}{uint16(len(program)), &program[0]}
	nr, err := seccompNumber()
	if err != nil {
		t.Fatal(err)
	}

	calls, errnos, vals := make(chan uintptr), make(chan syscall.Errno, 1), make(chan uintptr, 1)
	t.Cleanup(func() { close(calls) })
	type listener struct {
		fd    uintptr
		errno syscall.Errno
	}
	ready := make(chan listener)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread dies with the goroutine
		const prSetNoNewPrivs, setModeFilter, newListener = 38, 1, 1 << 3
		syscall.Syscall6(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0, 0, 0, 0)
		fd, _, errno := syscall.Syscall(nr, setModeFilter, newListener, uintptr(unsafe.Pointer(&fprog)))
		ready <- listener{fd, errno}
		for arg := range calls {
			v, _, errno := syscall.Syscall(syscall.SYS_GETPGID, arg, 0, 0)
			vals <- v
			errnos <- errno
		}
	}()
	l := <-ready
	if l.errno != 0 {
		t.Fatalf("install a filter with a listener: %v (Linux 5.0 or later is needed)", l.errno)
	}
	t.Cleanup(func() { syscall.Close(int(l.fd)) })
	return ScmpFd(l.fd), calls, errnos, vals
}

func receive(t *testing.T, fd ScmpFd, arg uint64) *ScmpNotifReq {
	t.Helper()
	type answer struct {
		req *ScmpNotifReq
		err error
	}
	c := make(chan answer, 1)
	go func() {
		req, err := NotifReceive(fd)
		c <- answer{req, err}
	}()
	select {
	case a := <-c:
		if a.err != nil {
			t.Fatal(a.err)
		}
		name, err := a.req.Data.Syscall.GetName()
		native, _ := GetNativeArch()
		if name != "getpgid" || err != nil || a.req.Data.Arch != native || a.req.Data.Args[0] != arg || a.req.Pid == 0 {
			t.Errorf("%q, %v: %+v", name, err, a.req)
		}
		return a.req
	case <-time.After(10 * time.Second):
		t.Fatal("no notification within 10 s")
		return nil
	}
}

func TestNotifyRoundTrip(t *testing.T) {
	fd, call, errnos, values := trap(t)

	call <- 4711
	req := receive(t, fd, 4711)
	if err := NotifIDValid(fd, req.ID); err != nil {
		t.Errorf("the id of a waiting call: %v", err)
	}
	if err := NotifIDValid(fd, req.ID+1000); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("an id that nobody has: %v", err)
	}
	if err := NotifRespond(fd, &ScmpNotifResp{ID: req.ID, Error: int32(syscall.ENOSYS)}); err != nil {
		t.Fatal(err)
	}
	<-values
	if errno := <-errnos; errno != syscall.ENOSYS {
		t.Errorf("the call was answered with ENOSYS and returned %v", errno)
	}
	if err := NotifRespond(fd, &ScmpNotifResp{ID: req.ID}); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("a second answer: %v", err)
	}

	call <- 0
	req = receive(t, fd, 0)
	if err := NotifRespond(fd, &ScmpNotifResp{ID: req.ID, Val: 12345}); err != nil {
		t.Fatal(err)
	}
	if v, errno := <-values, <-errnos; v != 12345 || errno != 0 {
		t.Errorf("the call was answered with 12345 and returned %d, %v", v, errno)
	}

	call <- 0
	req = receive(t, fd, 0)
	if err := NotifRespond(fd, &ScmpNotifResp{ID: req.ID, Flags: NotifRespFlagContinue}); err != nil {
		t.Fatal(err)
	}
	if v, errno := <-values, <-errnos; int(v) != syscall.Getpgrp() || errno != 0 {
		t.Errorf("the call was let through and returned %d, %v; want %d", v, errno, syscall.Getpgrp())
	}
}

func TestNotifyOnTheWrongDescriptor(t *testing.T) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fd := ScmpFd(f.Fd())
	if req, err := NotifReceive(fd); err == nil {
		t.Errorf("received %+v from %s", req, f.Name())
	}
	if err := NotifRespond(fd, &ScmpNotifResp{}); err == nil {
		t.Error("answered")
	}
	if err := NotifIDValid(fd, 1); err == nil {
		t.Error("id 1 is valid")
	}
}

func TestKernelSizes(t *testing.T) {
	s, err := notifSizes()
	if err != nil {
		t.Fatal(err)
	}
	if uintptr(s.notif) < unsafe.Sizeof(kernelNotif{}) || uintptr(s.resp) < unsafe.Sizeof(kernelResp{}) || uintptr(s.data) < unsafe.Sizeof(kernelData{}) {
		t.Errorf("the kernel's structures are shorter than ours: %+v", s)
	}
	if got := 8 * len(buffer(80, 100)); got != 104 {
		t.Errorf("a buffer for a kernel whose structure is 100 bytes has %d", got)
	}
}
