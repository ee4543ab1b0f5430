package recipe

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// LocalOCI says whether kernel.oci names a file or directory of this host, and
// not an image in a registry.
func LocalOCI(ref string) bool { return strings.HasPrefix(ref, ".") || filepath.IsAbs(ref) }

// localOCI keeps a cleaned path recognisable as one.
func localOCI(p string) string {
	if LocalOCI(p) {
		return p
	}
	return "." + string(filepath.Separator) + p
}

// check reports the first rule that the kernel's part of a merged recipe breaks.
func (k *Kernel) check() error {
	switch {
	case k.Package == "" && k.OCI == "":
		return errors.New("package is missing (for VMs: linux-image-cloud-{arch}), and so is oci")
	case k.Package != "" && k.OCI != "":
		return fmt.Errorf("package (%s) and oci (%s) exclude each other: a node has one kernel", k.Package, k.OCI)
	case strings.ContainsAny(k.OCI, " \t\n\x00"):
		return fmt.Errorf("oci: %q holds white space", k.OCI)
	}
	for i, f := range k.Firmware {
		if f.Package == "" || f.Reason == "" {
			return fmt.Errorf("firmware[%d] (%s): package and reason are needed", i, f.Package)
		}
		for _, p := range f.Files {
			if err := checkPath(p); err != nil {
				return fmt.Errorf("firmware[%d] (%s).files: %w", i, f.Package, err)
			}
			if !strings.HasPrefix(p, FirmwareDir+"/") {
				return fmt.Errorf("firmware[%d] (%s).files: %s is not below %s, where the kernel looks", i, f.Package, p, FirmwareDir)
			}
		}
	}
	for i, m := range k.Microcode {
		if m.Package == "" || m.Reason == "" {
			return fmt.Errorf("microcode[%d] (%s): package and reason are needed", i, m.Package)
		}
		if m.Arch != "amd64" {
			return fmt.Errorf("microcode[%d] (%s).arch must be amd64: the firmware of other machines brings their processors' updates", i, m.Package)
		}
	}
	return nil
}

// FirmwareDir is where the kernel looks for firmware.
const FirmwareDir = "/usr/lib/firmware"

// forArch is what of the kernel's source and firmware applies to an architecture.
func (k *Kernel) forArch(arch string, replace func(string) string) Kernel {
	c := Kernel{Package: replace(k.Package), OCI: replace(k.OCI)}
	for _, f := range k.Firmware {
		if f.Arch == "" || f.Arch == arch {
			f.Package = replace(f.Package)
			c.Firmware = append(c.Firmware, f)
		}
	}
	for _, m := range k.Microcode {
		if m.Arch == arch {
			m.Package = replace(m.Package)
			c.Microcode = append(c.Microcode, m)
		}
	}
	return c
}
