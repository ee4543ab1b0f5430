package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"garboard.local/builder/rootfs"
)

// writeExt4 makes the data partition's file system in a range of a disk image,
// as a node would (init/data), with a tree in it. mke2fs reads the tree as a tar
// archive, which keeps owners without root; its configuration is given, or the
// host's would decide.
func writeExt4(ctx context.Context, disk string, p Partition, tree *rootfs.Tree, id string, epoch time.Time, run Run) error {
	if n := tree.Size(); n > p.Size {
		return fmt.Errorf("data partition: its content has %.1f MiB, the partition only %d MiB; a larger dataSize helps", float64(n)/float64(MiB), p.Size/MiB)
	}
	dir, err := os.MkdirTemp(filepath.Dir(disk), "ext4-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	archive, config := filepath.Join(dir, "content.tar"), filepath.Join(dir, "mke2fs.conf")
	f, err := os.Create(archive)
	if err != nil {
		return err
	}
	if err := errors.Join(tree.WriteTar(f, epoch), f.Close(), os.WriteFile(config, []byte(mke2fsConf), 0o644)); err != nil {
		return fmt.Errorf("content of the data partition: %w", err)
	}
	cmd := run("mke2fs", "-q", "-F", "-t", "ext4", "-L", p.Name, "-m", "1", "-e", "remount-ro", "-U", id,
		"-E", fmt.Sprintf("hash_seed=%s,offset=%d,root_owner=0:0,nodiscard", id, p.Start), "-d", archive, disk, strconv.FormatInt(p.Size>>10, 10)+"k")
	cmd.Env = append(cmd.Environ(), sourceDate+"="+strconv.FormatInt(epoch.Unix(), 10), "MKE2FS_CONFIG="+config, "TZ=UTC", "LC_ALL=C")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("data partition of %d MiB, content of %.1f MiB, a larger dataSize may help: %w", p.Size/MiB, float64(tree.Size())/float64(MiB), toolError("mke2fs", err, out, tree.Size(), dir))
	}
	return ctx.Err()
}

// mke2fsConf is what Debian's mke2fs.conf, which nodes have, says of ext4.
const mke2fsConf = `[defaults]
	base_features = sparse_super,large_file,filetype,resize_inode,dir_index,ext_attr
	default_mntopts = acl,user_xattr
	enable_periodic_fsck = 0
	blocksize = 4096
	inode_size = 256
	inode_ratio = 16384

[fs_types]
	ext4 = {
		features = has_journal,extent,huge_file,flex_bg,metadata_csum,metadata_csum_seed,64bit,dir_nlink,extra_isize,orphan_file
	}
`
