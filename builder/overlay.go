package builder

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"garboard.local/builder/recipe"
	"garboard.local/builder/rootfs"
)

// walkOverlay gives add every entry of an overlay's directory. Modes are 0644, or
// 0755 for what is executable: a umask must not reach the image.
func walkOverlay(o recipe.Overlay, add func(rootfs.Entry) error) error {
	return filepath.WalkDir(o.Path, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(o.Path, p)
		if err != nil || rel == "." {
			return err
		}
		e := rootfs.Entry{Path: path.Join(o.Target, filepath.ToSlash(rel)), Kind: rootfs.Dir, Mode: 0o755}
		switch d.Type() {
		case fs.ModeDir:
		case fs.ModeSymlink:
			e.Kind, e.Mode = rootfs.Symlink, 0o777
			if e.Link, err = os.Readlink(p); err != nil {
				return err
			}
		case 0:
			fi, err := d.Info()
			if err != nil {
				return err
			}
			mode := uint32(0o644)
			if fi.Mode()&0o100 != 0 {
				mode = 0o755
			}
			if e, err = rootfs.FromFile(e.Path, mode, p, "", "", o.Reason); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%s is neither a file nor a directory nor a link", p)
		}
		e.Origin, e.Reason = "overlay "+filepath.Base(o.Path), o.Reason
		return add(e)
	})
}
