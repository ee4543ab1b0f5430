package qemu

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	disks "garboard.local/builder/image"
	"garboard.local/builder/rootfs"
)

// given is the host's name that archives behind the initramfs give a node.
const given = "laid-over"

// withArchives is an initramfs with three archives behind it, as a boot loader
// appends them: plain, compressed, and plain again behind padding. The first names
// the host wrongly, which the last one overrides; the second lays another manifest
// of the hello pod over the image's, whose container is called given.
func withArchives(t *testing.T, initrd string) string {
	t.Helper()
	manifest, err := os.ReadFile("../overlays/rootfs/hello/etc/kubernetes/manifests/hello.yaml")
	if err != nil {
		t.Fatal(err)
	}
	archive := func(w io.Writer, path, content string) error {
		tree := rootfs.New()
		if err := tree.Add(rootfs.FromBytes(path, 0o644, []byte(content), "test", "test")); err != nil {
			return err
		}
		return disks.WriteCPIO(w, tree, time.Unix(0, 0))
	}
	b, err := os.ReadFile(initrd)
	if err != nil {
		t.Fatalf("%v: %s", err, buildFirst)
	}
	out := bytes.NewBuffer(b)
	err = archive(out, "/etc/hostname", "overridden\n")
	z := gzip.NewWriter(out)
	err = errors.Join(err, archive(z, "/etc/kubernetes/manifests/hello.yaml", strings.Replace(string(manifest), "    - name: hello", "    - name: given", 1)), z.Close())
	out.Write(make([]byte, 1024-out.Len()%512))
	err = errors.Join(err, archive(out, "/etc/hostname", given+"\n"))
	file := filepath.Join(t.TempDir(), "initramfs.img")
	if err := errors.Join(err, os.WriteFile(file, out.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
	return file
}
