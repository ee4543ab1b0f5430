package settings

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"garboard.local/init/mounts"
	"garboard.local/init/table"
)

// Roots mounts the root directories of services that have container images, once for
// the process and for its hooks and probes, and gives them the files of /etc that PID 1
// writes. Volumes has removed what an earlier boot wrote into them.
func Roots(sys mounts.Syscalls, root string, list []table.Service) error {
	var errs []error
	any := false
	for _, s := range list {
		if s.Root == nil {
			continue
		}
		any = true
		if err := makeRoot(sys, root, s.Root); err != nil {
			errs = append(errs, fmt.Errorf("root of service %s (image %s): %w", s.Name, s.Root.Image, err))
		}
	}
	if any {
		errs = append(errs, copyEtc(root))
	}
	return errors.Join(errs...)
}

func makeRoot(sys mounts.Syscalls, root string, r *table.Root) error {
	var layers []string
	for _, l := range r.Layers {
		layers = append(layers, filepath.Join(root, l))
	}
	// A set-user-ID program of an image is not everybody's to run.
	if err := os.MkdirAll(filepath.Join(root, filepath.Dir(table.MemoryVolumeDir)), 0o755); err != nil {
		return err
	}
	at := filepath.Join(root, r.Path)
	if err := os.MkdirAll(at, 0o700); err != nil {
		return err
	}
	if _, err := os.Stat(layers[0]); err != nil {
		return err
	}
	lower := "lowerdir=" + strings.Join(layers, ":")
	if r.Writes == "" {
		return sys.Mount("root", at, "overlay", unix.MS_NODEV|unix.MS_RDONLY, lower)
	}
	upper, work := filepath.Join(root, r.Writes, "upper"), filepath.Join(root, r.Writes, "work")
	err := withRoom(root, func() error {
		return errors.Join(os.MkdirAll(filepath.Join(root, filepath.Dir(table.VolumeDir)), 0o755), os.MkdirAll(upper, 0o700), os.MkdirAll(work, 0o700))
	})
	if err == nil {
		err = alike(upper, layers[0])
	}
	if err == nil {
		err = sys.Mount("root", at, "overlay", unix.MS_NODEV, lower+",upperdir="+upper+",workdir="+work)
	}
	if err == nil {
		return nil
	}
	// A service that looks after the disk is of most use when that is full or broken.
	if rerr := sys.Mount("root", at, "overlay", unix.MS_NODEV|unix.MS_RDONLY, lower); rerr != nil {
		return errors.Join(err, rerr)
	}
	return fmt.Errorf("nothing can be written to it: %w", err)
}

// alike gives a directory the owner and mode of another: of merged directories the
// topmost one's are seen.
func alike(dir, as string) error {
	fi, err := os.Stat(as)
	if err != nil {
		return err
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok && (st.Uid != uint32(os.Geteuid()) || st.Gid != uint32(os.Getegid())) {
		if err := os.Lchown(dir, int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	return os.Chmod(dir, fi.Mode()&(os.ModePerm|os.ModeSticky|os.ModeSetgid))
}

// copyEtc copies what /etc has of the files that WriteEtc writes, before it does.
func copyEtc(root string) error {
	if err := os.MkdirAll(filepath.Join(root, table.EtcDir), 0o755); err != nil {
		return err
	}
	var errs []error
	for _, name := range table.EtcFiles() {
		text, err := os.ReadFile(filepath.Join(root, "etc", name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			err = WriteFile(filepath.Join(root, table.EtcDir, name), string(text), 0o644)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// WriteEtc replaces a file in /etc, and its copy for services with roots of their own.
func WriteEtc(root, name, text string) error {
	err := WriteFile(filepath.Join(root, "etc", name), text, 0o644)
	if _, serr := os.Stat(filepath.Join(root, table.EtcDir)); serr != nil {
		return err // there are none
	}
	return errors.Join(err, WriteFile(filepath.Join(root, table.EtcDir, name), text, 0o644))
}
