package inspect

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/diskfs/go-diskfs"
	"github.com/diskfs/go-diskfs/disk"
	"github.com/diskfs/go-diskfs/filesystem"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"
	"github.com/diskfs/go-diskfs/partition/gpt"
	"github.com/erofs/go-erofs"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"garboard.local/builder/image"
	"garboard.local/builder/report"
	"garboard.local/builder/rootfs"
)

func tree(t *testing.T, files ...rootfs.Entry) *rootfs.Tree {
	t.Helper()
	tr := rootfs.New()
	for _, e := range files {
		if err := tr.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	return tr
}

func file(p, body string) rootfs.Entry {
	return rootfs.FromBytes(p, 0o640, []byte(body), "test", "test")
}

func cpioOf(t *testing.T, files ...rootfs.Entry) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := image.WriteCPIO(&b, tree(t, files...), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zstdOf(t *testing.T, b []byte) []byte {
	t.Helper()
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return z.EncodeAll(b, nil)
}

func gzipOf(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func erofsOf(t *testing.T) []byte {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "x.erofs"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := erofs.Create(f)
	if err := w.Mkdir("/usr", 0o755); err != nil {
		t.Fatal(err)
	}
	e, err := w.Create("/usr/hello")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Write([]byte("hello\n")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(e.Close(), w.Symlink("usr/hello", "/link"), w.Close()); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// peOf is a program with the given sections: headers as debug/pe wants them, no optional one.
func peOf(sections ...[2]string) []byte {
	le := binary.LittleEndian
	b := make([]byte, 64)
	copy(b, "MZ")
	le.PutUint32(b[0x3c:], 64)
	b = append(b, "PE\x00\x00"...)
	coff := make([]byte, 20)
	le.PutUint16(coff, 0x8664)
	le.PutUint16(coff[2:], uint16(len(sections)))
	b = append(b, coff...)
	off := (len(b) + 40*len(sections) + 511) &^ 511
	var data []byte
	for _, s := range sections {
		h := make([]byte, 40)
		copy(h, s[0])
		raw := (len(s[1]) + 511) &^ 511
		le.PutUint32(h[8:], uint32(len(s[1])))
		le.PutUint32(h[16:], uint32(raw))
		le.PutUint32(h[20:], uint32(off+len(data)))
		le.PutUint32(h[36:], 0x40000040)
		b = append(b, h...)
		data = append(append(data, s[1]...), make([]byte, raw-len(s[1]))...)
	}
	return append(append(b, make([]byte, off-len(b))...), data...)
}

// diskOf has a FAT file system with an EFI program and a partition with a root image.
func diskOf(t *testing.T, efi, root []byte) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), "disk")
	d, err := diskfs.Create(p, 64<<20, diskfs.SectorSizeDefault)
	if err != nil {
		t.Fatal(err)
	}
	table := &gpt.Table{LogicalSectorSize: 512, PhysicalSectorSize: 512, ProtectiveMBR: true, Partitions: []*gpt.Partition{
		{Index: 1, Start: 2048, Size: 40 << 20, Type: gpt.EFISystemPartition, Name: "esp"},
		{Index: 2, Start: 2048 + 40<<11, Size: 8 << 20, Type: gpt.LinuxRootX86_64, Name: "root"},
	}}
	if err := d.Partition(table); err != nil {
		t.Fatal(err)
	}
	fsys, err := d.CreateFilesystem(disk.FilesystemSpec{Partition: 1, FSType: filesystem.TypeFat32})
	if err != nil {
		t.Fatal(err)
	}
	if err := fsys.Mkdir("/EFI/BOOT"); err != nil {
		t.Fatal(err)
	}
	f, err := fsys.OpenFile("/EFI/BOOT/BOOTX64.EFI", os.O_CREATE|os.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(efi); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Close(), fsys.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := d.WritePartitionContents(2, bytes.NewReader(append(bytes.Clone(root), make([]byte, 8<<20-len(root))...))); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return p
}

// qcow2Of is a version 3 image of a disk, with clusters of 64 KiB, those of zeros left out.
func qcow2Of(raw []byte) []byte {
	const cluster = 64 << 10
	be := binary.BigEndian
	clusters := (len(raw) + cluster - 1) / cluster
	per := cluster / 8
	l1 := make([]byte, cluster)
	out := make([]byte, 2*cluster) // header, first table
	var l2 []byte
	l2At := 0
	for i := range clusters {
		if i%per == 0 {
			l2At = len(out)
			out = append(out, make([]byte, cluster)...)
			be.PutUint64(l1[i/per*8:], uint64(l2At)|1<<63)
		}
		c := raw[i*cluster : min((i+1)*cluster, len(raw))]
		if len(bytes.Trim(c, "\x00")) == 0 {
			continue
		}
		l2 = out[l2At : l2At+cluster]
		be.PutUint64(l2[i%per*8:], uint64(len(out))|1<<63)
		out = append(append(out, c...), make([]byte, cluster-len(c))...)
	}
	copy(out, "QFI\xfb")
	be.PutUint32(out[4:], 3)
	be.PutUint32(out[20:], 16)
	be.PutUint64(out[24:], uint64(len(raw)))
	be.PutUint32(out[36:], uint32((clusters+per-1)/per))
	be.PutUint64(out[40:], cluster)
	be.PutUint32(out[100:], 104)
	copy(out[cluster:], l1)
	return out
}

func isoOf(t *testing.T) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), "x.iso")
	d, err := diskfs.Create(p, 4<<20, diskfs.SectorSize(2048))
	if err != nil {
		t.Fatal(err)
	}
	d.LogicalBlocksize = 2048
	fsys, err := d.CreateFilesystem(disk.FilesystemSpec{FSType: filesystem.TypeISO9660, VolumeLabel: "GARBOARD"})
	if err != nil {
		t.Fatal(err)
	}
	f, err := fsys.OpenFile("/cmdline.txt", os.O_CREATE|os.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("quiet\n")); err != nil {
		t.Fatal(err)
	}
	if err := fsys.(*iso9660.FileSystem).Finalize(iso9660.FinalizeOptions{RockRidge: true}); err != nil {
		t.Fatal(err)
	}
	return p
}

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
