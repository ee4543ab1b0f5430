package mounts

import (
	"errors"
	"fmt"
	"slices"
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
	// Release frees what keeps file systems busy without being mounted (loop
	// devices, swap) and says whether there was any; may be nil.
	Release func(root Info) bool

	// Survivors says that processes are left that nothing ends: then file systems on
	// disks are made read-only, or frozen by Freeze, before they are unmounted.
	Survivors bool
	Freeze    func(target string) error // may be nil

	quiet  map[string]bool // by device: has been made read-only, or that was tried
	frozen map[string]bool // by device
	hung   map[int]bool    // by mount id: did not answer, and is not asked again
}

// All unmounts every file system but the root and the kernel's own views,
// deepest first, again and again while that gets any further. What is busy
// then is remounted read-only and detached. The reasons it returns make the
// shutdown unclean; there are none if all data is safe.
func (u *Unmounter) All() (unclean []string) {
	u.hung, u.quiet, u.frozen = map[int]bool{}, map[string]bool{}, map[string]bool{}
	for range max(1, u.Rounds) {
		root, list, err := u.list()
		if err != nil {
			return []string{err.Error()}
		}
		progress := false
		for i, m := range list {
			if u.expired() {
				break
			}
			if u.Survivors && onDisk(m) && !u.quiet[m.Device] && !mountedAgain(list[i+1:], m.Device) {
				u.quiet[m.Device] = true
				u.frozen[m.Device] = u.quiesce(m)
			}
			progress = u.unmount(m) == nil || progress
		}
		if u.Release != nil && !u.expired() {
			var freed bool
			if err := u.bounded(func() error { freed = u.Release(root); return nil }); err != nil {
				unclean = append(unclean, fmt.Sprintf("loop devices and swap: %v", err))
				break // it may be at it still: freed is not ours to read
			}
			progress = freed || progress
		}
		if !progress || u.expired() {
			break
		}
	}
	_, list, err := u.list()
	if err != nil {
		return append(unclean, err.Error())
	}
	for _, m := range list {
		if u.expired() {
			return append(unclean, "unmounting took longer than the ceiling, at "+m.Target)
		}
		err := u.unmount(m)
		if err == nil || errors.Is(err, unix.EINVAL) || errors.Is(err, errFrozen) { // EINVAL: gone already, with what it was on
			continue
		}
		if reason := u.detach(m, err); reason != "" {
			unclean = append(unclean, reason)
		}
	}
	return unclean
}

// list reads what is there to be unmounted, in order, and the root.
func (u *Unmounter) list() (root Info, out []Info, err error) {
	text, err := u.Read()
	if err != nil {
		return root, nil, fmt.Errorf("read the list of mounts: %w", err)
	}
	list, err := ParseInfo(text)
	if err != nil {
		u.Printf("shutdown: %v", err)
	}
	for _, m := range DeepestFirst(list) {
		if m.Target == "/" {
			root = m
		} else if !Stays(m) {
			out = append(out, m)
		}
	}
	return root, out, nil
}

func (u *Unmounter) expired() bool {
	select {
	case <-u.Expired:
		return true
	default:
		return false
	}
}

// unmount tries once. A server that does not answer is not asked twice.
func (u *Unmounter) unmount(m Info) error {
	if u.hung[m.ID] {
		return errCeiling
	}
	if u.frozen[m.Device] {
		return errFrozen
	}
	err := u.bounded(func() error { return u.Sys.Unmount(m.Target, unix.UMOUNT_NOFOLLOW) })
	if errors.Is(err, errCeiling) {
		u.hung[m.ID] = true
		u.Printf("shutdown: %s (%s on %s) does not answer, detached later", m.Target, m.Type, m.Source)
	}
	return err
}

// detach makes a busy file system read-only, so that what is on it is complete,
// and takes it out of the tree.
func (u *Unmounter) detach(m Info, cause error) (unclean string) {
	ro := errCeiling
	if !u.hung[m.ID] && !Volatile(m.Type) {
		ro = u.bounded(func() error {
			return u.Sys.Mount("none", m.Target, "", unix.MS_REMOUNT|unix.MS_RDONLY, "")
		})
	}
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

func mountedAgain(list []Info, device string) bool {
	return slices.ContainsFunc(list, func(m Info) bool { return m.Device == device })
}

var (
	errCeiling = errors.New("no answer within the ceiling")
	errFrozen  = errors.New("frozen")
)

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
