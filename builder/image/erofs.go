package image

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"garboard.local/builder/rootfs"
	"garboard.local/builder/store"
)

// Compression is how hard the root image is compressed.
type Compression struct {
	Name      string
	Algorithm string // mkfs.erofs -z
	Cluster   int    // bytes; the larger, the smaller the image and the more a random read decompresses
	Extra     []string
}

// The two settings. Figures are in docs/benchmarks.md.
var (
	Fast  = Compression{Name: "fast", Algorithm: "lz4hc,9", Cluster: 64 << 10}
	Small = Compression{Name: "small", Algorithm: "zstd,15", Cluster: 256 << 10, Extra: []string{"-Efragments,dedupe"}}
)

// erofsUUID is fixed: an image's identity is its hash, and no two are ever mounted by UUID.
const erofsUUID = "67617262-6f61-7264-8000-726f6f746673"

// workers is fixed because mkfs.erofs lays data out by the number of its threads.
const workers = 2

// EROFS writes the tree as a compressed read-only EROFS image and returns its
// path in the store. An image of the same tree and setting is not made twice.
func EROFS(ctx context.Context, st *store.Store, run Run, toolKey string, t *rootfs.Tree, c Compression, epoch time.Time) (file string, cached bool, err error) {
	args := append([]string{
		"--quiet", "--tar=f", "-z" + c.Algorithm, "-C" + strconv.Itoa(c.Cluster),
		"-T" + strconv.FormatInt(epoch.Unix(), 10), "-U" + erofsUUID, "--workers=" + strconv.Itoa(workers),
	}, c.Extra...)
	key := store.Key("erofs 3", toolKey, t.Key(), strings.Join(args, " "))
	dir, cached, err := st.Action(ctx, key, func(ctx context.Context, dir string) error {
		tarFile := filepath.Join(dir, "root.tar")
		f, err := os.Create(tarFile)
		if err != nil {
			return err
		}
		if err := errors.Join(t.WriteTar(f, epoch), f.Close()); err != nil {
			return err
		}
		cmd := umasked(run("mkfs.erofs", append(args, filepath.Join(dir, "root.erofs"), tarFile)...))
		if out, err := cmd.CombinedOutput(); err != nil {
			return toolError("mkfs.erofs", err, out, t.Size(), dir)
		}
		return os.Remove(tarFile)
	})
	return filepath.Join(dir, "root.erofs"), cached, err
}
