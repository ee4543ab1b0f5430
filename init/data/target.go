package data

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// noTarget says why nothing can be installed to what the mark names, once it was
// waited for: it is there but no disk to write to, or which disks there are instead.
func (m *Manager) noTarget(mk mark) error {
	dirs, _ := filepath.Glob(filepath.Join(m.Sys, "block/*")) // the pattern is well-formed
	var shown []string
	for _, dir := range dirs {
		name := filepath.Base(dir)
		d := disk{name: name, size: number(dir, "size") * 512, serial: serial(dir)}
		if mk.matches(d) {
			return fmt.Errorf("%s (/dev/%s) is no disk to install to: %s", mk, name, unfit(dir, name))
		}
		if mk.name != "" {
			if _, err := os.Stat(filepath.Join(dir, mk.name, "partition")); err == nil {
				return fmt.Errorf("%s is a partition; name the whole disk, /dev/%s", mk, name)
			}
		}
		if _, err := os.Stat(filepath.Join(dir, "device")); err == nil && !hasAny(name, "sr", "fd") {
			s := fmt.Sprintf("/dev/%s (%d MiB", name, d.size>>20)
			if d.serial != "" {
				s += ", serial=" + d.serial
			}
			shown = append(shown, s+")")
		}
	}
	slices.Sort(shown)
	there := "no disk at all"
	if len(shown) > 0 {
		there = strings.Join(shown, ", ")
	}
	return fmt.Errorf("no disk %s after %s; there is %s. A disk that is missing may lack its driver in this image", mk, m.Limits.Named, there)
}

// unfit is why disks does not list a device.
func unfit(dir, name string) string {
	switch {
	case hasAny(name, "sr"):
		return "it is a CD drive"
	case number(dir, "ro") != 0:
		return "it cannot be written to (the kernel calls it read-only)"
	case number(dir, "size") == 0:
		return "it has no medium, or has not told its size"
	}
	return "it is not a disk of its own (a loop device, a RAM disk, a floppy)"
}
