package satarom

import (
	"bytes"
	"debug/pe"
	"encoding/binary"
	"strings"
	"testing"
)

// peFile is the smallest program that debug/pe reads, of size bytes.
func peFile(t *testing.T, machine uint16, subsystem uint16, size int) []byte {
	t.Helper()
	var b bytes.Buffer
	dos := make([]byte, 0x60)
	copy(dos, "MZ")
	dos[0x3c] = byte(len(dos))
	b.Write(dos)
	b.WriteString("PE\x00\x00")
	o := pe.OptionalHeader64{Magic: 0x20b, Subsystem: subsystem, NumberOfRvaAndSizes: 16}
	for _, v := range []any{pe.FileHeader{Machine: machine, SizeOfOptionalHeader: uint16(binary.Size(o))}, o} {
		if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
	}
	if b.Len() > size {
		t.Fatalf("a program has %d bytes at least", b.Len())
	}
	b.Write(bytes.Repeat([]byte{0xee}, size-b.Len()))
	return b.Bytes()
}

const bootDriver = pe.IMAGE_SUBSYSTEM_EFI_BOOT_SERVICE_DRIVER

// The bytes are read by their offsets in the specifications, not by the types that
// wrote them.
func TestWrite(t *testing.T) {
	const head = 0x38 // header and PCI data
	for _, size := range [][]int{{1024 - head}, {1024 - head - 1}, {1024 - head + 1}, {700, 5000}} {
		var drivers [][]byte
		for _, n := range size {
			drivers = append(drivers, peFile(t, pe.IMAGE_FILE_MACHINE_ARM64, bootDriver, n))
		}
		rom, err := Write(ICH9, drivers...)
		if err != nil {
			t.Fatal(err)
		}
		u16 := func(at int) int { return int(binary.LittleEndian.Uint16(rom[at:])) }
		at := 0
		for i, d := range drivers {
			pcir := at + u16(at+0x18)
			length := u16(pcir+0x10) * 512
			if want := (head + len(d) + 511) / 512 * 512; length != want {
				t.Fatalf("%v: image %d is %d bytes long, not %d", size, i, length, want)
			}
			if u16(at) != 0xaa55 || u16(at+2)*512 != length || binary.LittleEndian.Uint32(rom[at+4:]) != 0xef1 || u16(at+8) != 11 || u16(at+10) != 0xaa64 || u16(at+12) != 0 {
				t.Errorf("%v: image %d: header % x", size, i, rom[at:at+0x1c])
			}
			if string(rom[pcir:pcir+4]) != "PCIR" || pcir%4 != 0 || u16(pcir+4) != 0x8086 || u16(pcir+6) != 0x2922 || u16(pcir+10) != 0x1c || rom[pcir+0x14] != 3 || (rom[pcir+0x15] == 0x80) != (i == len(drivers)-1) {
				t.Errorf("%v: image %d: PCI data % x", size, i, rom[pcir:pcir+0x1c])
			}
			if p := at + u16(at+0x16); !bytes.Equal(rom[p:p+len(d)], d) {
				t.Errorf("%v: image %d: its program is not at %#x", size, i, p)
			}
			at += length
		}
		if at != len(rom) {
			t.Errorf("%v: images end at %d, the ROM at %d", size, at, len(rom))
		}
	}
}

func TestWriteRefuses(t *testing.T) {
	for _, tt := range []struct {
		drivers [][]byte
		want    string
	}{
		{nil, "no driver given"},
		{[][]byte{[]byte("ELF")}, "no PE program"},
		{[][]byte{peFile(t, pe.IMAGE_FILE_MACHINE_ARM64, pe.IMAGE_SUBSYSTEM_EFI_APPLICATION, 700)}, "its subsystem is 10"},
		{[][]byte{peFile(t, pe.IMAGE_FILE_MACHINE_ARM64, bootDriver, maxROM)}, "does not fit"},
	} {
		if _, err := Write(ICH9, tt.drivers...); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, not %q", err, tt.want)
		}
	}
}
