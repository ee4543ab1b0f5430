// Package powercut is a disk for virtual machines that can lose its power.
//
// Killing QEMU is no power cut for the guest's data: everything the guest ever
// wrote stays in the host's page cache. Disk keeps what was written since the
// last flush apart, as a disk's volatile write cache does, and Cut makes of it
// what a power cut may leave: all that was flushed, and of the rest nothing,
// everything, or any part down to single sectors.
//
// A machine reaches the disk over NBD (github.com/NetworkBlockDevice/nbd,
// doc/proto.md) on a unix socket; see Serve.
package powercut
