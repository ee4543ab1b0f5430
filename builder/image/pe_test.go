package image

import (
	"bytes"
	"debug/pe"
	"encoding/binary"
	"strings"
	"testing"
)

// program is a small PE32+ program such as a stub: sections with content, and
// room for more section headers up to 1024.
func program(sections ...peSection) []byte {
	le := binary.LittleEndian
	b := make([]byte, 1024)
	copy(b, "MZ")
	le.PutUint32(b[0x3c:], 0x40)
	copy(b[0x40:], "PE\x00\x00")
	coff := b[0x44:]
	le.PutUint16(coff, 0x8664)
	le.PutUint16(coff[2:], uint16(len(sections)))
	le.PutUint16(coff[16:], 240)
	le.PutUint16(coff[18:], 0x22e)
	o := coff[20:]
	le.PutUint16(o, 0x20b)
	le.PutUint32(o[32:], 4096)
	le.PutUint32(o[36:], 512)
	le.PutUint32(o[60:], 1024) // SizeOfHeaders
	le.PutUint16(o[68:], 10)   // EFI application
	le.PutUint16(o[70:], peNXCompat)
	le.PutUint32(o[108:], 16)
	at := uint32(4096)
	for i, s := range sections {
		h := o[240+i*peSectionHeader:]
		copy(h[:8], s.name)
		size := up(uint64(len(s.bytes)), 512)
		le.PutUint32(h[8:], uint32(len(s.bytes)))
		le.PutUint32(h[12:], at)
		le.PutUint32(h[16:], uint32(size))
		le.PutUint32(h[20:], uint32(len(b)))
		le.PutUint32(h[36:], peReadable|peInitialData)
		b = append(append(b, s.bytes...), make([]byte, size-uint64(len(s.bytes)))...)
		coff = b[0x44:]
		o = coff[20:]
		at += uint32(up(uint64(len(s.bytes)), 4096))
	}
	le.PutUint32(o[56:], at)
	return b
}

func testStub() []byte {
	return program(peSection{name: ".text", bytes: bytes.Repeat([]byte{0xcc}, 513)},
		peSection{name: ".sbat", bytes: []byte("sbat,1,SBAT Version,sbat,1,https://example\nstub,1,Stub,stub,1,https://example\n")})
}

// checkPE demands what a firmware's loader relies on; of the sections that the
// stub came with (old) memory may be larger than content.
func checkPE(t *testing.T, b []byte, old int) *pe.File {
	t.Helper()
	f, err := pe.NewFile(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	o := f.OptionalHeader.(*pe.OptionalHeader64)
	memory, file := o.SizeOfHeaders, o.SizeOfHeaders
	for i, s := range f.Sections {
		if s.VirtualAddress%o.SectionAlignment != 0 || s.VirtualAddress < memory {
			t.Errorf("section %s at %#x in memory; aligned to %#x and from %#x it must be", s.Name, s.VirtualAddress, o.SectionAlignment, memory)
		}
		if s.Offset%o.FileAlignment != 0 || s.Offset < file || s.Size%o.FileAlignment != 0 || i >= old && s.Size < s.VirtualSize || int(s.Offset+s.Size) > len(b) {
			t.Errorf("section %s at %#x of the file, %#x bytes of %#x; from %#x to %#x is possible", s.Name, s.Offset, s.VirtualSize, s.Size, file, len(b))
		}
		memory, file = s.VirtualAddress+s.VirtualSize, s.Offset+s.Size
	}
	if want := uint32(up(uint64(memory), uint64(o.SectionAlignment))); o.SizeOfImage != want {
		t.Errorf("SizeOfImage %#x, want %#x", o.SizeOfImage, want)
	}
	if int(file) != len(b) || o.CheckSum != 0 || o.DataDirectory[4].Size != 0 {
		t.Errorf("file of %d bytes, sections end at %d; checksum %#x, signatures %v", len(b), file, o.CheckSum, o.DataDirectory[4])
	}
	return f
}

func TestPESectionsAtBoundaries(t *testing.T) {
	for _, size := range []int{1, 511, 512, 513, 4095, 4096, 4097} {
		p, err := readPE(testStub())
		if err != nil {
			t.Fatal(err)
		}
		content := bytes.Repeat([]byte{0x5a}, size)
		var out bytes.Buffer
		err = p.write(&out, []peSection{
			{name: ".first", bytes: content, size: uint64(size), flags: peReadable},
			{name: ".eight56", path: write(t, "second", content), size: uint64(size), flags: peReadable | peCode},
		})
		if err != nil {
			t.Fatal(err)
		}
		f := checkPE(t, out.Bytes(), 2)
		for _, name := range []string{".first", ".eight56"} {
			s := f.Section(name)
			if s == nil {
				t.Fatalf("no section %s", name)
			}
			if got, err := s.Data(); err != nil || !bytes.Equal(got[:s.VirtualSize], content) {
				t.Errorf("%d bytes: section %s has other content (%v)", size, name, err)
			}
		}
	}
}

func TestPERefuses(t *testing.T) {
	edit := func(at int, v uint32) func([]byte) []byte {
		return func(b []byte) []byte { binary.LittleEndian.PutUint32(b[at:], v); return b }
	}
	const optional, section = 0x44 + 20, 0x44 + 20 + 240
	for _, tt := range []struct {
		name  string
		edit  func([]byte) []byte
		fault string
	}{
		{"sound", func(b []byte) []byte { return b }, ""},
		{"empty", func([]byte) []byte { return nil }, "not a PE program"},
		{"a script", func([]byte) []byte { return []byte("#!/bin/sh\n") }, "not a PE program"},
		{"no alignment", edit(optional+32, 0), "alignment"},
		{"file alignment over that in memory", edit(optional+36, 8192), "alignment"},
		{"file alignment over 64 KiB", func(b []byte) []byte { return edit(optional+32, 1<<20)(edit(optional+36, 1<<17)(b)) }, "alignment"},
		{"gigabytes of alignment", edit(optional+32, 1<<30), "alignment"},
		{"signed", edit(optional+112+36, 1), "signed"},
		{"symbols", edit(0x44+12, 1), "symbol table"},
		{"headers end before the sections' headers", edit(optional+60, section+79), "headers end at"},
		{"headers end outside", edit(optional+60, 1<<20), "headers end at"},
		{"section in the headers", edit(section+12, 0), "overlaps"},
		{"section not aligned", edit(section+12, 4097), "overlaps"},
		{"sections overlap", edit(section+peSectionHeader+12, 4096), "overlaps"},
		{"content not aligned", edit(section+20, 1025), "overlaps"},
		{"size of content not aligned", edit(section+peSectionHeader+16, 511), "overlaps"},
		{"content outside", edit(section+peSectionHeader+16, 1<<20), "overlaps"},
		{"ends beyond 4 GiB", edit(section+peSectionHeader+8, 0xffffffff), "4 GiB"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := readPE(tt.edit(testStub()))
			if tt.fault == "" && err != nil || tt.fault != "" && (err == nil || !strings.Contains(err.Error(), tt.fault)) {
				t.Errorf("%v, want %q", err, tt.fault)
			}
		})
	}
	p, err := readPE(testStub())
	if err != nil {
		t.Fatal(err)
	}
	for fault, add := range map[string][]peSection{
		"at least 1":                   {{name: ".empty", bytes: []byte{}}},
		".toolong":                     {{name: ".toolongname", bytes: []byte{1}, size: 1}},
		"ends before 4 GiB":            {{name: ".large", path: "x", size: 1 << 32}},
		"no room for 20 more":          make([]peSection, 20),
		"read 1 bytes of 2":            {{name: ".short", path: write(t, "short", []byte{1}), size: 2}},
		"no such file or directory":    {{name: ".gone", path: "/nonexistent", size: 2}},
		"section .sbat: 513 bytes do ": nil,
	} {
		err := p.write(&bytes.Buffer{}, add)
		if add == nil {
			err = p.replace(".sbat", make([]byte, 513))
		}
		if err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%v, want %q", err, fault)
		}
	}
	if err := p.replace(".none", nil); err == nil {
		t.Error("a section that is not there is replaced")
	}
}

func TestMergeSBAT(t *testing.T) {
	const head = "sbat,1,SBAT Version,sbat,1,https://example\n"
	for _, tt := range []struct {
		stub, kernel, want, fault string
	}{
		{head + "stub,1,x\n", "", head + "stub,1,x\n", ""},
		{head + "stub,1,x\n\x00\x00", head + "linux,1,y\n\x00", head + "stub,1,x\nlinux,1,y\n", ""},
		{head + "stub,1,x", head + "linux,1,y", head + "stub,1,x\nlinux,1,y\n", ""},
		{"", head + "linux,1,y\n", head + "linux,1,y\n", ""},
		{"", "", "", "no section"},
		{head, "linux,1,y\n", "", `begins with "linux,1,y"`},
	} {
		got, err := mergeSBAT([]byte(tt.stub), []byte(tt.kernel))
		if string(got) != tt.want || (err == nil) != (tt.fault == "") || err != nil && !strings.Contains(err.Error(), tt.fault) {
			t.Errorf("%q and %q: %q, %v", tt.stub, tt.kernel, got, err)
		}
	}
}

// Whatever is taken for a stub, the result is a sound program or an error.
func FuzzReadPE(f *testing.F) {
	f.Add(testStub())
	f.Add(program())
	f.Add([]byte("MZ"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := readPE(b)
		if err != nil {
			return
		}
		_ = p.section(".sbat")
		_ = p.replace(".sbat", []byte("sbat,1\n"))
		var out bytes.Buffer
		if err := p.write(&out, []peSection{{name: ".x", bytes: []byte{1}, size: 1, flags: peReadable}}); err == nil {
			checkPE(t, out.Bytes(), len(p.sections))
		}
	})
}
