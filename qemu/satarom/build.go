package satarom

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"garboard.local/builder/store"
)

//go:embed edk2/glue.c
var glue []byte

// format names the form of the result in the store, and how it is made.
const format = "1"

// Packages hold the compiler and the linker.
var Packages = []string{"clang-19", "lld-19"}

// Unused are packages that the compiler's depend on and that nothing here uses: what
// programs for Debian are compiled with.
var Unused = []string{"libc6-dev", "libgcc-14-dev", "libobjc-14-dev", "libstdc++-14-dev", "libclang-common-19-dev", "libclang1-19", "llvm-19-linker-tools"}

// Tools are the compiler and the linker; Key stands for their versions.
type Tools struct {
	Key     string
	Command func(ctx context.Context, tool string, args ...string) *exec.Cmd
}

// Build returns the path of the ROM in the store. archive is the fetched Source.
func Build(ctx context.Context, st *store.Store, archive string, tools Tools) (string, error) {
	src, err := Source()
	if err != nil {
		return "", err
	}
	unpacked, _, err := st.Action(ctx, store.Key("satarom-source", format, src.SHA256), func(ctx context.Context, dir string) error {
		root, err := os.OpenRoot(dir)
		if err != nil {
			return err
		}
		defer root.Close()
		return unpack(ctx, archive, root)
	})
	if err != nil {
		return "", fmt.Errorf("unpack EDK II: %w", err)
	}
	dir, _, err := st.Action(ctx, store.Key("satarom", format, src.SHA256, tools.Key, string(glue)), func(ctx context.Context, dir string) error {
		c := compiler{tools, unpacked, dir}
		var programs [][]byte
		for _, d := range drivers {
			b, err := c.driver(ctx, d)
			if err != nil {
				return fmt.Errorf("compile EDK II's %s: %w", path.Base(d.dir), err)
			}
			programs = append(programs, b)
		}
		rom, err := Write(ICH9, programs...)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, "sata.rom"), rom, 0o644)
	})
	return filepath.Join(dir, "sata.rom"), err
}

type compiler struct {
	Tools
	source, work string
}

// flags of a compiler for UEFI: PE objects, wide characters of 16 bits, EDK II's
// types (AArch64/ProcessorBind.h), nothing of a C library, no floating point.
func (c compiler) flags() []string {
	in := func(p string) string { return filepath.Join(c.source, p) }
	flags := []string{
		"--target=aarch64-unknown-windows-gnu", "-nostdinc", "-ffreestanding", "-fshort-wchar", "-fno-builtin",
		"-fno-strict-aliasing", "-fno-stack-protector", "-mgeneral-regs-only", "-Os", "-ffunction-sections", "-fdata-sections",
		"-I", in("MdePkg/Include"), "-I", in("MdePkg/Include/AArch64"), "-I", in("MdeModulePkg/Include"),
		"-include", "Uefi.h", "-include", "Library/PcdLib.h",
		"-DMDEPKG_NDEBUG", // no assertions
	}
	for name, value := range settings {
		flags = append(flags, "-D_PCD_GET_MODE_"+name+"="+value)
	}
	return flags
}

// settings of the platform (PCDs) that the compiled files ask for, by type and name:
// EDK II's defaults.
var settings = map[string]string{
	"32_PcdAhciCommandRetryCount":       "5",
	"32_PcdMaximumAsciiStringLength":    "1000000",
	"32_PcdMaximumLinkedListLength":     "1000000",
	"32_PcdMaximumUnicodeStringLength":  "1000000",
	"BOOL_PcdAtaSmartEnable":            "1",
	"BOOL_PcdComponentName2Disable":     "0",
	"BOOL_PcdComponentNameDisable":      "0",
	"BOOL_PcdDriverDiagnostics2Disable": "0",
	"BOOL_PcdDriverDiagnosticsDisable":  "0",
	"BOOL_PcdVerifyNodeInList":          "0",
}

// driver compiles and links one driver.
func (c compiler) driver(ctx context.Context, d driver) ([]byte, error) {
	files, err := filepath.Glob(filepath.Join(c.source, d.dir, "*.c"))
	if err != nil {
		return nil, err
	}
	var declared [][]byte
	for _, p := range declarations {
		b, err := os.ReadFile(filepath.Join(c.source, p))
		if err != nil {
			return nil, err
		}
		declared = append(declared, b)
	}
	name := path.Base(d.dir)
	own := map[string][]byte{name + "-glue.c": glue, name + "-guids.c": guids(declared...)}
	for n, b := range own {
		p := filepath.Join(c.work, n)
		if err := os.WriteFile(p, b, 0o644); err != nil {
			return nil, err
		}
		files = append(files, p)
	}
	for _, l := range libraries {
		files = append(files, filepath.Join(c.source, l))
	}
	link := []string{"/entry:_ModuleEntryPoint", "/subsystem:efi_boot_service_driver", "/nodefaultlib", "/opt:ref", "/timestamp:0", "/out:" + filepath.Join(c.work, name+".efi")}
	for i, f := range files {
		object := filepath.Join(c.work, fmt.Sprintf("%s-%d.obj", name, i))
		if err := c.run(ctx, "clang-19", append(c.flags(), "-DENTRY_POINT="+d.entry, "-c", f, "-o", object)...); err != nil {
			return nil, err
		}
		link = append(link, object)
	}
	if err := c.run(ctx, "lld-link-19", link...); err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(c.work, name+".efi"))
}

func (c compiler) run(ctx context.Context, tool string, args ...string) error {
	out, err := c.Command(ctx, tool, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", tool, err, strings.TrimSpace(string(out)))
	}
	return nil
}
