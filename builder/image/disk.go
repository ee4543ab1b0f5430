package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/diskfs/go-diskfs/partition/gpt"

	"garboard.local/builder/rootfs"
	"garboard.local/builder/store"
)

// DiskInput is what a disk image is made of.
type DiskInput struct {
	Arch  string
	ESP   []ESPFile
	Root  string       // root image for the first root partition; "" leaves it empty
	Data  *rootfs.Tree // content of the data partition; nil leaves it empty: the node makes it
	Sizes Sizes
	Epoch time.Time
}

// Disk writes a raw disk image, sparse, and returns its path in the store.
func Disk(ctx context.Context, st *store.Store, run Run, toolKey string, in DiskInput) (file string, cached bool, err error) {
	parts, size, err := Layout(in.Arch, in.Sizes)
	if err != nil {
		return "", false, err
	}
	var inputs []string
	for _, f := range in.ESP {
		sum, err := store.HashFile(f.From)
		if err != nil {
			return "", false, fmt.Errorf("disk: %w", err)
		}
		inputs = append(inputs, f.Path, sum)
	}
	rootSum, dataKey := "", ""
	if in.Root != "" {
		if rootSum, err = store.HashFile(in.Root); err != nil {
			return "", false, fmt.Errorf("disk: %w", err)
		}
	}
	if in.Data != nil {
		dataKey = in.Data.Key()
	}
	key := store.Key(append(inputs, "disk 3", toolKey, in.Arch, rootSum, dataKey, fmt.Sprint(parts, size), in.Epoch.UTC().Format(time.RFC3339))...)
	dir, cached, err := st.Action(ctx, key, func(ctx context.Context, dir string) error {
		f, err := os.OpenFile(filepath.Join(dir, "disk.raw"), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
		if err != nil {
			return err
		}
		err = f.Truncate(size)
		if err == nil {
			err = fillDisk(ctx, f, size, run, in, parts, rootSum, key)
		}
		return errors.Join(err, f.Close())
	})
	if err != nil {
		err = fmt.Errorf("disk image: %w", err)
	}
	return filepath.Join(dir, "disk.raw"), cached, err
}

func fillDisk(ctx context.Context, f *os.File, size int64, run Run, in DiskInput, parts []Partition, rootSum, key string) error {
	t := &gpt.Table{LogicalSectorSize: sectorSize, PhysicalSectorSize: sectorSize, GUID: guid("disk", key), ProtectiveMBR: true}
	for _, p := range parts {
		id := guid(p.Name, key)
		if p.Number == rootAPartition && in.Root != "" {
			id = RootGUID(rootSum)
		}
		t.Partitions = append(t.Partitions, &gpt.Partition{Index: p.Number, Name: p.Name, Type: p.Type, GUID: id,
			Start: uint64(p.Start / sectorSize), End: uint64((p.Start+p.Size)/sectorSize) - 1, Size: uint64(p.Size)})
	}
	if err := t.Write(f, size); err != nil {
		return fmt.Errorf("partition table: %w", err)
	}
	for _, p := range parts {
		var err error
		switch {
		case p.Number == espPartition:
			err = writeESP(run, f.Name(), p.Start, p.Size, sectorSize, in.ESP, guid(p.Name, key), in.Epoch)
		case p.Number == rootAPartition && in.Root != "":
			err = copyInto(f, p, in.Root)
		case p.Number == dataPartition && in.Data != nil:
			err = writeExt4(ctx, f.Name(), p, in.Data, guid("ext4", key), in.Epoch, run)
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// sectorSize is that of the disks the images are for, in bytes.
const sectorSize = 512

// copyInto copies a file to the beginning of a partition.
func copyInto(disk *os.File, p Partition, file string) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	fi, err := in.Stat()
	if err != nil {
		return err
	}
	if fi.Size() > p.Size {
		return fmt.Errorf("the root image has %.1f MiB, partition %s only %d MiB", float64(fi.Size())/float64(MiB), p.Name, p.Size/MiB)
	}
	_, err = io.Copy(io.NewOffsetWriter(disk, p.Start), in)
	return err
}

// BootDisk writes a disk that has only an ESP with these files to a new file, for
// trying a UKI or a boot loader in a virtual machine.
func BootDisk(run Run, file string, files []ESPFile, epoch time.Time) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
	if err != nil {
		if errors.Is(err, fs.ErrExist) {
			err = fmt.Errorf("%w; it is not overwritten", err)
		}
		return err
	}
	size := DefaultESPSize + 2*diskEnds
	t := &gpt.Table{LogicalSectorSize: sectorSize, PhysicalSectorSize: sectorSize, GUID: guid("boot disk"), ProtectiveMBR: true,
		Partitions: []*gpt.Partition{{Index: 1, Name: "esp", Type: gpt.EFISystemPartition, GUID: guid("boot disk", "esp"),
			Start: uint64(diskEnds / sectorSize), End: uint64((diskEnds+DefaultESPSize)/sectorSize) - 1, Size: uint64(DefaultESPSize)}}}
	err = f.Truncate(size)
	if err == nil {
		err = t.Write(f, size)
	}
	if err == nil {
		err = writeESP(run, file, diskEnds, DefaultESPSize, sectorSize, files, guid("boot disk", "esp"), epoch)
	}
	return errors.Join(err, f.Close())
}
