package qemu

import (
	"bytes"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

const hostArch = runtime.GOARCH

// Accel is how the guest's instructions are carried out.
type Accel string

const (
	AccelAuto Accel = ""    // KVM where it is usable, else TCG
	AccelKVM  Accel = "kvm" // the host's processor
	AccelTCG  Accel = "tcg" // QEMU's translator, one thread for each virtual CPU
)

// accelChoice is an accelerator and, for the person who waits, the reason.
type accelChoice struct {
	accel Accel
	why   string
}

func (c accelChoice) cpu(arch string) string {
	switch {
	case c.accel == AccelKVM:
		return "host"
	case arch == ARM64:
		// The architected pointer authentication cipher is what makes "max"
		// slow under TCG; QEMU's own is as good for a test.
		return "max,pauth-impdef=on"
	default:
		return "max"
	}
}

// kvmProbe is what chooseAccel looks at; the paths are arguments for its tests.
type kvmProbe struct {
	device  string // /dev/kvm
	cpuinfo string // /proc/cpuinfo
}

var hostKVM = kvmProbe{device: "/dev/kvm", cpuinfo: "/proc/cpuinfo"}

func chooseAccel(want Accel, arch string, p kvmProbe) (accelChoice, error) {
	switch want {
	case AccelTCG:
		return accelChoice{AccelTCG, "asked for"}, nil
	case AccelAuto, AccelKVM:
	default:
		return accelChoice{}, fmt.Errorf("accelerator %q: not one of kvm, tcg", want)
	}
	err := p.usable(arch)
	switch {
	case err == nil:
		return accelChoice{AccelKVM, p.device + " is usable"}, nil
	case want == AccelKVM:
		return accelChoice{}, fmt.Errorf("KVM was asked for: %w", err)
	default:
		return accelChoice{AccelTCG, err.Error()}, nil
	}
}

// kvmCreateVM is KVM_CREATE_VM of linux/kvm.h, _IO(0xAE, 0x01).
const kvmCreateVM = 0xAE01

// usable says why KVM cannot run a guest of this architecture, or nil. The
// device alone proves little: inside some virtual machines it opens and makes
// VMs that only a paravirtualised guest kernel can start in. There the
// processor shows neither of its virtualisation flags, so both are asked for.
func (p kvmProbe) usable(arch string) error {
	if arch != hostArch {
		return fmt.Errorf("the guest is %s and this machine %s", arch, hostArch)
	}
	if arch == AMD64 {
		info, err := os.ReadFile(p.cpuinfo)
		if err != nil {
			return err
		}
		if !hasFlag(info, "vmx") && !hasFlag(info, "svm") {
			return fmt.Errorf("the processor shows neither vmx nor svm in %s", p.cpuinfo)
		}
	}
	f, err := os.OpenFile(p.device, os.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	vm, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), kvmCreateVM, 0)
	if errno != 0 {
		return fmt.Errorf("%s: create a VM: %w", p.device, errno)
	}
	return unix.Close(int(vm))
}

func hasFlag(cpuinfo []byte, flag string) bool {
	for line := range bytes.Lines(cpuinfo) {
		key, value, _ := bytes.Cut(line, []byte(":"))
		if string(bytes.TrimSpace(key)) != "flags" {
			continue
		}
		for _, f := range bytes.Fields(value) {
			if string(f) == flag {
				return true
			}
		}
	}
	return false
}
