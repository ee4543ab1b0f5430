package image

import (
	"bytes"
	"context"
	"debug/pe"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"garboard.local/builder/store"
)

// UKIInput is what a Unified Kernel Image is made of
// (https://uapi-group.org/specifications/specs/unified_kernel_image/).
type UKIInput struct {
	Stub      string // systemd-stub's file, linux<arch>.efi.stub
	Kernel    string // file
	Initrd    string // file
	Cmdline   string // of the kernel
	OSRelease []byte // os-release(5); systemd-boot shows names from it
	Uname     string // the kernel's version, uname -r
}

// UKI writes a Unified Kernel Image: systemd-stub, with the kernel, the initramfs
// and what belongs to them as further sections of the same PE program. The
// firmware starts it as it is.
func UKI(ctx context.Context, st *store.Store, in UKIInput) (file string, cached bool, err error) {
	parts := []string{"uki 1", in.Cmdline, string(in.OSRelease), in.Uname}
	for _, f := range []string{in.Stub, in.Kernel, in.Initrd} {
		sum, err := store.HashFile(f)
		if err != nil {
			return "", false, fmt.Errorf("UKI: %w", err)
		}
		parts = append(parts, sum)
	}
	dir, cached, err := st.Action(ctx, store.Key(parts...), func(_ context.Context, dir string) error {
		w, err := os.Create(filepath.Join(dir, "uki.efi"))
		if err != nil {
			return err
		}
		return errors.Join(writeUKI(w, in), w.Close())
	})
	if err != nil {
		err = fmt.Errorf("UKI: %w", err)
	}
	return filepath.Join(dir, "uki.efi"), cached, err
}

func writeUKI(w *os.File, in UKIInput) error {
	b, err := os.ReadFile(in.Stub)
	if err != nil {
		return err
	}
	stub, err := readPE(b)
	if err != nil {
		return fmt.Errorf("%s: %w", in.Stub, err)
	}
	kernelSBAT, nx, err := readKernel(in.Kernel)
	if err != nil {
		return fmt.Errorf("%s: %w; a kernel that UEFI can start has CONFIG_EFI_STUB", in.Kernel, err)
	}
	for name, text := range map[string]string{"command line": in.Cmdline, "version": in.Uname, "os-release": string(in.OSRelease)} {
		if text == "" || strings.ContainsRune(text, 0) {
			return fmt.Errorf("the %s is empty or holds a zero byte", name)
		}
	}
	sbat, err := mergeSBAT(stub.section(".sbat"), kernelSBAT)
	if err == nil {
		err = stub.replace(".sbat", sbat)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", in.Stub, err)
	}
	if !nx { // the two must agree, or a firmware that insists on it does not start the kernel
		stub.clearNX()
	}
	const data = peReadable | peInitialData
	add := []peSection{
		{name: ".osrel", bytes: in.OSRelease, flags: data},
		{name: ".cmdline", bytes: []byte(in.Cmdline), flags: data},
		{name: ".uname", bytes: []byte(in.Uname), flags: data},
		{name: ".initrd", path: in.Initrd, flags: data},
		{name: ".linux", path: in.Kernel, flags: data | peCode},
	}
	for i, s := range add {
		add[i].size = uint64(len(s.bytes))
		if s.bytes == nil {
			fi, err := os.Stat(s.path)
			if err != nil {
				return err
			}
			add[i].size = uint64(fi.Size())
		}
	}
	return stub.write(w, add)
}

// readKernel reads the revocation data of a kernel, if it has any, and whether
// it runs with data not executable.
func readKernel(file string) (sbat []byte, nx bool, err error) {
	f, err := pe.Open(file)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	o, ok := f.OptionalHeader.(*pe.OptionalHeader64)
	if !ok {
		return nil, false, errors.New("not a PE32+ (64 bit) program")
	}
	if s := f.Section(".sbat"); s != nil {
		if sbat, err = s.Data(); err != nil {
			return nil, false, err
		}
	}
	return sbat, o.DllCharacteristics&peNXCompat != 0, nil
}

// sbatHead is the first line of every .sbat section (shim's SBAT.md).
const sbatHead = "sbat,1,"

// mergeSBAT joins the revocation data of the stub and the kernel, so that either
// can be revoked: one head line, then the lines of both. Most kernels have none.
func mergeSBAT(sections ...[]byte) ([]byte, error) {
	var out []string
	for _, s := range sections {
		s = bytes.TrimRight(s, "\x00")
		if len(s) == 0 {
			continue
		}
		lines := strings.Split(strings.TrimRight(string(s), "\n"), "\n")
		if !strings.HasPrefix(lines[0], sbatHead) {
			return nil, fmt.Errorf("section .sbat begins with %q, not with %q", lines[0], sbatHead)
		}
		if len(out) > 0 {
			lines = lines[1:]
		}
		out = append(out, lines...)
	}
	if len(out) == 0 {
		return nil, errors.New("there is no section .sbat")
	}
	return []byte(strings.Join(out, "\n") + "\n"), nil
}
