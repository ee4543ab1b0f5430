package qemu

import "fmt"

// Netboot is what a machine's first network offers to firmware that boots from it:
// QEMU's own DHCP server names a file, and its TFTP server has it.
type Netboot struct {
	Dir  string // what the TFTP server serves
	File string // the boot file that DHCP names, relative to Dir
	// BIOS: SeaBIOS rather than UEFI, on amd64. QEMU's network cards bring an iPXE
	// for it in their option ROM, which can boot its scripts.
	BIOS bool
}

// netboots reports whether the firmware boots from the network.
func (m Machine) netboots() bool { return m.Kernel == "" && m.Netboot != nil }

// bios reports whether the machine does so without UEFI.
func (m Machine) bios() bool { return m.Arch == AMD64 && m.netboots() && m.Netboot.BIOS }

// netdev is what -netdev takes for the first network card.
func (m Machine) netdev() string {
	s := "user,id=net0"
	for _, f := range m.Forwards {
		s += fmt.Sprintf(",hostfwd=tcp:127.0.0.1:%d-:%d", f.Host, f.Guest)
	}
	if m.netboots() {
		s += fmt.Sprintf(",tftp=%s,bootfile=%s", commas(m.Netboot.Dir), commas(m.Netboot.File))
	}
	return s
}

// nic is what -device takes for the first network card.
func (m Machine) nic() string {
	s := m.NIC
	if s == "" {
		s = "virtio-net-pci"
	}
	s += ",netdev=net0"
	if m.netboots() {
		s += ",bootindex=0"
	}
	if !m.bios() {
		s += ",romfile=" // no option ROM to find, load and run
	}
	return s
}
