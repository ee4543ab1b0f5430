package boot

import (
	"garboard.local/init/data"
	"garboard.local/init/rootfs"
)

// rootDisk is the way to a root image in a partition.
func (n *node) rootDisk(guid string) *rootfs.Disk {
	return &rootfs.Disk{GUID: guid, Printf: n.printf, Limit: rootfs.DiskLimit, Poll: rootfs.DiskPoll,
		Find: func(guid string) (string, []string) { return data.FindPartition("/sys", "/dev", guid) }}
}
