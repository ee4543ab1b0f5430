package kernel

import (
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/xi2/xz"
)

// ErrNoConfig says that a kernel does not tell its configuration.
var ErrNoConfig = errors.New("the kernel holds no configuration (CONFIG_IKCONFIG)")

// maxWindow bounds the memory that unpacking takes: kernels are compressed with
// windows of up to 128 MiB (zstd -22 --ultra, and scripts/xz_wrap.sh).
const maxWindow = 128 << 20

// compressions are what kernels and modules are compressed with, by how it begins.
var compressions = []struct {
	name, magic string
	open        func(io.Reader) (io.Reader, error)
}{
	{"gzip", "\x1f\x8b", func(r io.Reader) (io.Reader, error) {
		z, err := gzip.NewReader(r)
		if err == nil {
			z.Multistream(false) // the size lies behind it in a kernel
		}
		return z, err
	}},
	{"xz", "\xfd7zXZ\x00", func(r io.Reader) (io.Reader, error) {
		z, err := xz.NewReader(r, maxWindow)
		if err == nil {
			z.Multistream(false)
		}
		return z, err
	}},
	{"zstd", "\x28\xb5\x2f\xfd", func(r io.Reader) (io.Reader, error) {
		return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	}},
	{"bzip2", "BZh", func(r io.Reader) (io.Reader, error) { return bzip2.NewReader(r), nil }},
	{"lzma", "\x5d\x00\x00", nil},
	{"lz4", "\x02\x21\x4c\x18", nil},
	{"lzo", "\x89LZO", nil},
}

// decompress reads what is compressed in a way that it recognises, and anything
// else as it is.
func decompress(r io.Reader) (io.Reader, error) {
	head := make([]byte, 8)
	n, err := io.ReadFull(r, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, err
	}
	all := io.MultiReader(bytes.NewReader(head[:n]), r)
	for _, c := range compressions {
		if !bytes.HasPrefix(head[:n], []byte(c.magic)) {
			continue
		}
		if c.open == nil {
			return nil, fmt.Errorf("it is compressed with %s, which is not read here", c.name)
		}
		return c.open(all)
	}
	return all, nil
}

// Kernels as boot loaders know them:
// Documentation/arch/x86/boot.rst, Documentation/arch/arm64/booting.rst and
// drivers/firmware/efi/libstub/zboot-header.S in the kernel's source.
func isBzImage(b []byte) bool {
	return len(b) > 0x250 && string(b[0x202:0x206]) == "HdrS" && binary.LittleEndian.Uint16(b[0x1fe:]) == 0xaa55
}

func isARM64(b []byte) bool { return len(b) > 64 && string(b[56:60]) == "ARM\x64" }

func isZboot(b []byte) bool {
	return len(b) > 64 && string(b[:2]) == "MZ" && string(b[4:8]) == "zimg"
}

func isKernel(b []byte) bool { return isBzImage(b) || isARM64(b) || isZboot(b) }

// bootable is a kernel in the form that a node's boot loaders take, with its
// architecture: one for arm64 that came compressed as a whole is unpacked, since
// UEFI, and so a UKI, starts nothing else.
func bootable(b []byte) (kernel []byte, arch string, err error) {
	if !isKernel(b) {
		r, err := decompress(bytes.NewReader(b))
		if err != nil {
			return nil, "", err
		}
		if b, err = io.ReadAll(io.LimitReader(r, maxKernel)); err != nil {
			return nil, "", fmt.Errorf("unpack it: %w", err)
		}
	}
	switch {
	case isBzImage(b):
		return b, "amd64", nil
	case isZboot(b):
		// Its machine is in the PE header (PE format, "COFF File Header").
		pe := int64(binary.LittleEndian.Uint32(b[0x3c:]))
		if pe+6 > int64(len(b)) || string(b[pe:pe+4]) != "PE\x00\x00" || binary.LittleEndian.Uint16(b[pe+4:]) != 0xaa64 {
			return nil, "", errors.New("it is an EFI zboot image for another architecture than arm64")
		}
		return b, "arm64", nil
	case isARM64(b):
		return b, "arm64", nil
	}
	return nil, "", errors.New("it is neither a bzImage (amd64) nor an Image (arm64, also compressed)")
}

// maxKernel bounds an unpacked kernel.
const maxKernel = 512 << 20

// payload is what a kernel unpacks itself to, as far as it can be read.
func payload(b []byte) ([]byte, error) {
	var part []byte
	var start, size int64
	switch {
	case isBzImage(b):
		if binary.LittleEndian.Uint16(b[0x206:]) < 0x208 {
			return nil, errors.New("the bzImage is older than boot protocol 2.08, which tells where the kernel lies in it")
		}
		sectors := int64(b[0x1f1])
		if sectors == 0 {
			sectors = 4
		}
		start = (sectors+1)*512 + int64(binary.LittleEndian.Uint32(b[0x248:]))
		size = int64(binary.LittleEndian.Uint32(b[0x24c:]))
	case isZboot(b):
		start, size = int64(binary.LittleEndian.Uint32(b[8:])), int64(binary.LittleEndian.Uint32(b[12:]))
	default:
		return b, nil
	}
	if start > int64(len(b)) || size > int64(len(b))-start {
		return nil, errors.New("the kernel is cut short")
	}
	part = b[start : start+size]
	r, err := decompress(bytes.NewReader(part))
	if err != nil {
		return nil, err
	}
	out, err := io.ReadAll(io.LimitReader(r, maxKernel))
	if len(out) == 0 && err != nil {
		return nil, fmt.Errorf("unpack the kernel: %w", err)
	}
	return out, nil // what lies behind the compressed data is no error
}

// embedded is the configuration that a kernel with CONFIG_IKCONFIG holds
// (scripts/extract-ikconfig in the kernel's source).
func embedded(b []byte) ([]byte, error) {
	raw, err := payload(b)
	if err != nil {
		return nil, fmt.Errorf("%w that can be read: %w", ErrNoConfig, err)
	}
	return ikconfig(raw)
}

func ikconfig(raw []byte) ([]byte, error) {
	_, rest, ok := bytes.Cut(raw, []byte("IKCFG_ST"))
	if !ok {
		return nil, ErrNoConfig
	}
	z, err := gzip.NewReader(bytes.NewReader(rest))
	if err != nil {
		return nil, fmt.Errorf("%w that can be read: %w", ErrNoConfig, err)
	}
	z.Multistream(false)
	text, err := io.ReadAll(io.LimitReader(z, maxConfig))
	if err != nil {
		return nil, fmt.Errorf("%w that can be read: %w", ErrNoConfig, err)
	}
	return text, nil
}

// release is the kernel's name for itself, uname -r; "" if it cannot be found.
func release(b []byte) string {
	if isBzImage(b) {
		at := int(binary.LittleEndian.Uint16(b[0x20e:])) + 0x200
		if at == 0x200 || at >= len(b) {
			return ""
		}
		text, _, _ := bytes.Cut(b[at:min(len(b), at+256)], []byte{0})
		v, _, _ := strings.Cut(string(text), " ")
		return v
	}
	raw, err := payload(b)
	if err != nil {
		return ""
	}
	if m := bannerRE.FindSubmatch(raw); m != nil {
		return string(m[1])
	}
	return ""
}

var (
	bannerRE  = regexp.MustCompile(`Linux version ([0-9][0-9A-Za-z.+~_-]{0,127}) \(`)
	releaseRE = regexp.MustCompile(`^[0-9][0-9A-Za-z.+~_-]{0,127}$`)
)
