package builder

import (
	"os"
	"path/filepath"
	"testing"

	"garboard.local/builder/rootfs"
	"garboard.local/kernel"
)

// What is listed of a kernel's image is what lies in ours: the kernel and its modules.
func TestListKernelImage(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "vmlinuz"), make([]byte, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	const origin = "oci linuxkit/kernel:6 sha256:ab"
	tree, early := rootfs.New(), rootfs.New()
	for _, e := range []struct {
		to   *rootfs.Tree
		path string
		from string
	}{{tree, "a.ko", origin}, {early, "b.ko", origin}, {tree, "modules.dep", "depmod"}} {
		if err := e.to.Add(rootfs.FromBytes(e.path, 0o644, []byte("12345"), e.from, "r")); err != nil {
			t.Fatal(err)
		}
	}
	b := &build{tree: tree, early: early, kernel: &kernel.Kernel{Origin: origin, Version: "6.12.52", Dir: dir}}
	if err := b.listKernelImage(); err != nil {
		t.Fatal(err)
	}
	if k := b.kernelImage; k == nil || k.Name != "linuxkit/kernel:6" || k.Digest != "sha256:ab" || k.Version != "6.12.52" || k.Files != 3 || k.Bytes != 110 {
		t.Errorf("%+v", k)
	}
	b.kernelImage, b.kernel.Origin = nil, "deb linux-image-6.12.1-amd64 6.12.1-1"
	if err := b.listKernelImage(); err != nil || b.kernelImage != nil {
		t.Errorf("a kernel out of a Debian package: %+v, %v", b.kernelImage, err)
	}
}
