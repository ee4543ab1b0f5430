package seccomp

import (
	"fmt"
	"syscall"
	"unsafe"
)

// NotifRespFlagContinue lets the kernel carry the call out after all
// (SECCOMP_USER_NOTIF_FLAG_CONTINUE).
const NotifRespFlagContinue uint32 = 1

// ScmpFd is the descriptor on which a filter's notifications arrive.
type ScmpFd int32

// ScmpNotifData is the system call that waits for an answer (struct seccomp_data).
type ScmpNotifData struct {
	Syscall      ScmpSyscall `json:"syscall,omitempty"`
	Arch         ScmpArch    `json:"arch,omitempty"`
	InstrPointer uint64      `json:"instr_pointer,omitempty"`
	Args         []uint64    `json:"args,omitempty"` // always six
}

// ScmpNotifReq is a notification (struct seccomp_notif).
type ScmpNotifReq struct {
	ID    uint64        `json:"id,omitempty"`
	Pid   uint32        `json:"pid,omitempty"` // 0 if the process is not visible from our pid namespace
	Flags uint32        `json:"flags,omitempty"`
	Data  ScmpNotifData `json:"data,omitempty"`
}

// ScmpNotifResp is the answer to a notification (struct seccomp_notif_resp).
type ScmpNotifResp struct {
	ID    uint64 `json:"id,omitempty"`
	Error int32  `json:"error,omitempty"` // an errno, positive; 0 for none
	Val   uint64 `json:"val,omitempty"`   // the call's result if Error is 0
	Flags uint32 `json:"flags,omitempty"`
}

// The kernel's structures (include/uapi/linux/seccomp.h). Their layout is the
// same on every 64-bit architecture.
type (
	kernelData struct {
		nr                 int32
		arch               uint32
		instructionPointer uint64
		args               [6]uint64
	}
	kernelNotif struct {
		id    uint64
		pid   uint32
		flags uint32
		data  kernelData
	}
	kernelResp struct {
		id    uint64
		val   int64
		error int32
		flags uint32
	}
	kernelSizes struct{ notif, resp, data uint16 }
)

// The ioctl requests: direction, size of the structure, '!', number.
const (
	ioctlNotifRecv    = 3<<30 | uintptr(unsafe.Sizeof(kernelNotif{}))<<16 | '!'<<8 | 0 // _IOWR
	ioctlNotifSend    = 3<<30 | uintptr(unsafe.Sizeof(kernelResp{}))<<16 | '!'<<8 | 1  // _IOWR
	ioctlNotifIDValid = 1<<30 | uintptr(8)<<16 | '!'<<8 | 2                            // _IOW

	getNotifSizes = 3 // operation of seccomp(2)
)

// seccompNumber is seccomp(2)'s own number, which package syscall lacks.
func seccompNumber() (uintptr, error) {
	n, err := GetSyscallFromName("seccomp")
	return uintptr(n), err
}

// notifSizes asks the kernel for the sizes of its structures: a kernel newer
// than this program may have longer ones, and writes them whole.
func notifSizes() (s kernelSizes, err error) {
	nr, err := seccompNumber()
	if err != nil {
		return s, err
	}
	_, _, errno := syscall.Syscall(nr, getNotifSizes, 0, uintptr(unsafe.Pointer(&s)))
	if errno != 0 {
		return s, fmt.Errorf("this kernel has no seccomp user notifications (Linux 5.0 or later with CONFIG_SECCOMP_FILTER has them): %w", errno)
	}
	return s, nil
}

// buffer is zeroed memory, aligned for the kernel's structures, of at least
// min bytes and at least as long as the kernel says.
func buffer(min uintptr, kernel uint16) []uint64 {
	return make([]uint64, (max(min, uintptr(kernel))+7)/8)
}

// ioctl repeats an interrupted request and returns a bare errno, so that
// callers can tell ENOENT: the process that waited is gone.
func ioctl(fd ScmpFd, request uintptr, arg unsafe.Pointer) error {
	for {
		_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), request, uintptr(arg))
		switch errno {
		case 0:
			return nil
		case syscall.EINTR:
			continue
		}
		return errno
	}
}

// NotifReceive waits for the next notification. The error is ENOENT if the
// process died in the meantime.
func NotifReceive(fd ScmpFd) (*ScmpNotifReq, error) {
	sizes, err := notifSizes()
	if err != nil {
		return nil, err
	}
	for {
		// The kernel insists on zeroes, so a repeated request has a new buffer.
		buf := buffer(unsafe.Sizeof(kernelNotif{}), sizes.notif)
		_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), ioctlNotifRecv, uintptr(unsafe.Pointer(&buf[0])))
		if errno == syscall.EINTR {
			continue
		}
		if errno != 0 {
			return nil, errno
		}
		return (*kernelNotif)(unsafe.Pointer(&buf[0])).public()
	}
}

func (n *kernelNotif) public() (*ScmpNotifReq, error) {
	arch, err := archFromAudit(n.data.arch)
	if err != nil {
		return nil, err
	}
	args := n.data.args
	return &ScmpNotifReq{ID: n.id, Pid: n.pid, Flags: n.flags, Data: ScmpNotifData{
		Syscall: ScmpSyscall(n.data.nr), Arch: arch,
		InstrPointer: n.data.instructionPointer, Args: args[:],
	}}, nil
}

// NotifRespond answers a notification. The error is ENOENT if nobody waits for
// the answer any more.
func NotifRespond(fd ScmpFd, resp *ScmpNotifResp) error {
	sizes, err := notifSizes()
	if err != nil {
		return err
	}
	buf := buffer(unsafe.Sizeof(kernelResp{}), sizes.resp)
	// Upstream's errors are positive, the kernel's negative.
	*(*kernelResp)(unsafe.Pointer(&buf[0])) = kernelResp{
		id: resp.ID, val: int64(resp.Val), error: -resp.Error, flags: resp.Flags,
	}
	return ioctl(fd, ioctlNotifSend, unsafe.Pointer(&buf[0]))
}

// NotifIDValid says with an error of ENOENT that the process which caused the
// notification no longer waits, so that its pid may be another's by now.
func NotifIDValid(fd ScmpFd, id uint64) error {
	return ioctl(fd, ioctlNotifIDValid, unsafe.Pointer(&id))
}
