package image

import (
	"context"
	"path/filepath"

	"garboard.local/builder/store"
)

// QCOW2 writes a disk image in QEMU's format and returns its path in the store.
// Only clusters with something in them are written, in order (-W is off).
func QCOW2(ctx context.Context, st *store.Store, run Run, toolKey, raw string) (file string, cached bool, err error) {
	// A disk image lies in the store below the key of its inputs, which is
	// quicker to compare than gigabytes of zeros.
	key := store.Key("qcow2 1", toolKey, filepath.Base(filepath.Dir(raw)))
	dir, cached, err := st.Action(ctx, key, func(_ context.Context, dir string) error {
		cmd := run("qemu-img", "convert", "-f", "raw", "-O", "qcow2", "-o", "compat=1.1,cluster_size=65536", raw, filepath.Join(dir, "disk.qcow2"))
		if out, err := cmd.CombinedOutput(); err != nil {
			return toolError("qemu-img", err, out, 0)
		}
		return nil
	})
	return filepath.Join(dir, "disk.qcow2"), cached, err
}
