package inspect

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"garboard.local/builder/report"
	"garboard.local/builder/rootfs"
)

func look(t *testing.T, p string, o Options) map[string]*Node {
	t.Helper()
	n, err := Path(context.Background(), p, o)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*Node{}
	n.Walk(func(p string, n *Node) { out[p] = n })
	return out
}

func write(t *testing.T, b []byte) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(p, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestFormats(t *testing.T) {
	root := erofsOf(t)
	plain := cpioOf(t, rootfs.FromBytes("root.erofs", 0o444, root, "test", "test"))
	early := append(cpioOf(t, file("init", "\x7fELF")), cpioOf(t, file("modules/order", "loop.ko\n"))...)
	both := append(append(bytes.Clone(plain), zstdOf(t, early)...), make([]byte, 300)...)
	uki := peOf([2]string{".cmdline", "quiet"}, [2]string{".initrd", string(both)}, [2]string{".linux", "MZ\x00\x00zimg" + strings.Repeat("k", 600)})
	raw := diskOf(t, uki, root)
	rawBytes, err := os.ReadFile(raw)
	if err != nil {
		t.Fatal(err)
	}
	const efi = "partition 1!/EFI/BOOT/BOOTX64.EFI"
	for _, c := range []struct {
		name, path, format string
		want               map[string]string // path -> format, "size N" or "-> link" or text
	}{
		{"EROFS", write(t, root), "EROFS", map[string]string{"usr/hello": "size 6", "link": "-> usr/hello"}},
		{"cpio", write(t, plain), "initramfs, cpio", map[string]string{"root.erofs": "EROFS", "root.erofs!/usr/hello": "size 6"}},
		{"two archives in one frame", write(t, zstdOf(t, early)), "initramfs, cpio, zstd", map[string]string{"init": "size 4", "modules/order": "loop.ko\n"}},
		{"gzip", write(t, gzipOf(t, early)), "initramfs, cpio, gzip", map[string]string{"init": "size 4", "modules/order": "loop.ko\n"}},
		{"something else in gzip", write(t, cpioOf(t, file("page.gz", string(gzipOf(t, []byte("a page of a manual")))))), "initramfs, cpio",
			map[string]string{"page.gz": fmt.Sprintf("size %d", len(gzipOf(t, []byte("a page of a manual"))))}},
		{"archives one after the other", write(t, append(both, gzipOf(t, cpioOf(t, file("etc/hostname", "edge\n")))...)), "initramfs",
			map[string]string{"archive 1!/root.erofs!/link": "-> usr/hello", "archive 2!/init": "size 4", "archive 2!/modules/order": "loop.ko\n", "archive 3!/etc/hostname": "edge\n"}},
		{"UKI", write(t, uki), "Unified Kernel Image, x64", map[string]string{".cmdline": "quiet", ".linux": "kernel, EFI zboot", ".initrd!/archive 2!/init": "size 4"}},
		{"disk", raw, "GPT disk", map[string]string{efi: "Unified Kernel Image, x64", efi + "!/.initrd!/archive 1!/root.erofs!/usr/hello": "size 6", "partition 2": "EROFS", "partition 2!/link": "-> usr/hello"}},
		{"qcow2", write(t, qcow2Of(rawBytes)), "qcow2, GPT disk", map[string]string{efi: "Unified Kernel Image, x64", "partition 2!/usr/hello": "size 6"}},
		{"ISO", isoOf(t), "ISO 9660", map[string]string{"cmdline.txt": "quiet\n"}},
		{"text", write(t, []byte("console=ttyS0\n")), "text", nil},
	} {
		got := look(t, c.path, Options{})
		if got[""].Format != c.format {
			t.Errorf("%s: it is %q, want %q", c.name, got[""].Format, c.format)
		}
		for p, want := range c.want {
			n := got[p]
			if n == nil {
				var have []string
				for k := range got {
					have = append(have, k)
				}
				t.Errorf("%s: no %s; there are %q", c.name, p, have)
				continue
			}
			switch {
			case strings.HasPrefix(want, "size "):
				if fmt.Sprint("size ", n.Size) != want {
					t.Errorf("%s: %s has size %d, want %s", c.name, p, n.Size, want)
				}
			case strings.HasPrefix(want, "-> "):
				if "-> "+n.Link != want {
					t.Errorf("%s: %s leads to %q, want %s", c.name, p, n.Link, want)
				}
			case n.Format != want && n.Text != want:
				t.Errorf("%s: %s is %q with text %q, want %q", c.name, p, n.Format, n.Text, want)
			}
		}
		for p, n := range got {
			if n.Note != "" {
				t.Errorf("%s: %s: %s", c.name, p, n.Note)
			}
		}
	}
}

func TestDamageIsSaid(t *testing.T) {
	plain := cpioOf(t, file("a", strings.Repeat("x", 1000)))
	for name, b := range map[string][]byte{
		"half a file":        plain[:700],
		"half a zstd frame":  zstdOf(t, plain)[:20],
		"half a gzip member": gzipOf(t, plain)[:20],
		"neither":            append(bytes.Clone(plain), "what is this"...),
		"a bad header":       append([]byte("070701"), bytes.Repeat([]byte("z"), 200)...),
		"no format":          {1, 2, 3},
		"nothing":            {},
	} {
		if n, err := Path(context.Background(), write(t, b), Options{}); err == nil {
			t.Errorf("%s: no error, but %+v", name, n)
		}
	}
	// Partition tables that would keep the library busy for ever.
	raw, err := os.ReadFile(diskOf(t, []byte("MZ"), erofsOf(t)))
	if err != nil {
		t.Fatal(err)
	}
	for off, v := range map[int]uint32{84: 0, 80: 1 << 31, 72: 1 << 30, 12: 0} {
		b := bytes.Clone(raw[:1<<20])
		binary.LittleEndian.PutUint32(b[512+off:], v)
		binary.LittleEndian.PutUint32(b[512+16:], 0)
		binary.LittleEndian.PutUint32(b[512+16:], crc32.ChecksumIEEE(b[512:512+92]))
		if _, err := Path(context.Background(), write(t, b), Options{}); err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("a partition table with %d at byte %d of its header: %v", v, off, err)
		}
	}
	// Inside something sound it is a note, and the rest is shown.
	got := look(t, write(t, peOf([2]string{".initrd", string(plain[:700])}, [2]string{".cmdline", "quiet"})), Options{})
	if got[".initrd"].Note == "" || got[".cmdline"].Text != "quiet" {
		t.Errorf("damage inside: %+v, %+v", got[".initrd"], got[".cmdline"])
	}
	q := qcow2Of(bytes.Repeat([]byte{1}, 1<<17))
	binary.BigEndian.PutUint64(q[2*65536:], 1<<62|65536)
	if _, err := Path(context.Background(), write(t, q), Options{}); err == nil || !strings.Contains(err.Error(), "qemu-img convert") {
		t.Errorf("compressed clusters: %v", err)
	}
}

func TestHashes(t *testing.T) {
	root := erofsOf(t)
	p := write(t, cpioOf(t, rootfs.FromBytes("root.erofs", 0o444, root, "test", "test"), file("a", "abc")))
	o := Options{Hash: true, Extract: func(_ context.Context, img, dir string) error {
		b, err := os.ReadFile(img)
		if err != nil || !bytes.Equal(b, root) {
			t.Errorf("to unpack: %d bytes, %v", len(b), err)
		}
		if err := os.MkdirAll(filepath.Join(dir, "usr"), 0o755); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, "usr/hello"), []byte("abc"), 0o644)
	}}
	got := look(t, p, o)
	const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	if got["a"].SHA256 != abc || got["root.erofs!/usr/hello"].SHA256 != abc {
		t.Errorf("hashes %q, %q", got["a"].SHA256, got["root.erofs!/usr/hello"].SHA256)
	}
}

func TestAnnotate(t *testing.T) {
	n, err := Path(context.Background(), write(t, append(cpioOf(t, rootfs.FromBytes("root.erofs", 0o444, erofsOf(t), "x", "x")), zstdOf(t, cpioOf(t, file("init", "abc")))...)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	Annotate(n, &report.Manifest{
		Root:  []*rootfs.Entry{{Path: "usr/hello", Kind: rootfs.File, Size: 6, Origin: "deb hello 1", Reason: "greets"}, {Path: "link", Kind: rootfs.File, Size: 9, Origin: "o", Reason: "r"}},
		Early: []*rootfs.Entry{{Path: "init", Kind: rootfs.File, Size: 3, Origin: "garboard init/main", Reason: "PID 1"}},
	})
	got := map[string]*Node{}
	n.Walk(func(p string, n *Node) { got[p] = n })
	if h := got["archive 1!/root.erofs!/usr/hello"]; h.Origin != "deb hello 1" || h.Reason != "greets" || h.Note != "" {
		t.Errorf("%+v", h)
	}
	if got["archive 2!/init"].Reason != "PID 1" || got["archive 1!/root.erofs"].Reason != "the root image" {
		t.Errorf("%+v, %+v", got["archive 2!/init"], got["archive 1!/root.erofs"])
	}
	if got["archive 1!/root.erofs!/link"].Note == "" {
		t.Error("a link that the manifest calls a file gets no note")
	}
}

// TestOutputs reads what real builds wrote and wants in it every file that the
// manifest lists, as the manifest has it.
func TestOutputs(t *testing.T) {
	dir := os.Getenv("GARBOARD_IMAGES")
	if dir == "" {
		t.Log("GARBOARD_IMAGES names no outputs: only what this test makes is read")
		return
	}
	manifests, _ := filepath.Glob(filepath.Join(dir, "*", report.ManifestName))
	if len(manifests) == 0 {
		t.Fatalf("no outputs in %s", dir)
	}
	for _, mf := range manifests {
		m, err := report.ReadManifest(filepath.Dir(mf))
		if err != nil {
			t.Fatal(err)
		}
		initrd := filepath.Join(filepath.Dir(mf), "initramfs.img")
		if _, err := os.Stat(initrd); err != nil {
			continue
		}
		got := look(t, initrd, Options{})
		for prefix, entries := range map[string][]*rootfs.Entry{"archive 1!/root.erofs!/": m.Root, "archive 2!/": m.Early} {
			for _, e := range entries {
				n := got[prefix+e.Path]
				if n == nil || string(n.Kind) != string(e.Kind) || e.Kind == rootfs.File && n.Size != e.Size || n.Mode != e.Mode || n.Link != e.Link || n.UID != e.UID || n.GID != e.GID {
					t.Errorf("%s: /%s is %+v in the image and %+v in the manifest", initrd, e.Path, n, e)
				}
			}
		}
		files, _ := filepath.Glob(filepath.Join(filepath.Dir(mf), "*"))
		for _, f := range files {
			for p, n := range look(t, f, Options{}) {
				if n.Note != "" {
					t.Errorf("%s: %s: %s", f, p, n.Note)
				}
			}
		}
	}
}

func FuzzInitramfs(f *testing.F) {
	f.Add([]byte("070701" + strings.Repeat("0", 88) + "00000002" + "00000000a\x00"))
	f.Add([]byte("\x28\xb5\x2f\xfd\x04\x00\x01\x00\x00"))
	f.Add([]byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x00"))
	fuzz(f, (*inspector).initramfs)
}

func FuzzQCOW2(f *testing.F) {
	f.Add(qcow2Of([]byte("07070100"))[:70000])
	fuzz(f, (*inspector).qcow2)
}

func FuzzPE(f *testing.F) {
	f.Add(peOf([2]string{".cmdline", "quiet"}))
	fuzz(f, (*inspector).pe)
}

// fuzz wants no panic and no endless loop of our own code: guard is not in the way.
func fuzz(f *testing.F, read func(in *inspector, n *Node, r io.ReaderAt, depth int) error) {
	f.Fuzz(func(t *testing.T, b []byte) {
		in := &inspector{ctx: context.Background()}
		n := &Node{Name: "x", Size: int64(len(b))}
		if err := read(in, n, bytes.NewReader(b), maxDepth-1); err == nil && n.Size != int64(len(b)) {
			t.Error("the size changed")
		}
	})
}
