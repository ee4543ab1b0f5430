package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/diskfs/go-diskfs/partition/gpt"

	"garboard.local/builder/store"
	"garboard.local/init/data"
)

// ISOInput is what an ISO is made of.
type ISOInput struct {
	Medium string    // the GUID of its partition table, by which a node knows it
	ESP    []ESPFile // what its firmware boots
	Epoch  time.Time
}

// isoESP is the number of the partition that holds the ESP. The ISO 9660 file
// system before it is the first.
const isoESP = 2

// isoVolume is the ISO 9660 file system's name.
const isoVolume = "GARBOARD"

// MediumGUID names the ISO that is made of these inputs. MediumParam is the word
// on its kernel command line by which PID 1 recognises it among the disks.
func MediumGUID(inputs ...string) string { return guid("iso", inputs...) }

// MediumParam is the word for that GUID.
func MediumParam(medium string) string { return "garboard.medium=" + medium }

// ISO writes an image that UEFI firmware boots as a CD and as a disk, and returns
// its path in the store. There is one ESP in it: El Torito's catalogue leads a CD's
// firmware to it, a GPT that of a disk.
func ISO(ctx context.Context, st *store.Store, run Run, toolKey string, in ISOInput) (file string, cached bool, err error) {
	parts := []string{"iso 3", toolKey, in.Medium, in.Epoch.UTC().Format(time.RFC3339)}
	size := espSlack
	for _, f := range in.ESP {
		sum, err := store.HashFile(f.From)
		if err != nil {
			return "", false, fmt.Errorf("ISO: %w", err)
		}
		fi, err := os.Stat(f.From)
		if err != nil {
			return "", false, fmt.Errorf("ISO: %w", err)
		}
		parts = append(parts, f.Path, sum)
		size += fi.Size()
	}
	size = max(SmallestESP, (size+MiB-1)/MiB*MiB)
	dir, cached, err := st.Action(ctx, store.Key(parts...), func(ctx context.Context, dir string) error {
		return errors.Join(writeISO(run, dir, size, in), ctx.Err())
	})
	if err != nil {
		err = fmt.Errorf("ISO: %w", err)
	}
	return filepath.Join(dir, isoFile), cached, err
}

// isoFile is the name of the image in the store.
const isoFile = "image.iso"

func writeISO(run Run, dir string, size int64, in ISOInput) error {
	esp, tree := filepath.Join(dir, "esp"), filepath.Join(dir, "tree")
	defer os.RemoveAll(tree)
	defer os.Remove(esp)
	if err := errors.Join(os.Mkdir(tree, 0o755), os.WriteFile(esp, nil, 0o600), os.Truncate(esp, size)); err != nil {
		return err
	}
	if err := writeESP(run, esp, 0, size, sectorSize, in.ESP, in.Medium, in.Epoch); err != nil {
		return err
	}
	large := filepath.Join(dir, "esp4096")
	defer os.Remove(large)
	hasLarge, err := writeLargeESP(run, large, esp, in)
	if err != nil {
		return fmt.Errorf("ESP for disks with sectors of %d bytes: %w", data.LargeSector, err)
	}
	// Who mounts the CD is to see what it is.
	const readme = "A Garboard node. UEFI firmware boots it from the EFI system partition behind this file system.\n"
	if err := os.WriteFile(filepath.Join(tree, "README.TXT"), []byte(readme), 0o644); err != nil {
		return err
	}
	file := filepath.Join(dir, isoFile)
	stamp := in.Epoch.UTC().Format("20060102150405") + "00" // hundredths of a second
	number := strconv.Itoa(isoESP)
	args := []string{"-no_rc", "-as", "mkisofs", "-quiet", "-V", isoVolume, "-r",
		"--modification-date=" + stamp, "--set_all_file_dates", stamp, "--gpt_disk_guid", in.Medium,
		"-partition_offset", "16", "-append_partition", number, string(gpt.EFISystemPartition), esp, "-appended_part_as_gpt",
		"-e", "--interval:appended_partition_" + number + ":all::", "-no-emul-boot", "-o", file}
	if hasLarge {
		args = append(args, "-append_partition", strconv.Itoa(isoESP+1), string(data.LargeESPType), large)
	}
	cmd := run("xorriso", append(args, tree)...)
	cmd.Env = append(cmd.Environ(), sourceDate+"="+strconv.FormatInt(in.Epoch.Unix(), 10), "TZ=UTC", "LC_ALL=C")
	if out, err := cmd.CombinedOutput(); err != nil {
		return toolError("xorriso", err, out, 0)
	}
	return nil
}
