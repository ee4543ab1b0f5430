package boot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"garboard.local/init/data"
	"garboard.local/init/mounts"
)

const (
	bootParam = "garboard.boot"
	efiDir    = "/sys/firmware/efi/efivars"
)

// bootPartition is the GUID of the partition that the machine was started from, as
// the kernel command line or the firmware says; "" if neither does.
func (n *node) bootPartition() (string, error) {
	guid, known, err := data.ParseBoot(n.cmdline[bootParam])
	if known || err != nil {
		return guid, err
	}
	if _, err := os.Stat(efiDir); err != nil {
		return "", nil // the machine was not started by UEFI, or it keeps its variables to itself
	}
	if n.modules != nil && n.modules.Has("efivarfs") { // else it is in the kernel
		if err := n.modules.Load("efivarfs"); err != nil {
			return "", err
		}
	}
	return loaderPartition(n.sys, efiDir)
}

// loaderPartition reads what the boot loader left in a variable. Variables are in
// sight only meanwhile: nothing on a node needs them, and pods could harm the firmware.
func loaderPartition(sys mounts.Syscalls, dir string) (guid string, err error) {
	flags := uintptr(unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_RDONLY)
	if err := sys.Mount("efivarfs", dir, "efivarfs", flags, ""); err != nil {
		return "", fmt.Errorf("mount the variables of the firmware: %w", err)
	}
	defer func() { err = errors.Join(err, sys.Unmount(dir, 0)) }()
	b, err := os.ReadFile(filepath.Join(dir, data.LoaderVariable))
	if errors.Is(err, os.ErrNotExist) {
		return "", nil // started from the network or by the firmware's own shell
	}
	if err != nil {
		return "", err
	}
	return data.ParseLoaderVariable(b)
}
