package seccomp

import (
	"errors"
	"runtime"
	"syscall"
	"testing"
	"unsafe"
)

func TestNativeArchTellsTheTruth(t *testing.T) {
	got, err := GetNativeArch()
	if err != nil || got.String() != runtime.GOARCH {
		t.Errorf("native architecture is %q, %v; compiled for %s", got, err, runtime.GOARCH)
	}
	for goarch, want := range map[string]ScmpArch{"amd64": ArchAMD64, "arm64": ArchARM64} {
		if a, err := archOf(goarch); a != want || err != nil || a.String() != goarch {
			t.Errorf("archOf(%s) = %v, %v", goarch, a, err)
		}
	}
	if a, err := archOf("riscv64"); err == nil {
		t.Errorf("riscv64, whose system calls are not known, is taken for %v", a)
	}
}

func TestArchNames(t *testing.T) {
	for a := ArchX86; a <= ArchSHEB; a++ {
		if got, err := GetArchFromString(a.String()); got != a || err != nil {
			t.Errorf("%d: %q gives %v, %v", a, a.String(), got, err)
		}
	}
	for name, want := range map[string]ScmpArch{
		"X86_64": ArchAMD64, "x64": ArchAMD64, "AARCH64": ArchARM64, "loongarch64": ArchLOONGARCH64,
	} {
		if got, err := GetArchFromString(name); got != want || err != nil {
			t.Errorf("%q gives %v, %v", name, got, err)
		}
	}
	for _, name := range []string{"", "native", "Invalid architecture", "vax"} {
		if got, err := GetArchFromString(name); err == nil {
			t.Errorf("%q gives %v", name, got)
		}
	}
	// Upstream's values, which the kernel's do not determine.
	if ArchX86 != 2 || ArchARM64 != 6 || ArchSHEB != 24 {
		t.Error("the constants are not upstream's")
	}
	if got := (ArchSHEB + 1).String(); got != "Unknown architecture 0x19" {
		t.Error(got)
	}
}

func TestSyscallTables(t *testing.T) {
	for _, tt := range []struct {
		arch ScmpArch
		name string
		nr   ScmpSyscall
	}{
		{ArchAMD64, "read", 0}, {ArchAMD64, "mkdir", 83}, {ArchAMD64, "newfstatat", 262}, {ArchAMD64, "seccomp", 317}, {ArchAMD64, "clone3", 435},
		{ArchARM64, "io_setup", 0}, {ArchARM64, "read", 63}, {ArchARM64, "newfstatat", 79}, {ArchARM64, "seccomp", 277}, {ArchARM64, "clone3", 435},
	} {
		if nr, err := GetSyscallFromNameByArch(tt.name, tt.arch); nr != tt.nr || err != nil {
			t.Errorf("%s: %s is %d, %v; want %d", tt.arch, tt.name, nr, err, tt.nr)
		}
		if name, err := tt.nr.GetNameByArch(tt.arch); name != tt.name || err != nil {
			t.Errorf("%s: %d is %q, %v; want %s", tt.arch, tt.nr, name, err, tt.name)
		}
	}
	if name, err := ScmpSyscall(syscall.SYS_MKDIRAT).GetName(); name != "mkdirat" || err != nil {
		t.Errorf("native mkdirat is %q, %v", name, err)
	}
	for _, nr := range []ScmpSyscall{-1, 244 /* a hole of arm64 */, 1 << 30} {
		if name, err := nr.GetNameByArch(ArchARM64); !errors.Is(err, ErrSyscallDoesNotExist) {
			t.Errorf("%d is %q, %v", nr, name, err)
		}
	}
	for _, name := range []string{"", "mkdir", "READ"} {
		if nr, err := GetSyscallFromNameByArch(name, ArchARM64); !errors.Is(err, ErrSyscallDoesNotExist) {
			t.Errorf("%q is %d, %v", name, nr, err)
		}
	}
	if _, err := ScmpSyscall(0).GetNameByArch(ArchX86); err == nil {
		t.Error("names of an architecture without a table")
	}
}

func TestActionsAndConditions(t *testing.T) {
	a := ActErrno.SetReturnCode(38)
	if a != ActErrno|38<<16 || a.String() != "Action: Return error code 38" {
		t.Errorf("%#x %s", uint(a), a)
	}
	if a.SetReturnCode(1) != ActErrno|1<<16 || ActAllow.SetReturnCode(1) != ActAllow {
		t.Error("return codes")
	}
	if c, err := MakeCondition(1, CompareMaskedEqual, 7, 3); err != nil || c != (ScmpCondition{1, CompareMaskedEqual, 7, 3}) {
		t.Errorf("%+v, %v", c, err)
	}
	for name, make := range map[string]func() (ScmpCondition, error){
		"seventh argument": func() (ScmpCondition, error) { return MakeCondition(6, CompareEqual, 1) },
		"no value":         func() (ScmpCondition, error) { return MakeCondition(0, CompareEqual) },
		"three values":     func() (ScmpCondition, error) { return MakeCondition(0, CompareEqual, 1, 2, 3) },
		"no operator":      func() (ScmpCondition, error) { return MakeCondition(0, CompareInvalid, 1) },
		"unknown operator": func() (ScmpCondition, error) { return MakeCondition(0, 8, 1) },
	} {
		if c, err := make(); err == nil {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func TestFiltersFailLoudly(t *testing.T) {
	f, err := NewFilter(ActAllow)
	if f != nil || !errors.Is(err, ErrNoFilters) {
		t.Fatalf("%v, %v", f, err)
	}
	f = new(ScmpFilter)
	for name, err := range map[string]error{
		"AddArch": f.AddArch(ArchAMD64), "SetNoNewPrivsBit": f.SetNoNewPrivsBit(true),
		"AddRule": f.AddRule(0, ActAllow), "AddRuleConditional": f.AddRuleConditional(0, ActAllow, nil),
	} {
		if !errors.Is(err, ErrNoFilters) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestKernelInterface(t *testing.T) {
	// include/uapi/linux/seccomp.h, the same on amd64 and arm64.
	for name, v := range map[string][2]uintptr{
		"struct seccomp_data":          {unsafe.Sizeof(kernelData{}), 64},
		"struct seccomp_notif":         {unsafe.Sizeof(kernelNotif{}), 80},
		"struct seccomp_notif_resp":    {unsafe.Sizeof(kernelResp{}), 24},
		"SECCOMP_IOCTL_NOTIF_RECV":     {ioctlNotifRecv, 0xc0502100},
		"SECCOMP_IOCTL_NOTIF_SEND":     {ioctlNotifSend, 0xc0182101},
		"SECCOMP_IOCTL_NOTIF_ID_VALID": {ioctlNotifIDValid, 0x40082102},
	} {
		if v[0] != v[1] {
			t.Errorf("%s is %#x, want %#x", name, v[0], v[1])
		}
	}
	for audit, want := range map[uint32]ScmpArch{
		0xc000003e: ArchAMD64, 0x40000003: ArchX86, 0xc00000b7: ArchARM64, 0x40000028: ArchARM,
	} {
		if a, err := archFromAudit(audit); a != want || err != nil {
			t.Errorf("%#x: %v, %v", audit, a, err)
		}
	}
	if a, err := archFromAudit(0x14); err == nil {
		t.Errorf("big-endian PowerPC is %v", a)
	}
}
