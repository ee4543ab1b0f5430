package launch

import (
	"fmt"

	"golang.org/x/sys/unix"

	"garboard.local/init/table"
)

// mountAll gives this thread a mount namespace with a service's mounts. Those of
// the node go on arriving in it, and nothing leaves it. The working directory was
// entered before there was a mount, and may be in one: it is entered again.
func mountAll(root string, list []table.Mount, dir string) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount namespace: keep mounts from leaving it: %w", err)
	}
	for _, m := range list {
		source, target := root+m.Source, root+m.Target
		if err := unix.Mount(source, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("mount %s at %s: %w%s", m.Source, m.Target, err, which(source, target))
		}
		if !m.ReadOnly {
			continue
		}
		attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
		if err := unix.MountSetattr(unix.AT_FDCWD, target, unix.AT_RECURSIVE, &attr); err != nil {
			return fmt.Errorf("mount %s at %s: make it read-only: %w", m.Source, m.Target, err)
		}
	}
	if dir == "" {
		dir = "/"
	}
	if err := unix.Chdir(root + dir); err != nil {
		return fmt.Errorf("working directory %s: %w", dir, err)
	}
	return nil
}

// which says which of the two the kernel did not find.
func which(source, target string) string {
	var st unix.Stat_t
	for _, p := range []string{source, target} {
		if err := unix.Stat(p, &st); err != nil {
			return fmt.Sprintf(" (%s: %v)", p, err)
		}
	}
	return ""
}
