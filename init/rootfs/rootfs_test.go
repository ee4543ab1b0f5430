package rootfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestLoadModulesInOrder(t *testing.T) {
	dir := t.TempDir()
	order := "loop.ko\nnetfs.ko\n../evil.ko\nhv_vmbus.ko\nscsi.ko\nhv_storvsc.ko scsi.ko hv_vmbus.ko\nmore.ko hv_storvsc.ko\n\nerofs.ko netfs.ko\n"
	if err := os.WriteFile(filepath.Join(dir, "order"), []byte(order), 0o644); err != nil {
		t.Fatal(err)
	}
	var got []string
	err := LoadModules(dir, func(p string) error {
		got = append(got, filepath.Base(p))
		switch filepath.Base(p) {
		case "netfs.ko":
			return errors.New("exec format error")
		case "hv_vmbus.ko":
			return fmt.Errorf("finit_module: %w", unix.ENODEV)
		}
		return nil
	})
	if want := []string{"loop.ko", "netfs.ko", "hv_vmbus.ko", "scsi.ko", "erofs.ko"}; !slices.Equal(got, want) {
		t.Errorf("loaded %q, want %q: one bad module must not stop the rest, one without a device only those that need it", got, want)
	}
	if err == nil || !strings.Contains(err.Error(), "netfs.ko") || !strings.Contains(err.Error(), "evil.ko") || strings.Contains(err.Error(), "hv_") {
		t.Errorf("error does not name both: %v", err)
	}
}

func TestNoOrderFileMeansNothingToLoad(t *testing.T) {
	if err := LoadModules(t.TempDir(), func(string) error { return errors.New("called") }); err != nil {
		t.Error(err)
	}
}
