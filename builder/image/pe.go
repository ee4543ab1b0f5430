package image

import (
	"bytes"
	"debug/pe"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
)

// Offsets within a PE32+ image's headers (Microsoft's "PE Format"), from the
// beginning of the COFF file header, which follows the signature.
const (
	peSections       = 2              // NumberOfSections
	peOptional       = 20             // the optional header
	peInitialized    = 20 + 8         // SizeOfInitializedData
	peSizeOfImage    = 20 + 56        // SizeOfImage
	peCheckSum       = 20 + 64        // CheckSum
	peCharacteristic = 20 + 70        // DllCharacteristics
	peSecurity       = 20 + 112 + 8*4 // data directory of signatures
	peSectionHeader  = 40             // bytes of one section's header
)

const (
	peReadable    = 0x40000000 // IMAGE_SCN_MEM_READ
	peInitialData = 0x00000040 // IMAGE_SCN_CNT_INITIALIZED_DATA
	peCode        = 0x00000020 // IMAGE_SCN_CNT_CODE
	peNXCompat    = 0x0100     // IMAGE_DLLCHARACTERISTICS_NX_COMPAT
)

// peImage is a PE32+ program in memory to which sections are added.
type peImage struct {
	data     []byte // headers and the sections it came with
	coff     int    // offset of the COFF file header in data
	table    int    // offset of the first section's header
	headers  int    // SizeOfHeaders: section headers end before it
	align    uint64 // SectionAlignment, in memory
	file     uint64 // FileAlignment
	sections []pe.SectionHeader
}

// peSection is a section to add: content from memory or from a file.
type peSection struct {
	name  string // at most 8 bytes
	bytes []byte
	path  string // of the content, if bytes is nil
	size  uint64
	flags uint32
}

// readPE reads a program and refuses one whose headers contradict each other: a
// stub is others' work, and the firmware believes what is written here.
func readPE(b []byte) (*peImage, error) {
	f, err := pe.NewFile(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("not a PE program: %w", err)
	}
	o, ok := f.OptionalHeader.(*pe.OptionalHeader64)
	if !ok || len(b) < 0x40 {
		return nil, errors.New("not a PE32+ (64 bit) program")
	}
	p := &peImage{data: bytes.Clone(b), align: uint64(o.SectionAlignment), file: uint64(o.FileAlignment), headers: int(o.SizeOfHeaders)}
	p.coff = int(binary.LittleEndian.Uint32(b[0x3c:])) + 4
	p.table = p.coff + peOptional + int(f.SizeOfOptionalHeader)
	switch {
	case p.align == 0 || p.align&(p.align-1) != 0 || p.file < 512 || p.file > 64<<10 || p.file&(p.file-1) != 0 || p.align < p.file || p.align > 4<<20:
		return nil, fmt.Errorf("alignment of sections: %#x in memory, %#x in the file", p.align, p.file)
	case o.NumberOfRvaAndSizes < 5 || int(f.SizeOfOptionalHeader) < peSecurity-peOptional+8:
		return nil, errors.New("no data directory for signatures")
	case o.DataDirectory[4].VirtualAddress != 0 || o.DataDirectory[4].Size != 0:
		return nil, errors.New("it is signed; what is added would break the signature")
	case f.PointerToSymbolTable != 0 || f.NumberOfSymbols != 0:
		return nil, errors.New("it has a symbol table")
	case len(f.Sections) == 0 || p.table+len(f.Sections)*peSectionHeader > p.headers || p.headers > len(b):
		return nil, fmt.Errorf("%d section headers at %#x, but headers end at %#x", len(f.Sections), p.table, p.headers)
	}
	memory, file := uint64(p.headers), uint64(p.headers)
	for _, s := range f.Sections {
		p.sections = append(p.sections, s.SectionHeader)
		from, to := uint64(s.Offset), uint64(s.Offset)+uint64(s.Size)
		if uint64(s.VirtualAddress) < memory || uint64(s.VirtualAddress)%p.align != 0 || from < file || from%p.file != 0 || to%p.file != 0 || to > uint64(len(b)) {
			return nil, fmt.Errorf("section %s at %#x (file %#x to %#x) overlaps another, is not aligned, or lies outside the file", s.Name, s.VirtualAddress, from, to)
		}
		memory, file = uint64(s.VirtualAddress)+max(uint64(s.VirtualSize), 1), to
	}
	if memory > math.MaxUint32 {
		return nil, errors.New("its sections end beyond 4 GiB")
	}
	p.data = p.data[:file] // nothing may follow the last section
	return p, nil
}

// section is the content of a named section, without padding; nil if there is none.
func (p *peImage) section(name string) []byte {
	for _, s := range p.sections {
		if s.Name == name {
			b := p.data[s.Offset : s.Offset+s.Size]
			return b[:min(uint32(len(b)), s.VirtualSize)]
		}
	}
	return nil
}

// replace gives a section that is there other content, which must fit into its place.
func (p *peImage) replace(name string, content []byte) error {
	for i, s := range p.sections {
		if s.Name != name {
			continue
		}
		if len(content) > int(s.Size) {
			return fmt.Errorf("section %s: %d bytes do not fit into the %d that the stub has for it", name, len(content), s.Size)
		}
		room := p.data[s.Offset : s.Offset+s.Size]
		clear(room[copy(room, content):])
		p.sections[i].VirtualSize = uint32(len(content))
		binary.LittleEndian.PutUint32(p.data[p.table+i*peSectionHeader+8:], uint32(len(content)))
		return nil
	}
	return fmt.Errorf("the stub has no section %s", name)
}

// clearNX takes the mark away that the program runs with data not executable.
func (p *peImage) clearNX() {
	at := p.data[p.coff+peCharacteristic:]
	binary.LittleEndian.PutUint16(at, binary.LittleEndian.Uint16(at)&^peNXCompat)
}

// write writes the program with sections added behind its own, in order.
func (p *peImage) write(w io.Writer, add []peSection) error {
	head := bytes.Clone(p.data)
	le := binary.LittleEndian
	if end := p.table + (len(p.sections)+len(add))*peSectionHeader; end > p.headers {
		return fmt.Errorf("no room for %d more section headers: they would end at %d, the headers' room at %d", len(add), end, p.headers)
	}
	last := p.sections[len(p.sections)-1]
	memory := up(uint64(last.VirtualAddress)+uint64(last.VirtualSize), p.align)
	file := up(uint64(len(head)), p.file)
	start := file
	initialized := uint64(le.Uint32(head[p.coff+peInitialized:]))
	for i, s := range add {
		size := up(s.size, p.file)
		if s.size == 0 || len(s.name) > 8 || memory+s.size > math.MaxUint32 || file+size > math.MaxUint32 {
			return fmt.Errorf("section %s: %d bytes at %#x; a section has at least 1, and a program ends before 4 GiB", s.name, s.size, memory)
		}
		h := head[p.table+(len(p.sections)+i)*peSectionHeader:][:peSectionHeader]
		clear(h)
		copy(h, s.name)
		le.PutUint32(h[8:], uint32(s.size))
		le.PutUint32(h[12:], uint32(memory))
		le.PutUint32(h[16:], uint32(size))
		le.PutUint32(h[20:], uint32(file))
		le.PutUint32(h[36:], s.flags)
		memory, file = up(memory+s.size, p.align), file+size
		initialized += size
	}
	le.PutUint16(head[p.coff+peSections:], uint16(len(p.sections)+len(add)))
	le.PutUint32(head[p.coff+peInitialized:], uint32(initialized))
	le.PutUint32(head[p.coff+peSizeOfImage:], uint32(memory))
	le.PutUint32(head[p.coff+peCheckSum:], 0) // the firmware does not look at it
	if _, err := w.Write(append(head, make([]byte, start-uint64(len(head)))...)); err != nil {
		return err
	}
	for _, s := range add {
		if err := s.copy(w, p.file); err != nil {
			return fmt.Errorf("section %s: %w", s.name, err)
		}
	}
	return nil
}

func (s peSection) copy(w io.Writer, align uint64) error {
	r := io.Reader(bytes.NewReader(s.bytes))
	if s.bytes == nil {
		f, err := os.Open(s.path)
		if err != nil {
			return err
		}
		defer f.Close()
		r = f
	}
	n, err := io.Copy(w, r)
	if err == nil && uint64(n) != s.size {
		err = fmt.Errorf("read %d bytes of %d", n, s.size)
	}
	if err == nil {
		_, err = w.Write(make([]byte, up(s.size, align)-s.size))
	}
	return err
}

// up rounds n up to a multiple of align, a power of two.
func up(n, align uint64) uint64 { return (n + align - 1) &^ (align - 1) }
