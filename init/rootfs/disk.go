package rootfs

import (
	"fmt"
	"os"
	"regexp"
	"time"

	"golang.org/x/sys/unix"

	"garboard.local/init/mounts"
)

// Disk leads to a root image that lies in a partition: it waits until the kernel
// shows one with the GUID and mounts it, read-only and without a loop device.
type Disk struct {
	GUID string // of the partition, from the kernel command line
	// Find looks for it once: its device, or else what devices there are.
	Find   func(guid string) (device string, shown []string)
	Printf func(format string, args ...any)
	Limit  time.Duration // of the wait; DiskLimit
	Poll   time.Duration // DiskPoll
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
		dev, shown := d.Find(d.GUID)
		if dev != "" {
			return dev, nil
		}
		waited := time.Since(began)
		if waited >= d.Limit {
			return "", fmt.Errorf("no partition %s with the root image after %s; the kernel shows %v. Is the disk there, and its driver among kernel.disks of the recipe?", d.GUID, d.Limit, shown)
		}
		if !said && waited >= sayAfter {
			said = true
			d.Printf("root: waiting for the partition %s, at most %s", d.GUID, d.Limit)
		}
		time.Sleep(d.Poll)
	}
}
