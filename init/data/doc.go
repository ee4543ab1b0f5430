// Package data finds, makes, grows and checks the data partition: the one place
// on a node where something outlives a reboot.
//
// It is an ext4 file system in a GPT partition of type [Type], mounted on /var.
// Everything here can be cut short by a power failure at any moment and is taken
// up again at the next boot: the partition table is written backup first and
// each part is synced before the next, a file system counts only once the
// partition's [making] mark was taken away, and it grows by the kernel's own
// journaled resize. See docs/decisions/0010-data-partition.md.
package data
