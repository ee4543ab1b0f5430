package data

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// FindPartition looks once for the partition with a GUID among the disks that the
// kernel shows and returns its device; without one, the names of the disks and
// partitions there are. The tables are read from the disks: the kernel (6.12) does
// not tell the GUIDs. A disk that cannot be written to will do.
func FindPartition(sys, dev, guid string) (device string, shown []string) {
	dirs, _ := filepath.Glob(filepath.Join(sys, "block/*")) // the pattern is well-formed
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, "device")); err != nil {
			continue // a loop device, a RAM disk
		}
		d := disk{name: filepath.Base(dir), size: number(dir, "size") * 512, sector: number(dir, "queue/logical_block_size")}
		names := partNames(dir)
		if n := names[numberOf(dev, d, guid)]; n != "" {
			return filepath.Join(dev, n), nil
		}
		shown = append(shown, d.name)
		for _, n := range names {
			shown = append(shown, n)
		}
	}
	slices.Sort(shown)
	return "", shown
}

// numberOf is the number of the partition with that GUID in a disk's table, or 0.
func numberOf(dev string, d disk, guid string) int {
	f, err := os.Open(filepath.Join(dev, d.name))
	if err != nil {
		return 0
	}
	defer f.Close()
	t, err := readTable(f, d.size, d.sector)
	if err != nil {
		return 0
	}
	for _, p := range t.gpt.Partitions {
		if strings.EqualFold(p.GUID, guid) {
			return p.Index
		}
	}
	return 0
}

// partNames are the partitions that the kernel knows of a disk, by number.
func partNames(dir string) map[int]string {
	out := map[int]string{}
	files, _ := filepath.Glob(filepath.Join(dir, "*/partition"))
	for _, f := range files {
		if n := number(filepath.Dir(f), "partition"); n > 0 {
			out[int(n)] = filepath.Base(filepath.Dir(f))
		}
	}
	return out
}
