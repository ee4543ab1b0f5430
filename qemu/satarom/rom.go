package satarom

import (
	"bytes"
	"debug/pe"
	"encoding/binary"
	"errors"
	"fmt"
)

// ID is a PCI device's vendor and device number.
type ID struct{ Vendor, Device uint16 }

// ICH9 is QEMU's device ich9-ahci, also known as ahci.
var ICH9 = ID{0x8086, 0x2922}

const (
	unit      = 512  // a ROM's images are counted in these (PCI Firmware 3.3, 5.1)
	headerLen = 0x1c // of the header; the PCI data structure comes behind it
	maxROM    = 16 << 20
)

// header is a ROM image's for UEFI (UEFI 2.10, 14.4.2.1).
type header struct {
	Signature   uint16 // 0xaa55
	Units       uint16
	EFI         uint32 // 0x0ef1
	Subsystem   uint16
	Machine     uint16
	Compression uint16 // 0: none
	_           [8]byte
	Program     uint16 // bytes from here to the program
	PCIData     uint16
	_           [2]byte // to headerLen
}

// pciData is the PCI data structure (PCI Firmware 3.3, 5.1.2).
type pciData struct {
	Signature  [4]byte // PCIR
	ID         ID
	_          uint16 // device list: none
	Length     uint16
	Revision   uint8
	Class      [3]byte
	Units      uint16
	CodeLevel  uint16
	CodeType   uint8 // 3: EFI
	Indicator  uint8 // 0x80: the last image
	MaxRuntime uint16
	_          [4]byte // configuration utility, DMTF CLP: none
}

// Write makes a ROM for a device out of UEFI drivers, which the firmware starts in
// this order.
func Write(id ID, drivers ...[]byte) ([]byte, error) {
	if len(drivers) == 0 {
		return nil, errors.New("option ROM: no driver given")
	}
	var out bytes.Buffer
	for i, d := range drivers {
		h, p := header{Signature: 0xaa55, EFI: 0x0ef1, PCIData: headerLen}, pciData{ID: id, Revision: 3, CodeType: 3}
		copy(p.Signature[:], "PCIR")
		p.Length = uint16(binary.Size(p))
		h.Program = uint16(headerLen + binary.Size(p))
		units := (int(h.Program) + len(d) + unit - 1) / unit
		if units*unit+out.Len() > maxROM {
			return nil, fmt.Errorf("option ROM: driver %d of %d bytes does not fit: %d bytes are the most for all", i+1, len(d), maxROM)
		}
		h.Units, p.Units = uint16(units), uint16(units)
		if i == len(drivers)-1 {
			p.Indicator = 0x80
		}
		var err error
		if h.Machine, h.Subsystem, err = program(d); err != nil {
			return nil, fmt.Errorf("option ROM: driver %d: %w", i+1, err)
		}
		start := out.Len()
		if err := errors.Join(binary.Write(&out, binary.LittleEndian, h), binary.Write(&out, binary.LittleEndian, p)); err != nil {
			return nil, err
		}
		out.Write(d)
		out.Write(make([]byte, start+units*unit-out.Len()))
	}
	return out.Bytes(), nil
}

// program is for which machine and of what kind a UEFI program is.
func program(b []byte) (machine, subsystem uint16, err error) {
	f, err := pe.NewFile(bytes.NewReader(b))
	if err != nil {
		return 0, 0, fmt.Errorf("it is no PE program: %w", err)
	}
	defer f.Close()
	o, ok := f.OptionalHeader.(*pe.OptionalHeader64)
	if !ok {
		return 0, 0, errors.New("it is no 64-bit PE program")
	}
	if o.Subsystem != pe.IMAGE_SUBSYSTEM_EFI_BOOT_SERVICE_DRIVER {
		return 0, 0, fmt.Errorf("its subsystem is %d, a boot service driver's is %d", o.Subsystem, pe.IMAGE_SUBSYSTEM_EFI_BOOT_SERVICE_DRIVER)
	}
	return f.Machine, o.Subsystem, nil
}
