package qemu

import (
	"fmt"
	"strconv"
	"strings"
)

// Guest architectures, in Go's names.
const (
	AMD64 = "amd64"
	ARM64 = "arm64"
)

// Machine describes a virtual machine. The zero value of a field means what
// its comment says; Tool has no default.
type Machine struct {
	Name string // for messages; "node" if empty
	Arch string // AMD64 or ARM64; the host's if empty
	// Kernel is vmlinuz (amd64) or Image (arm64). Without one the UEFI firmware
	// boots the first disk, or the network.
	Kernel  string
	Netboot *Netboot
	Initrd  string // none if empty
	// Cmdline is the kernel command line. Without a kernel it is what systemd-stub
	// adds to its UKI's. Start adds a serial console if it
	// names none, and panic=-1 behind whatever it says of panics (the last one
	// counts), so that a panic ends the machine at once.
	Cmdline   string
	MemoryMiB int // 2048
	CPUs      int // 2
	// Devices come before the disks and as QEMU's -device takes them: controllers
	// that a disk is behind, more network cards ("igb,netdev=net1" gets its netdev).
	Devices  []string
	NIC      string // of the first network card: virtio-net-pci
	Disks    []Disk
	Forwards []Forward
	// NoNetwork leaves the machine without a network card.
	NoNetwork bool
	// Firmware is a UEFI image for -bios. On arm64 one is needed for the power
	// button (ACPI), also when a kernel is given; Start takes the tool's own.
	Firmware string
	Accel    Accel // AccelAuto
	Tool     Tool
	// Log is a file for the console's raw bytes; without it they are kept only
	// as lines in memory.
	Log string
	// Output is called with every console line, in order, from one goroutine.
	Output func(Line)
}

// Disk is a disk, for virtio if nothing else is said.
type Disk struct {
	Path     string // or a URL that QEMU knows, as package powercut has them
	Format   string // "raw" if empty
	ReadOnly bool
	Snapshot bool // writes are thrown away at the end
	// Device is what -device takes, without drive=: "virtio-blk-pci" if empty.
	Device string
	// Late: there is no device at first. Plug makes one.
	Late bool
}

// Forward carries TCP connections to a port on the host's loopback address
// into the guest.
type Forward struct {
	Host, Guest int
}

func (m Machine) withDefaults() (Machine, error) {
	if m.Name == "" {
		m.Name = "node"
	}
	if m.Arch == "" {
		m.Arch = hostArch
	}
	if m.Arch != AMD64 && m.Arch != ARM64 {
		return m, fmt.Errorf("machine %s: architecture %q: QEMU machines are defined for amd64 and arm64", m.Name, m.Arch)
	}
	if m.Kernel == "" && len(m.Disks) == 0 && m.Netboot == nil {
		return m, fmt.Errorf("machine %s: neither a kernel nor a disk given to boot from", m.Name)
	}
	if m.Tool.Command == nil {
		return m, fmt.Errorf("machine %s: no QEMU given: use HostTool or PinnedTool", m.Name)
	}
	if m.MemoryMiB == 0 {
		m.MemoryMiB = 2048
	}
	if m.CPUs == 0 {
		m.CPUs = 2
	}
	if m.Firmware == "" {
		m.Firmware = m.Tool.Firmware
		if m.Kernel == "" && !m.bios() {
			m.Firmware = m.Tool.UEFI
		}
	}
	if m.Kernel == "" && m.Firmware == "" && !m.bios() {
		return m, fmt.Errorf("machine %s: UEFI firmware is needed to boot a disk: install ovmf (amd64) or qemu-efi-aarch64 (arm64)", m.Name)
	}
	if m.Arch == ARM64 && m.Firmware == "" {
		return m, fmt.Errorf("machine %s: arm64 needs UEFI firmware for its power button: install qemu-efi-aarch64 or name a QEMU_EFI.fd", m.Name)
	}
	return m, nil
}

// commandLine completes the kernel command line; see Machine.Cmdline.
func commandLine(arch, given string) string {
	words := strings.Fields(given)
	has := func(prefix string) bool {
		for _, w := range words {
			if strings.HasPrefix(w, prefix) {
				return true
			}
		}
		return false
	}
	serial := map[string]string{AMD64: "ttyS0", ARM64: "ttyAMA0"}[arch]
	if !has("console=" + serial) {
		words = append(words, "console="+serial)
	}
	words = append(words, "panic=-1")
	return strings.Join(words, " ")
}

// args is QEMU's command line, without the program's name. The machine is q35
// and not microvm because the tests are about a node's real ways down: the
// ACPI power button and the PC keyboard's ctrl-alt-del; q35 and pc take the
// same time to a kernel's first line.
func (m Machine) args(accel accelChoice, qmpPath string) []string {
	var a []string
	add := func(words ...string) { a = append(a, words...) }
	add(m.Tool.Args...)
	add("-nodefaults", "-no-user-config", "-display", "none", "-S")
	switch m.Arch {
	case AMD64:
		add("-machine", "q35")
	case ARM64:
		// A keyboard, since virt has no i8042 for ctrl-alt-del to come from.
		add("-machine", "virt", "-device", "virtio-keyboard-pci")
	}
	add("-accel", string(accel.accel), "-cpu", accel.cpu(m.Arch))
	add("-smp", strconv.Itoa(m.CPUs), "-m", strconv.Itoa(m.MemoryMiB))
	if m.Firmware != "" {
		add("-bios", m.Firmware)
	}
	if m.bios() { // which then writes to the serial port
		add("-machine", "graphics=off")
	}
	if m.Kernel != "" {
		add("-kernel", m.Kernel, "-append", commandLine(m.Arch, m.Cmdline))
	} else {
		// systemd-stub(7) reads it from SMBIOS.
		add("-smbios", "type=11,value=io.systemd.stub.kernel-cmdline-extra="+commas(commandLine(m.Arch, m.Cmdline)))
	}
	if m.Initrd != "" {
		add("-initrd", m.Initrd)
	}
	// signal=off: ctrl-C belongs to us, never to QEMU.
	add("-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console")
	add("-chardev", "socket,id=qmp,server=on,wait=off,path="+commas(qmpPath), "-mon", "chardev=qmp,mode=control")
	// A guest that resets or powers off is paused until we have read the event
	// and send quit: how it ended can never be lost in QEMU's own exit.
	add("-action", "reboot=shutdown,shutdown=pause")
	if !m.NoNetwork {
		add("-netdev", m.netdev(), "-device", m.nic())
	}
	add("-device", "virtio-rng-pci")
	for _, d := range m.Devices {
		if _, rest, ok := strings.Cut(d, ",netdev="); ok {
			id, _, _ := strings.Cut(rest, ",")
			add("-netdev", "user,id="+id)
			d += ",romfile="
		}
		add("-device", d)
	}
	for i, d := range m.Disks {
		format := d.Format
		if format == "" {
			format = "raw"
		}
		spec := fmt.Sprintf("if=none,id=disk%d,format=%s,file=%s", i, format, commas(d.Path))
		if d.ReadOnly {
			spec += ",readonly=on"
		}
		if d.Snapshot {
			spec += ",snapshot=on"
		}
		add("-drive", spec)
		if d.Late {
			continue
		}
		device := d.Device
		if device == "" {
			device = "virtio-blk-pci"
		}
		device += fmt.Sprintf(",drive=disk%d", i)
		if m.Kernel == "" && i == 0 && !m.netboots() {
			device += ",bootindex=0" // before the network
		}
		add("-device", device)
	}
	return a
}

// commas doubles commas, QEMU's way of writing one inside an option's value.
func commas(s string) string { return strings.ReplaceAll(s, ",", ",,") }
