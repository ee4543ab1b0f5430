package image

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/diskfs/go-diskfs/partition/gpt"
	"github.com/google/uuid"

	"garboard.local/init/data"
)

const (
	// MiB is 2^20 bytes; partitions begin and end on multiples of it.
	MiB = int64(1) << 20

	// DefaultDiskSize is the size of a disk image whose recipe gives none. The
	// data partition takes what the others leave, and grows with the disk.
	DefaultDiskSize = 4096 * MiB
	// DefaultESPSize holds six UKIs with the root image in them, or a score of
	// those without: two for A/B, one that is being written, and growth. A FAT32 that
	// disks with sectors of 4096 bytes can have as well begins at 260 MiB.
	DefaultESPSize = 512 * MiB
	// SmallestESP is the size below which a file system is no sound FAT32 with the
	// cluster size that is chosen for it.
	SmallestESP = 64 * MiB
	// DefaultRootSize is that of each root partition: eight times today's root image.
	DefaultRootSize = 512 * MiB
	// SmallestData is the size of the smallest data partition that a node makes.
	SmallestData = 256 * MiB

	biosBootSize = MiB // what GRUB and its like embed themselves in; nothing does yet
	diskEnds     = MiB // each: GPT and its backup need 17 KiB
)

// Partition is one of a disk image, in bytes.
type Partition struct {
	Number      int
	Name        string // in the table
	Type        gpt.Type
	Start, Size int64
	Purpose     string
}

// Numbers of the partitions.
const (
	biosBootPartition = iota + 1
	espPartition
	rootAPartition
	rootBPartition
	dataPartition
)

// Sizes are those a recipe can choose, in bytes; 0 stands for the default.
type Sizes struct{ Disk, ESP, Root, Data int64 }

// Layout places the partitions of a disk image for an architecture and returns
// the size of the whole. The data partition comes last, so that it can grow.
func Layout(arch string, s Sizes) (parts []Partition, size int64, err error) {
	root, ok := map[string]gpt.Type{"amd64": gpt.LinuxRootX86_64, "arm64": gpt.LinuxRootArm64}[arch]
	if !ok {
		return nil, 0, fmt.Errorf("disk: there is no root partition type for architecture %q", arch)
	}
	if s.ESP == 0 {
		s.ESP = DefaultESPSize
	}
	if s.Root == 0 {
		s.Root = DefaultRootSize
	}
	for _, n := range []struct {
		what     string
		size, at int64
	}{{"size", s.Disk, 0}, {"espSize", s.ESP, SmallestESP}, {"rootSize", s.Root, MiB}, {"dataSize", s.Data, 0}} {
		if n.size%MiB != 0 || n.size < n.at {
			return nil, 0, fmt.Errorf("disk: %s of %d bytes: a multiple of 1 MiB is needed, at least %d MiB", n.what, n.size, max(n.at/MiB, 1))
		}
	}
	fixed := 2*diskEnds + biosBootSize + s.ESP + 2*s.Root
	if s.Data == 0 {
		if s.Disk == 0 {
			s.Disk = DefaultDiskSize
		}
		s.Data = s.Disk - fixed
	}
	if s.Disk == 0 {
		s.Disk = fixed + s.Data
	}
	if s.Data < SmallestData {
		return nil, 0, fmt.Errorf("disk: %d MiB leave %d MiB for the data partition, which needs %d MiB: the disk needs %d MiB in all (%d MiB without data)",
			s.Disk/MiB, max(s.Data, 0)/MiB, SmallestData/MiB, (fixed+SmallestData)/MiB, fixed/MiB)
	}
	if fixed+s.Data > s.Disk {
		return nil, 0, fmt.Errorf("disk: a data partition of %d MiB and the other partitions need a disk of %d MiB, not %d MiB", s.Data/MiB, (fixed+s.Data)/MiB, s.Disk/MiB)
	}
	at := diskEnds
	for _, p := range []Partition{
		{Number: biosBootPartition, Name: "bios-boot", Type: gpt.BIOSBoot, Size: biosBootSize, Purpose: "kept for booting without UEFI; empty"},
		{Number: espPartition, Name: "esp", Type: gpt.EFISystemPartition, Size: s.ESP, Purpose: "EFI system partition, FAT32: the UKI"},
		{Number: rootAPartition, Name: "root-a", Type: root, Size: s.Root, Purpose: "the root image, where it is read from the disk"},
		{Number: rootBPartition, Name: "root-b", Type: root, Size: s.Root, Purpose: "kept for the next root image; empty"},
		{Number: dataPartition, Name: "garboard-data", Type: data.Type, Size: s.Data, Purpose: "ext4, /var of the node; last, so that it grows with the disk"},
	} {
		p.Start = at
		at += p.Size
		parts = append(parts, p)
	}
	return parts, s.Disk, nil
}

// guid is a GUID made from a name and what it stands for: the same inputs give
// the same one (RFC 9562, version 8).
func guid(name string, inputs ...string) string {
	h := sha256.New()
	for _, s := range append([]string{"garboard disk", name}, inputs...) {
		fmt.Fprintf(h, "%d:%s,", len(s), s)
	}
	var u uuid.UUID
	copy(u[:], h.Sum(nil))
	u[6] = u[6]&0x0f | 0x80
	u[8] = u[8]&0x3f | 0x80
	return strings.ToUpper(u.String())
}

// RootGUID is the GUID of the partition that holds the root image with this
// sha256. A UKI names its root by it, so two versions on one disk are never mixed
// up, and copies of a disk hold the same under the same name.
func RootGUID(sum string) string { return guid("root", sum) }

// RootParam are the words of the kernel command line by which PID 1 finds its root
// image in that partition. gpt: the kernel takes the backup of a damaged table.
func RootParam(sum string) []string { return []string{"garboard.root=" + RootGUID(sum), "gpt"} }
