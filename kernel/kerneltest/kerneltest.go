// Package kerneltest lays a kernel out as LinuxKit's images are, and makes small
// stand-ins for kernels, for tests.
package kerneltest

import (
	"encoding/binary"
	"os"
	"path"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"garboard.local/builder/source/oci/ocitest"
	"garboard.local/kernel"
)

// LinuxKit is an image of the kernel and its modules, as `linuxkit pkg` makes one:
// kernel, kernel.tar with lib/modules, cmdline, and a kernel-dev.tar that nobody reads.
func LinuxKit(src *kernel.Source, arch, cmdline string) (v1.Image, error) {
	vmlinuz, err := os.ReadFile(src.Vmlinuz)
	if err != nil {
		return nil, err
	}
	modules := map[string][]byte{}
	for rel, p := range src.Modules {
		if modules[path.Join("lib/modules", src.Version, rel)], err = os.ReadFile(p); err != nil {
			return nil, err
		}
	}
	return ocitest.Image(arch,
		ocitest.Tar(map[string][]byte{"kernel": vmlinuz, "kernel-dev.tar": []byte("not a tar")}),
		ocitest.Tar(map[string][]byte{"kernel.tar": ocitest.Tar(modules), "cmdline": []byte(cmdline + "\n"), "boot/config": src.Config})), nil
}

// Gzip compresses, as /proc/config.gz and Image.gz are.
func Gzip(b []byte) []byte { return ocitest.Gzip(b) }

// IKConfig is what a kernel with CONFIG_IKCONFIG holds.
func IKConfig(config []byte) []byte {
	return append(append([]byte("\x7fELF stuff IKCFG_ST"), Gzip(config)...), "IKCFG_ED more"...)
}

// BzImage has the header of a kernel for amd64 (boot protocol 2.15) around a payload.
func BzImage(release string, payload []byte) []byte {
	b := make([]byte, 0x400)
	b[0x1f1] = 1 // one sector of setup code behind the first
	binary.LittleEndian.PutUint16(b[0x1fe:], 0xaa55)
	copy(b[0x202:], "HdrS")
	binary.LittleEndian.PutUint16(b[0x206:], 0x20f)
	binary.LittleEndian.PutUint16(b[0x20e:], 0x100)
	copy(b[0x300:], release+" (somebody@somewhere) #1 SMP\x00")
	binary.LittleEndian.PutUint32(b[0x248:], 0x20)
	binary.LittleEndian.PutUint32(b[0x24c:], uint32(len(payload)))
	b = append(b, make([]byte, 0x20)...)
	return append(append(b, payload...), "tail"...)
}

// Image has the header of a kernel for arm64.
func Image(release string, content []byte) []byte {
	b := make([]byte, 64)
	copy(b, "MZ")
	copy(b[56:], "ARM\x64")
	b = append(b, "Linux version "+release+" (somebody@somewhere) gcc\x00"...)
	return append(b, content...)
}

// Zboot is such a kernel as CONFIG_EFI_ZBOOT wraps it.
func Zboot(image []byte) []byte {
	z := Gzip(image)
	b := make([]byte, 0x80)
	copy(b, "MZ\x00\x00zimg")
	binary.LittleEndian.PutUint32(b[8:], uint32(len(b)))
	binary.LittleEndian.PutUint32(b[12:], uint32(len(z)))
	copy(b[24:], "gzip")
	binary.LittleEndian.PutUint32(b[0x3c:], 0x40)
	copy(b[0x40:], "PE\x00\x00\x64\xaa")
	return append(b, z...)
}
