package mounts

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Unmounter takes everything down at the end.
type Unmounter struct {
	Sys     Syscalls
	Read    func() (string, error)           // the text of /proc/self/mountinfo
	Printf  func(format string, args ...any) // tells what stayed busy
	Each    time.Duration                    // ceiling of one unmount: a dead network server must not hold the node
	Rounds  int                              // how often the list is read again, for mounts on top of mounts
	Expired <-chan struct{}                  // closed when the total ceiling has passed; may be nil
}

// All unmounts every file system but the root and the kernel's own views,
// deepest first. What is busy is remounted read-only and then detached. The
// reasons it returns make the shutdown unclean; there are none if all data is
// safe.
func (u *Unmounter) All() (unclean []string) {
	busy := map[int]bool{}
	for range max(1, u.Rounds) {
		text, err := u.Read()
		if err != nil {
			return []string{fmt.Sprintf("read the list of mounts: %v", err)}
		}
		list, err := ParseInfo(text)
		if err != nil {
			u.Printf("shutdown: %v", err)
		}
		progress := false
		for _, m := range DeepestFirst(list) {
			if m.Target == "/" || Pseudo(m.Type) || busy[m.ID] {
				continue
			}
			select {
			case <-u.Expired:
				return append(unclean, "unmounting took longer than the ceiling")
			default:
			}
			switch err := u.bounded(func() error { return u.Sys.Unmount(m.Target, unix.UMOUNT_NOFOLLOW) }); {
			case err == nil:
				progress = true
			case errors.Is(err, unix.EINVAL): // gone already, with what it was on
			default:
				busy[m.ID] = true
				if reason := u.detach(m, err); reason != "" {
					unclean = append(unclean, reason)
				}
			}
		}
		if !progress {
			break
		}
	}
	return unclean
}

// detach makes a busy file system read-only, so that what is on it is complete,
// and takes it out of the tree.
func (u *Unmounter) detach(m Info, cause error) (unclean string) {
	ro := u.bounded(func() error {
		return u.Sys.Mount("none", m.Target, "", unix.MS_REMOUNT|unix.MS_RDONLY, "")
	})
	_ = u.bounded(func() error { return u.Sys.Unmount(m.Target, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) })
	if Volatile(m.Type) {
		u.Printf("shutdown: %s (%s) was busy (%v), detached; it held nothing that lasts", m.Target, m.Type, cause)
		return ""
	}
	if ro != nil {
		return fmt.Sprintf("%s (%s on %s) could neither be unmounted (%v) nor made read-only (%v)", m.Target, m.Type, m.Source, cause, ro)
	}
	u.Printf("shutdown: %s (%s) was busy (%v), remounted read-only and detached", m.Target, m.Type, cause)
	return ""
}

var errCeiling = errors.New("no answer within the ceiling")

// bounded calls f, which may hang in the kernel for ever; then its goroutine is
// left behind, which ends with the machine.
func (u *Unmounter) bounded(f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	t := time.NewTimer(u.Each)
	defer t.Stop()
	select {
	case err := <-done:
		return err
	case <-t.C:
		return errCeiling
	case <-u.Expired:
		return errCeiling
	}
}
