package inspect

import (
	"bytes"
	"debug/pe"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
)

// isKernel recognises Linux: x86's boot protocol (Documentation/arch/x86/boot.rst),
// arm64's image header (Documentation/arch/arm64/booting.rst), and the EFI wrapper
// around a compressed image (drivers/firmware/efi/libstub/zboot-header.S).
func isKernel(head []byte) bool {
	return at(0x202, "HdrS")(head) || at(0x38, "ARM\x64")(head) || at(0, "MZ\x00\x00zimg")(head)
}

func (in *inspector) kernel(n *Node, r io.ReaderAt, _ int) error {
	head := make([]byte, min(n.Size, 1<<16))
	if _, err := r.ReadAt(head, 0); err != nil && err != io.EOF {
		return err
	}
	switch {
	case at(0x202, "HdrS")(head):
		n.Format = "kernel, x86 bzImage"
		if off := int(binary.LittleEndian.Uint16(head[0x20e:])) + 0x200; off > 0x200 && off < len(head) {
			version, _, _ := bytes.Cut(head[off:], []byte{0})
			n.Text = string(version[:min(len(version), 200)])
		}
	case at(0x38, "ARM\x64")(head):
		n.Format = "kernel, arm64 Image"
	default:
		n.Format = "kernel, EFI zboot"
	}
	return nil
}

// pe reads the sections of an EFI program. One with a kernel in .linux is a
// Unified Kernel Image (UAPI.5).
func (in *inspector) pe(n *Node, r io.ReaderAt, depth int) error {
	f, err := pe.NewFile(r)
	if err != nil {
		return err
	}
	defer f.Close()
	if f.Section(".linux") != nil {
		n.Format = "Unified Kernel Image"
	}
	machine := map[uint16]string{pe.IMAGE_FILE_MACHINE_AMD64: "x64", pe.IMAGE_FILE_MACHINE_ARM64: "aa64"}[f.Machine]
	if machine == "" {
		machine = fmt.Sprintf("machine %#x", f.Machine)
	}
	n.Format += ", " + machine
	for _, s := range f.Sections {
		if err := in.count(); err != nil {
			return err
		}
		size := int64(s.Size)
		if v := int64(s.VirtualSize); v > 0 && v < size {
			size = v // without the padding
		}
		if int64(s.Offset)+size > n.Size {
			return fmt.Errorf("section %s ends behind the file", s.Name)
		}
		c := &Node{Name: s.Name, Kind: Section, Size: size}
		if strings.HasPrefix(s.Name, ".") && s.Characteristics&pe.IMAGE_SCN_CNT_CODE == 0 || s.Name == ".linux" {
			if _, err := in.content(c, io.NewSectionReader(r, int64(s.Offset), size), depth); err != nil {
				return err
			}
		}
		n.Children = append(n.Children, c)
	}
	return nil
}
