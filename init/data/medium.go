package data

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/diskfs/go-diskfs/partition/gpt"
)

// medium is where an ISO lies: a CD, a stick, a disk it was written to.
type medium struct {
	name        string // of the device: "sr0", "sda"
	start, size int64  // of its ESP, in bytes
	// large is where the ESP for disks with large sectors is, in bytes; 0 if there is none.
	large, largeSize int64
}

// isoSector is that of an ISO's partition table, whatever the device's is: a CD's
// sectors have 2048 bytes.
const isoSector = 512

// findMedium looks once for the ISO with that GUID. The kernel shows no partitions of
// a CD, so the table is read here. Another device than target is preferred: of two
// copies of one ISO the target may be one.
func (m *Manager) findMedium(guid, target string) *medium {
	var out *medium
	dirs, _ := filepath.Glob(filepath.Join(m.Sys, "block/*")) // the pattern is well-formed
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, "device")); err != nil {
			continue // a loop device, a RAM disk
		}
		name := filepath.Base(dir)
		t, err := m.readTable(disk{name: name, size: number(dir, "size") * 512, sector: isoSector})
		if err != nil || !strings.EqualFold(t.gpt.GUID, guid) {
			continue
		}
		found := medium{name: name}
		for _, p := range t.gpt.Partitions {
			start, size := int64(p.Start)*isoSector, int64(p.End-p.Start+1)*isoSector
			switch p.Type {
			case gpt.EFISystemPartition:
				found.start, found.size = start, size
			case LargeESPType:
				found.large, found.largeSize = start, size
			}
		}
		if found.size > 0 && (out == nil || out.name == target) {
			out = &found
		}
	}
	return out
}

// isMedium says whether a disk holds the ISO that this node was started from, or a
// copy of it.
func (m *Manager) isMedium(t *table) bool {
	return m.Medium != "" && strings.EqualFold(t.gpt.GUID, m.Medium)
}
