package mounts

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// fifreeze is FIFREEZE of <linux/fs.h>, ioctl_fsfreeze(2): everything is written out,
// the journal is emptied, and whoever writes from then on waits.
const fifreeze = 0xc0045877

// Freeze freezes the file system that is mounted at target. Nothing thaws it.
func Freeze(target string) error {
	fd, err := unix.Open(target, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.IoctlSetInt(fd, fifreeze, 0)
}

// Syncfs writes out the file system that is mounted at target (syncfs(2)).
func Syncfs(target string) error {
	fd, err := unix.Open(target, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Syncfs(fd)
}

// Sync writes out every file system that can hold data, all at once and each by
// itself: one that does not answer holds up no other, as it would with sync(2). It
// takes at most limit, and says of which file systems nothing is known.
func Sync(list []Info, syncfs func(target string) error, limit time.Duration) (doubtful []string) {
	list = slices.DeleteFunc(DeepestFirst(list), func(m Info) bool { return Volatile(m.Type) || Pseudo(m.Type) })
	answers := make([]error, len(list))
	var mu sync.Mutex
	var wg sync.WaitGroup
	seen := map[string]bool{}
	for i, m := range list {
		if seen[m.Device] {
			continue
		}
		seen[m.Device] = true
		answers[i] = errCeiling
		wg.Go(func() {
			err := syncfs(m.Target)
			mu.Lock()
			defer mu.Unlock()
			answers[i] = err
		})
	}
	all := make(chan struct{})
	go func() { wg.Wait(); close(all) }()
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-all:
	case <-t.C:
	}
	mu.Lock()
	defer mu.Unlock()
	for i, err := range answers {
		if err != nil && !errors.Is(err, unix.ENOENT) { // ENOENT: hidden by another mount
			doubtful = append(doubtful, fmt.Sprintf("sync of %s (%s on %s): %v", list[i].Target, list[i].Type, list[i].Source, err))
		}
	}
	return doubtful
}

// onDisk says whether a mount is of a file system on a device of this machine.
func onDisk(m Info) bool {
	return strings.HasPrefix(m.Source, "/dev/") && !Volatile(m.Type) && !Pseudo(m.Type)
}

// quiesce makes a file system on a disk whole before its last mount is taken down
// here, because a process that does not die may have it in a mount namespace of its
// own: unmounting it would succeed and end nothing. It says whether the file system
// is frozen, and so must not be touched any more.
func (u *Unmounter) quiesce(m Info) (frozen bool) {
	err := u.bounded(func() error {
		return u.Sys.Mount("none", m.Target, "", unix.MS_REMOUNT|unix.MS_RDONLY, "")
	})
	if err == nil {
		return false
	}
	if u.Freeze == nil {
		return false
	}
	if ferr := u.bounded(func() error { return u.Freeze(m.Target) }); ferr != nil {
		u.Printf("shutdown: %s (%s) could not be made read-only (%v) nor frozen (%v)", m.Target, m.Type, err, ferr)
		return false
	}
	u.Printf("shutdown: %s (%s) is in use (%v) and was frozen: all of it is on the disk", m.Target, m.Type, err)
	return true
}
