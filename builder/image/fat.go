package image

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// BootFile is the path on an ESP from which firmware boots a disk that it has
// no other word on (UEFI 2.10, 3.5.1.1).
func BootFile(arch string) string {
	return "/EFI/BOOT/BOOT" + map[string]string{"amd64": "X64", "arm64": "AA64"}[arch] + ".EFI"
}

// ESPFile is a file to put on an EFI system partition: where, and from where.
type ESPFile struct{ Path, From string }

// espSlack is what FAT32 itself needs of an ESP (two tables, directories), at most.
const espSlack = 4 * MiB

// sourceDate is the variable by which tools are told what to stamp files with
// (https://reproducible-builds.org/specs/source-date-epoch/).
const sourceDate = "SOURCE_DATE_EPOCH"

// writeESP makes a FAT32 file system, for sectors of that size, in a range of a disk
// image and puts files on it, with mkfs.fat and mtools. The serial number begins as the GUID id does. (go-diskfs v1.9.4 writes FAT, but fsck.fat refuses
// it: tables too short by two entries, a wrong ".." in directories of the root,
// clusters that belong to empty files.) --invariant comes before -i, or the serial number is everybody's.
func writeESP(run Run, disk string, start, size, sector int64, files []ESPFile, id string, epoch time.Time) error {
	var need int64
	var dirs []string
	for _, f := range files {
		fi, err := os.Stat(f.From)
		if err != nil {
			return err
		}
		need += fi.Size()
		for d := path.Dir(f.Path); d != "/"; d = path.Dir(d) {
			if !slices.Contains(dirs, d) {
				dirs = append(dirs, d)
			}
		}
	}
	if need > size-espSlack {
		return fmt.Errorf("ESP: its files have %.1f MiB, but of its %d MiB only %d are left beside FAT's own; a larger espSize, or a root that is read from the disk, helps",
			float64(need)/float64(MiB), size/MiB, (size-espSlack)/MiB)
	}
	slices.Sort(dirs) // parents first
	image := fmt.Sprintf("%s@@%d", disk, start)
	first := strconv.FormatInt(start/sector, 10)
	cmds := []*exec.Cmd{run("mkfs.fat", "--invariant", "-F", "32", "-S", strconv.FormatInt(sector, 10), "-h", first, "-i", id[:8], "-n", "GARBOARD",
		"--offset", first, disk, strconv.FormatInt(size>>10, 10))}
	for _, d := range dirs {
		cmds = append(cmds, run("mmd", "-i", image, "::"+d))
	}
	for _, f := range files {
		cmds = append(cmds, run("mcopy", "-i", image, f.From, "::"+f.Path))
	}
	for _, cmd := range cmds {
		cmd.Env = append(cmd.Environ(), sourceDate+"="+strconv.FormatInt(epoch.Unix(), 10), "TZ=UTC", "LC_ALL=C", "MTOOLSRC="+os.DevNull)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("ESP of %d MiB: %w", size/MiB, toolError(strings.Join(cmd.Args, " "), err, out, 0))
		}
	}
	return nil
}
