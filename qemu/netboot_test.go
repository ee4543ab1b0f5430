package qemu

import (
	"os/exec"
	"strings"
	"testing"
)

func TestArgsOfANetworkBoot(t *testing.T) {
	tool := Tool{Command: exec.CommandContext, UEFI: "/uefi"}
	for _, tt := range []struct {
		name     string
		m        Machine
		has, not string
	}{
		{"UEFI", Machine{Arch: AMD64, Netboot: &Netboot{Dir: "/a,b", File: "ipxe.efi"}, Forwards: []Forward{{1, 2}}},
			"-bios /uefi|-netdev user,id=net0,hostfwd=tcp:127.0.0.1:1-:2,tftp=/a,,b,bootfile=ipxe.efi |-device virtio-net-pci,netdev=net0,bootindex=0,romfile= ", "graphics=off|-kernel"},
		{"BIOS", Machine{Arch: AMD64, Netboot: &Netboot{Dir: "/d", File: "boot.ipxe", BIOS: true}},
			"-machine graphics=off|tftp=/d,bootfile=boot.ipxe |-device virtio-net-pci,netdev=net0,bootindex=0 ", "-bios|romfile"},
		{"no BIOS on arm64", Machine{Arch: ARM64, Netboot: &Netboot{Dir: "/d", File: "f", BIOS: true}}, "-bios /uefi|bootindex=0,romfile=", "graphics=off"},
		{"a disk behind it", Machine{Arch: AMD64, Netboot: &Netboot{Dir: "/d", File: "f"}, Disks: []Disk{{Path: "/disk"}}}, "virtio-blk-pci,drive=disk0 ", "disk0,bootindex"},
		{"a kernel wins", Machine{Arch: AMD64, Kernel: "k", Netboot: &Netboot{Dir: "/d", File: "f", BIOS: true}}, "-kernel k|netdev=net0,romfile= ", "tftp|bootindex|-bios"},
	} {
		tt.m.Tool = tool
		m, err := tt.m.withDefaults()
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		got := strings.Join(m.args(accelChoice{accel: AccelTCG}, "/q"), " ") + " "
		for _, want := range strings.Split(tt.has, "|") {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %s\nlacks %q", tt.name, got, want)
			}
		}
		for _, no := range strings.Split(tt.not, "|") {
			if strings.Contains(got, no) {
				t.Errorf("%s: %s\nhas %q", tt.name, got, no)
			}
		}
	}
}
