package rootfs

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"garboard.local/init/mounts"
)

// Disk leads to a root image that lies in a partition: it waits until the kernel
// shows one with the GUID and mounts it, read-only and without a loop device.
type Disk struct {
	Sys, Dev string // "/sys", "/dev"
	GUID     string // of the partition, from the kernel command line
	Printf   func(format string, args ...any)
	Limit    time.Duration // of the wait; DiskLimit
	Poll     time.Duration // DiskPoll
}

// DiskLimit is how long a disk may take to appear; DiskPoll how often it is looked for.
const (
	DiskLimit = 30 * time.Second
	DiskPoll  = 10 * time.Millisecond
)

// sayAfter is how long a wait stays unmentioned: drivers need some time.
const sayAfter = time.Second

var guidRE = regexp.MustCompile(`^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$`)

// Mount mounts the root image of the disk at the place it is switched to from.
func (d *Disk) Mount(sys mounts.Syscalls) error {
	dev, err := d.find()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(newRoot, 0o755); err != nil {
		return err
	}
	if err := sys.Mount(dev, newRoot, "erofs", unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("mount the root image (erofs) in %s, partition %s; a damaged image or no erofs module in /modules/order: %w", dev, d.GUID, err)
	}
	return bindInit(sys)
}

// find is the device of the partition. Copies of a disk have copies of it: the
// GUID stands for what it holds, so any of them will do.
func (d *Disk) find() (string, error) {
	if !guidRE.MatchString(d.GUID) {
		return "", fmt.Errorf("garboard.root=%s: want the GUID of a partition", d.GUID)
	}
	began := time.Now()
	said := false
	for {
		seen, dev := d.look()
		if dev != "" {
			return filepath.Join(d.Dev, dev), nil
		}
		waited := time.Since(began)
		if waited >= d.Limit {
			return "", fmt.Errorf("no partition %s with the root image after %s; the kernel shows %s. Is the disk there, and its driver among kernel.disks of the recipe?", d.GUID, d.Limit, seen)
		}
		if !said && waited >= sayAfter {
			said = true
			d.Printf("root: waiting for the partition %s, at most %s", d.GUID, d.Limit)
		}
		time.Sleep(d.Poll)
	}
}

// look goes through what the kernel shows once.
func (d *Disk) look() (seen, dev string) {
	files, _ := filepath.Glob(filepath.Join(d.Sys, "class/block/*/uevent")) // the pattern is well-formed
	var names []string
	for _, f := range files {
		name, guid := readUevent(f)
		if name == "" {
			continue
		}
		if guid != "" && strings.EqualFold(guid, d.GUID) {
			return "", name
		}
		if !strings.HasPrefix(name, "loop") {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "no disk", ""
	}
	slices.Sort(names)
	return strings.Join(names, ", "), ""
}

// readUevent reads a block device's name and, if it is a partition of a GPT, its GUID.
func readUevent(file string) (name, guid string) {
	f, err := os.Open(file)
	if err != nil {
		return "", "" // it went away
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	for s.Scan() {
		switch k, v, _ := strings.Cut(s.Text(), "="); k {
		case "DEVNAME":
			name = v
		case "PARTUUID":
			guid = v
		}
	}
	if strings.ContainsAny(name, "/") { // cciss and the like: never a disk of ours
		return "", ""
	}
	return name, guid
}
