package data

import (
	"context"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf16"

	"github.com/google/uuid"
)

// The boot disk is the one with the partition that the machine was started from.
// A boot loader that was read from a GPT partition says which one that was; see
// docs/decisions/0015-boot-disk.md.

// LoaderVariable is the EFI variable in which systemd-stub and systemd-boot leave
// the GUID of the partition they were started from (systemd.io/BOOT_LOADER_INTERFACE).
const LoaderVariable = "LoaderDevicePartUUID-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"

// ParseBoot reads the value of garboard.boot=. known is false if it leaves the
// question to the firmware; then guid is empty.
func ParseBoot(s string) (guid string, known bool, err error) {
	switch v, ok := strings.CutPrefix(s, "PARTUUID="); {
	case s == "":
		return "", false, nil
	case s == "none":
		return "", true, nil
	case ok:
		if guid, err = parseGUID(v); err == nil {
			return guid, true, nil
		}
	}
	return "", true, fmt.Errorf("garboard.boot=%s: want PARTUUID=GUID of a partition in a GPT, or none", s)
}

// ParseLoaderVariable reads that variable as efivarfs gives it: four bytes of
// attributes, then a string in UTF-16 with a final zero.
func ParseLoaderVariable(b []byte) (guid string, err error) {
	const text = 36
	if len(b) < 4+2*text || len(b) > 4+2*(text+1) {
		return "", fmt.Errorf("%s: %d bytes, want a GUID in UTF-16", LoaderVariable, len(b))
	}
	var u []uint16
	for i := 4; i+1 < len(b); i += 2 {
		u = append(u, binary.LittleEndian.Uint16(b[i:]))
	}
	if guid, err = parseGUID(strings.TrimRight(string(utf16.Decode(u)), "\x00")); err != nil {
		return "", fmt.Errorf("%s: %w", LoaderVariable, err)
	}
	return guid, nil
}

// parseGUID takes the usual form alone and returns it in capitals, as tables have it.
func parseGUID(s string) (string, error) {
	g, err := uuid.Parse(s)
	if err != nil || len(s) != 36 || g == uuid.Nil {
		return "", fmt.Errorf("%q is no partition GUID", s)
	}
	return strings.ToUpper(g.String()), nil
}

// bootGUID asks, once, for the partition that the machine was started from.
func (m *Manager) bootGUID() (string, error) {
	if m.Boot == nil {
		return "", nil
	}
	if !m.bootAsked {
		m.bootAsked = true
		m.bootPart, m.bootErr = m.Boot()
	}
	return m.bootPart, m.bootErr
}

// bootDisk is the disk with that partition among those of the list, or nil.
func (m *Manager) bootDisk(list []disk, guid string) (*disk, *table) {
	if guid == "" {
		return nil, nil
	}
	for _, d := range list {
		t, err := m.readTable(d)
		if err != nil {
			continue // choose has said so
		}
		for _, p := range t.gpt.Partitions {
			if strings.EqualFold(p.GUID, guid) {
				return &d, t
			}
		}
	}
	return nil, nil
}

// onBootDisk makes a data partition behind the last partition of the boot disk, if
// there is room. No data partition was found anywhere.
func (m *Manager) onBootDisk(ctx context.Context, list []disk, guid string) (*candidate, error) {
	d, t := m.bootDisk(list, guid)
	if d == nil {
		if guid != "" {
			m.Printf("data: the boot disk, with partition %s, is none of the %d disks that are there", guid, len(list))
		}
		return nil, nil
	}
	dev := filepath.Join(m.Dev, d.name)
	if m.isMedium(t) {
		m.Printf("data: %s holds the ISO that this node was started from: nothing is kept there", dev)
		return nil, nil
	}
	// An image of a CD on a stick has a table as well, and what lies behind it is not free.
	if err := m.nothingElse(ctx, dev, "gpt", "PMBR"); err != nil {
		return nil, err
	}
	p, err := t.add(true)
	if err != nil {
		m.Printf("data: boot disk %s: %v: no data partition is made", dev, err)
		return nil, nil
	}
	m.Printf("data: %s is the boot disk and there is no data partition: it gets one in its free space", dev)
	return m.place(ctx, *d, t, p)
}
