package data

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Linux is the real kernel.
type Linux struct{}

// SetPartition is ioctl BLKPG (linux/blkpg.h).
func (Linux) SetPartition(disk string, number int, start, size int64, was *part) error {
	f, err := os.Open(disk)
	if err != nil {
		return err
	}
	defer f.Close()
	if was != nil && was.start != start {
		if err := blkpg(f, unix.BLKPG_DEL_PARTITION, number, 0, 0); err != nil {
			return fmt.Errorf("remove the old one: %w", err)
		}
		was = nil
	}
	if was == nil {
		return blkpg(f, unix.BLKPG_ADD_PARTITION, number, start, size)
	}
	return blkpg(f, unix.BLKPG_RESIZE_PARTITION, number, start, size)
}

func blkpg(f *os.File, op int32, number int, start, size int64) error {
	p := unix.BlkpgPartition{Start: start, Length: size, Pno: int32(number)}
	a := unix.BlkpgIoctlArg{Op: op, Datalen: int32(unsafe.Sizeof(p)), Data: (*byte)(unsafe.Pointer(&p))}
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, f.Fd(), unix.BLKPG, uintptr(unsafe.Pointer(&a))); e != 0 {
		return e
	}
	return nil
}

// ext4Resize is EXT4_IOC_RESIZE_FS, _IOW('f', 16, __u64) (linux/ext4.h). It is
// all that resize2fs does with a mounted file system on today's kernels.
const ext4Resize = 0x40086610

// Grow lets the kernel resize a mounted ext4 file system.
func (Linux) Grow(mountpoint string, blocks uint64) error {
	f, err := os.Open(mountpoint)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, f.Fd(), ext4Resize, uintptr(unsafe.Pointer(&blocks))); e != 0 {
		return e
	}
	return nil
}

// Sync is syncfs(2).
func (Linux) Sync(mountpoint string) error {
	f, err := os.Open(mountpoint)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(f.Fd())), f.Close())
}
