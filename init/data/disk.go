package data

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// disk is a whole disk as the kernel shows it.
type disk struct {
	name   string // "vda", "nvme0n1"
	size   int64  // bytes
	sector int64  // bytes of a logical sector
	serial string // "" if the driver tells none
	parts  map[int]part
}

// part is a partition as the kernel knows it, which may differ from the table.
type part struct {
	name        string // "vda1", "nvme0n1p1"
	start, size int64  // bytes
}

// disks lists the disks that have a device behind them (no loop devices, RAM
// disks, device mapper) and can be written to, by name.
func disks(sys string) ([]disk, error) {
	entries, err := os.ReadDir(filepath.Join(sys, "block"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []disk
	for _, e := range entries {
		dir := filepath.Join(sys, "block", e.Name())
		if _, err := os.Stat(filepath.Join(dir, "device")); err != nil || hasAny(e.Name(), "sr", "fd", "mtdblock") {
			continue
		}
		d := disk{name: e.Name(), size: number(dir, "size") * 512, sector: number(dir, "queue/logical_block_size"), parts: map[int]part{}}
		if d.size <= 0 || d.sector <= 0 || number(dir, "ro") != 0 {
			continue
		}
		for _, f := range []string{"serial", "device/serial"} {
			if d.serial == "" {
				d.serial = text(dir, f)
			}
		}
		if d.serial == "" {
			d.serial = unitSerial(dir)
		}
		children, err := os.ReadDir(dir)
		if err != nil {
			continue // it went away
		}
		for _, c := range children {
			p := filepath.Join(dir, c.Name())
			if n := number(p, "partition"); n > 0 {
				d.parts[int(n)] = part{name: c.Name(), start: number(p, "start") * 512, size: number(p, "size") * 512}
			}
		}
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b disk) int { return strings.Compare(a.name, b.name) })
	return out, nil
}

// unitSerial is the number of a SCSI disk: its page 0x80 of vital product data, four
// bytes of header and then text (SPC-4, 7.8.13).
func unitSerial(dir string) string {
	b, err := os.ReadFile(filepath.Join(dir, "device/vpd_pg80"))
	if err != nil || len(b) < 4 || b[1] != 0x80 {
		return ""
	}
	return strings.Trim(string(b[4:min(len(b), 4+int(b[2])<<8+int(b[3]))]), " \x00")
}

func hasAny(s string, prefixes ...string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}

func text(dir, file string) string {
	b, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func number(dir, file string) int64 {
	n, err := strconv.ParseInt(text(dir, file), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// mark is what garboard.data= on the kernel command line says.
type mark struct {
	none   bool   // use no disk
	name   string // "vda"
	serial string
}

// given says whether one disk is named.
func (m mark) given() bool { return m.name != "" || m.serial != "" }

func (m mark) String() string {
	if m.serial != "" {
		return "serial=" + m.serial
	}
	return "/dev/" + m.name
}

func (m mark) matches(d disk) bool {
	return m.name != "" && m.name == d.name || m.serial != "" && m.serial == d.serial
}

// parseMark reads the value of garboard.data=.
func parseMark(s string) (mark, error) {
	if s == "" {
		return mark{}, nil
	}
	if s == "none" {
		return mark{none: true}, nil
	}
	if n, ok := strings.CutPrefix(s, "/dev/"); ok && n != "" && !strings.ContainsAny(n, "/ ") {
		return mark{name: n}, nil
	}
	if n, ok := strings.CutPrefix(s, "serial="); ok && n != "" {
		return mark{serial: n}, nil
	}
	return mark{}, fmt.Errorf("garboard.data=%s: want /dev/NAME of a whole disk, serial=NUMBER, or none", s)
}

// storage are the devices that a driver of disks may be missing for, by bus,
// the beginning of their module alias and a part of it.
var storage = []struct{ bus, prefix, part, module string }{
	{bus: "virtio", prefix: "virtio:d00000002"}, // block
	{bus: "virtio", prefix: "virtio:d00000008"}, // SCSI host
	// Nearly every virtual machine has these, with nothing behind them: a name is
	// looked up faster than an alias.
	{bus: "pci", part: "bc01sc06", module: "ahci"},
	{bus: "pci", part: "bc01sc01", module: "ata_piix"},
	{bus: "pci", part: "bc01"}, // all of class "mass storage"
	{bus: "vmbus"},
	{bus: "xen", prefix: "xen:vbd"},
	{bus: "scsi", prefix: "scsi:t-0x00"}, // disks, behind any host
}

// drivers names, by module or alias, the drivers that the machine's storage
// devices may lack. Many are built in or not in the image.
func drivers(sys string) []string {
	var out []string
	seen := map[string]bool{}
	for _, s := range storage {
		dir := filepath.Join(sys, "bus", s.bus, "devices")
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // the machine has no such bus
		}
		for _, e := range entries {
			d := filepath.Join(dir, e.Name())
			a := text(d, "modalias")
			if seen[d] || a == "" || !strings.HasPrefix(a, s.prefix) || !strings.Contains(a, s.part) {
				continue
			}
			seen[d] = true
			if _, err := os.Stat(filepath.Join(d, "driver")); err == nil {
				continue
			}
			if s.module != "" {
				a = s.module
			}
			if !slices.Contains(out, a) {
				out = append(out, a)
			}
		}
	}
	return out
}
