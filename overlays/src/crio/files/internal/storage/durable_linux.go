package storage

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// makeDurable writes everything that the file system of dir caches to its disk,
// so that a power cut loses nothing that was done there before: syncfs(2).
func makeDurable(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()

	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return fmt.Errorf("sync the file system of %s: %w", dir, err)
	}

	return nil
}
