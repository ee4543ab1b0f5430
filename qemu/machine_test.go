package qemu

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestCommandLine(t *testing.T) {
	for _, tt := range []struct{ arch, given, want string }{
		{AMD64, "", "console=ttyS0 panic=-1"},
		{AMD64, "quiet  console=ttyS0,115200 panic=10", "quiet console=ttyS0,115200 panic=10 panic=-1"},
		{ARM64, "console=ttyS0", "console=ttyS0 console=ttyAMA0 panic=-1"},
	} {
		if got := commandLine(tt.arch, tt.given); got != tt.want {
			t.Errorf("%s %q: got %q, want %q", tt.arch, tt.given, got, tt.want)
		}
	}
}

func TestArgs(t *testing.T) {
	m := Machine{Arch: AMD64, Kernel: "k", Initrd: "i", MemoryMiB: 512, CPUs: 1,
		Disks:    []Disk{{Path: "/a,b", ReadOnly: true, Snapshot: true}},
		Forwards: []Forward{{18080, 80}}, Tool: Tool{Args: []string{"-L", "/data"}}}
	got := strings.Join(m.args(accelChoice{accel: AccelTCG}, "/tmp/x/qmp"), " ")
	for _, want := range []string{
		"-L /data -nodefaults", "-machine q35 -accel tcg -cpu max -smp 1 -m 512", "-kernel k -append console=ttyS0 panic=-1 -initrd i",
		"path=/tmp/x/qmp", "reboot=shutdown,shutdown=pause", "user,id=net0,hostfwd=tcp:127.0.0.1:18080-:80",
		"if=none,id=disk0,format=raw,file=/a,,b,readonly=on,snapshot=on",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nlacks %q", got, want)
		}
	}
	m.Arch, m.Firmware = ARM64, "/fw"
	got = strings.Join(m.args(accelChoice{accel: AccelTCG}, "/q"), " ")
	for _, want := range []string{"-machine virt -device virtio-keyboard-pci", "-cpu max,pauth-impdef=on", "-bios /fw"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nlacks %q", got, want)
		}
	}
}

// Without a kernel the firmware boots the first disk, and systemd-stub takes the
// command line from SMBIOS.
func TestArgsOfADiskBoot(t *testing.T) {
	m := Machine{Arch: AMD64, Cmdline: "a=b,c", Firmware: "/fw", Disks: []Disk{{Path: "/boot"}, {Path: "/other"}}}
	got := strings.Join(m.args(accelChoice{accel: AccelTCG}, "/q"), " ")
	for _, want := range []string{
		"-bios /fw", "-smbios type=11,value=io.systemd.stub.kernel-cmdline-extra=a=b,,c console=ttyS0 panic=-1 ",
		"virtio-blk-pci,drive=disk0,bootindex=0 ", "virtio-blk-pci,drive=disk1",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nlacks %q", got, want)
		}
	}
	for _, no := range []string{"-kernel", "-append", "-initrd", "disk1,bootindex"} {
		if strings.Contains(got, no) {
			t.Errorf("%s\nhas %q", got, no)
		}
	}
	if m, err := (Machine{Arch: AMD64, Disks: m.Disks, Tool: Tool{Command: exec.CommandContext, UEFI: "/ovmf"}}).withDefaults(); err != nil || m.Firmware != "/ovmf" {
		t.Errorf("firmware %q, %v", m.Firmware, err)
	}
	if m, err := (Machine{Arch: AMD64, Kernel: "k", Tool: Tool{Command: exec.CommandContext, UEFI: "/ovmf"}}).withDefaults(); err != nil || m.Firmware != "" {
		t.Errorf("with a kernel: firmware %q, %v", m.Firmware, err)
	}
}

func TestStartRefuses(t *testing.T) {
	tool := Tool{Command: exec.CommandContext}
	for _, tt := range []struct {
		m    Machine
		want string
	}{
		{Machine{Arch: "riscv64", Kernel: "k", Tool: tool}, `"riscv64"`},
		{Machine{Arch: AMD64, Tool: tool}, "neither a kernel nor a disk"},
		{Machine{Arch: AMD64, Disks: []Disk{{Path: "d"}}, Tool: tool}, "UEFI firmware is needed to boot a disk: install ovmf"},
		{Machine{Arch: AMD64, Kernel: "k"}, "no QEMU"},
		{Machine{Arch: ARM64, Kernel: "k", Tool: tool}, "firmware"},
		{Machine{Arch: AMD64, Kernel: "k", Tool: tool, Accel: "xen"}, `"xen"`},
	} {
		if _, err := tt.m.Start(t.Context()); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: got %v, want %q", tt.m, err, tt.want)
		}
	}
}

// A QEMU that ends before it answers is reported with its own words.
func TestStartReportsQEMU(t *testing.T) {
	tool := Tool{Command: func(ctx context.Context, _ string, _ ...string) *exec.Cmd {
		return exec.CommandContext(ctx, "sh", "-c", "echo no such machine >&2; exit 1")
	}}
	_, err := Machine{Arch: AMD64, Kernel: "k", Tool: tool, Accel: AccelTCG}.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no such machine") {
		t.Errorf("got %v", err)
	}
	tool.Command = func(ctx context.Context, _ string, _ ...string) *exec.Cmd {
		return exec.CommandContext(ctx, "/nonexistent/qemu")
	}
	if _, err = (Machine{Arch: AMD64, Kernel: "k", Tool: tool, Accel: AccelTCG}).Start(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestChooseAccel(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := file("plain", "processor\t: 0\nflags\t\t: fpu vme hypervisor\n")
	vmx := file("vmx", "flags\t\t: fpu vmx vme\n")
	noDevice := file("kvm", "") // a plain file answers no ioctl
	other := map[string]string{AMD64: ARM64, ARM64: AMD64}[hostArch]
	for _, tt := range []struct {
		name string
		want Accel
		arch string
		p    kvmProbe
		got  Accel
		why  string
	}{
		{"TCG on request", AccelTCG, hostArch, kvmProbe{}, AccelTCG, "asked for"},
		{"another architecture", AccelAuto, other, kvmProbe{noDevice, vmx}, AccelTCG, "the guest is " + other},
		{"a device that makes no machines", AccelAuto, hostArch, kvmProbe{noDevice, vmx}, AccelTCG, "create a VM"},
		{"no device", AccelAuto, hostArch, kvmProbe{filepath.Join(dir, "none"), vmx}, AccelTCG, "no such file"},
		{"KVM on request, in vain", AccelKVM, hostArch, kvmProbe{filepath.Join(dir, "none"), vmx}, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := chooseAccel(tt.want, tt.arch, tt.p)
			if got.accel != tt.got || !strings.Contains(got.why, tt.why) || (err == nil) != (tt.got != "") {
				t.Errorf("got %+v, %v, want %s because %q", got, err, tt.got, tt.why)
			}
		})
	}
	if err := (kvmProbe{noDevice, plain}).usable(AMD64); hostArch == AMD64 && (err == nil || !strings.Contains(err.Error(), "vmx")) {
		t.Errorf("a processor without virtualisation: got %v", err)
	}
}

func TestParseVersion(t *testing.T) {
	for _, tt := range []struct {
		output string
		want   Version
		old    bool
	}{
		{"QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)\nCopyright", Version{7, 2}, true},
		{"QEMU emulator version 8.2.2 (Debian 1:8.2.2+ds-0ubuntu1)", Version{8, 2}, false},
		{"QEMU emulator version 10.0.13", Version{10, 0}, false},
		{"qemu: not found", Version{}, true},
	} {
		got, err := ParseVersion(tt.output)
		if got != tt.want || (err != nil) != (tt.want == Version{}) || got.Before(MinVersion) != tt.old {
			t.Errorf("%q: got %s, %v, too old %t, want %s", tt.output, got, err, got.Before(MinVersion), tt.want)
		}
	}
}

func FuzzParseVersion(f *testing.F) {
	f.Add("QEMU emulator version 7.2.22 (Debian)\n")
	f.Add("QEMU emulator version 99999.1")
	f.Fuzz(func(t *testing.T, output string) {
		if v, err := ParseVersion(output); (v == Version{0, 0}) && err == nil && !strings.Contains(output, "version 0") {
			t.Errorf("%q gives version 0 without an error", output)
		}
	})
}

// A pinned QEMU is told where its data and modules are.
func TestPinnedTool(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"usr/share/qemu", "usr/share/seabios", "usr/lib/x86_64-linux-gnu/qemu"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	command := func(ctx context.Context, tool string, args ...string) *exec.Cmd {
		return exec.CommandContext(ctx, "sh", "-c", `test -d "$QEMU_MODULE_DIR" && echo "QEMU emulator version 10.0.1"`)
	}
	tool, err := PinnedTool(t.Context(), AMD64, root, command)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"-L", filepath.Join(root, "usr/share/qemu"), "-L", filepath.Join(root, "usr/share/seabios")}; !slices.Equal(tool.Args, want) || tool.Version != (Version{10, 0}) {
		t.Errorf("got %+v, want arguments %v and version 10.0", tool, want)
	}
	if _, err := PinnedTool(t.Context(), ARM64, root, command); err == nil || !strings.Contains(err.Error(), "qemu-efi-aarch64") {
		t.Errorf("arm64 without firmware: %v", err)
	}
	if _, err := PinnedTool(t.Context(), AMD64, t.TempDir(), command); err == nil {
		t.Error("an empty tree has a QEMU")
	}
}
