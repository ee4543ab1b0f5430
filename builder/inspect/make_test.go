package inspect

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
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
