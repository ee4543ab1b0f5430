package satarom

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"regexp"
	"strings"

	"github.com/xi2/xz"

	"garboard.local/builder/source/debian"
)

// Source is EDK II as Debian 13 has it, without Debian's patches, of which none is
// about these drivers: http://ftp.debian.org/debian/pool/main/e/edk2.
func Source() (debian.SourceFile, error) {
	return debian.PoolFile("pool/main/e/edk2", "edk2_2025.02.orig.tar.xz",
		"b63b6053d6d89c74d9291f9e96fde1584be99e6fb9c169ba9511505129d6b049", 29646336)
}

// driver is a driver of EDK II: its directory, and the entry point that its .inf names.
type driver struct{ dir, entry string }

var (
	drivers = []driver{
		{"MdeModulePkg/Bus/Pci/SataControllerDxe", "InitializeSataControllerDriver"},
		{"MdeModulePkg/Bus/Ata/AtaAtapiPassThru", "InitializeAtaAtapiPassThru"},
	}
	// libraries is what of EDK II's libraries the drivers call.
	libraries = []string{
		"MdePkg/Library/BaseDebugLibNull/DebugLib.c",
		"MdePkg/Library/BaseLib/BitField.c",
		"MdePkg/Library/BaseLib/DivU64x32.c",
		"MdePkg/Library/BaseLib/HighBitSet32.c",
		"MdePkg/Library/BaseLib/LinkedList.c",
		"MdePkg/Library/BaseLib/LShiftU64.c",
		"MdePkg/Library/BaseLib/Math64.c",
		"MdePkg/Library/BaseLib/MultU64x32.c",
		"MdePkg/Library/BaseLib/RShiftU64.c",
		"MdePkg/Library/BaseLib/SafeString.c",
		"MdePkg/Library/BaseLib/String.c",
		"MdePkg/Library/BaseLib/SwapBytes16.c",
		"MdePkg/Library/BaseLib/SwapBytes32.c",
		"MdePkg/Library/BaseLib/Unaligned.c",
		"MdePkg/Library/BaseMemoryLib/CompareMemWrapper.c",
		"MdePkg/Library/BaseMemoryLib/CopyMem.c",
		"MdePkg/Library/BaseMemoryLib/CopyMemWrapper.c",
		"MdePkg/Library/BaseMemoryLib/MemLibGeneric.c",
		"MdePkg/Library/BaseMemoryLib/MemLibGuid.c",
		"MdePkg/Library/BaseMemoryLib/SetMem.c",
		"MdePkg/Library/BaseMemoryLib/SetMemWrapper.c",
		"MdePkg/Library/BaseMemoryLib/ZeroMemWrapper.c",
		"MdePkg/Library/BaseReportStatusCodeLibNull/BaseReportStatusCodeLib.c",
		"MdePkg/Library/CompilerIntrinsicsLib/memcpy.c",
		"MdePkg/Library/CompilerIntrinsicsLib/memset.c",
		"MdePkg/Library/UefiLib/UefiDriverModel.c",
		"MdePkg/Library/UefiLib/UefiLib.c",
		"MdePkg/Library/UefiMemoryAllocationLib/MemoryAllocationLib.c",
	}
	declarations = []string{"MdePkg/MdePkg.dec", "MdeModulePkg/MdeModulePkg.dec"}
)

// needed says whether a file of the archive is, by its path below the archive's
// only directory.
func needed(p string) bool {
	for _, ext := range []string{".c", ".h", ".dec"} {
		if strings.HasSuffix(p, ext) {
			return strings.HasPrefix(p, "MdePkg/") || strings.HasPrefix(p, "MdeModulePkg/Include/") ||
				p == declarations[1] || strings.HasPrefix(p, drivers[0].dir+"/") || strings.HasPrefix(p, drivers[1].dir+"/")
		}
	}
	return false
}

// maxSource is what the needed files may hold together, in bytes; they hold 20 MB.
const maxSource = 256 << 20

// unpack writes the needed files of the archive into dir.
func unpack(ctx context.Context, archive string, dir *os.Root) error {
	in, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer in.Close()
	z, err := xz.NewReader(bufio.NewReader(in), 128<<20)
	if err != nil {
		return fmt.Errorf("%s: %w", archive, err)
	}
	left := int64(maxSource)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return fmt.Errorf("%s: %w", archive, err)
		}
		_, p, _ := strings.Cut(path.Clean(h.Name), "/")
		if h.Typeflag != tar.TypeReg || !needed(p) {
			continue
		}
		if left -= h.Size; left < 0 {
			return fmt.Errorf("%s: more than %d bytes of source", archive, int64(maxSource))
		}
		if err := dir.MkdirAll(path.Dir(p), 0o755); err != nil {
			return err
		}
		out, err := dir.OpenFile(p, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, r)
		if err = errors.Join(err, out.Close()); err != nil {
			return fmt.Errorf("%s: %s: %w", archive, h.Name, err)
		}
	}
}

var guidLine = regexp.MustCompile(`(?m)^[ \t]+(g[A-Za-z0-9]+Guid)[ \t]*=[ \t]*(\{[0-9A-Fa-fx,{} \t]+\})`)

// guids turns the GUIDs that packages declare into C.
func guids(declared ...[]byte) []byte {
	out := []byte("#include <Uefi.h>\n")
	seen := map[string]bool{}
	for _, text := range declared {
		for _, m := range guidLine.FindAllSubmatch(text, -1) {
			if !seen[string(m[1])] {
				seen[string(m[1])] = true
				out = fmt.Appendf(out, "EFI_GUID %s = %s;\n", m[1], m[2])
			}
		}
	}
	return out
}
