package data

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"garboard.local/builder/source/debian"
)

const (
	mib    = int64(1) << 20
	sector = int64(512)
)

// write is one write to a volume; each is followed by a sync, which the
// recorder demands.
type write struct {
	off  int64
	data []byte
}

// recorder is a file that remembers its writes.
type recorder struct {
	*os.File
	t      *testing.T
	dirty  bool
	writes []write
}

func (r *recorder) WriteAt(b []byte, off int64) (int, error) {
	if r.dirty {
		r.t.Errorf("write at %d before the one before it was synced", off)
	}
	r.dirty = true
	r.writes = append(r.writes, write{off, bytes.Clone(b)})
	return r.File.WriteAt(b, off)
}

func (r *recorder) Sync() error { r.dirty = false; return nil }

// memory is a small disk in memory, for the fuzz tests.
type memory struct {
	volume
	b []byte
}

func (m memory) ReadAt(b []byte, off int64) (int, error) {
	return bytes.NewReader(m.b).ReadAt(b, off)
}

func (m memory) Seek(off int64, whence int) (int64, error) {
	return bytes.NewReader(m.b).Seek(off, whence)
}

// sparse makes an image of that size.
func sparse(t *testing.T, size int64) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "disk.raw"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	return f
}

// replay applies writes to a fresh image: all of the first n, and of the next
// one the first torn bytes.
func replay(t *testing.T, start func() *os.File, writes []write, n int, torn int64) *os.File {
	t.Helper()
	f := start()
	for i, w := range writes[:min(n+1, len(writes))] {
		b := w.data
		if i == n {
			b = b[:min(torn, int64(len(b)))]
		}
		if _, err := f.WriteAt(b, w.off); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// pinned runs a pinned host tool; ok is false in the quick tests, where other
// programs' judgement is left to `garboard test node`.
func pinned(t *testing.T, tool string, args ...string) (out string, ok bool, err error) {
	t.Helper()
	root := os.Getenv("GARBOARD_TOOLS")
	if root == "" {
		if !testing.Short() {
			t.Fatal("$GARBOARD_TOOLS is not set; run `garboard test node`, or go test -short")
		}
		return "", false, nil
	}
	cmd := debian.Command(context.Background(), root, tool, args...)
	b, err := cmd.CombinedOutput()
	return string(b), true, err
}

func sgdiskClean(t *testing.T, f *os.File) {
	t.Helper()
	if out, ok, err := pinned(t, "sgdisk", "-v", f.Name()); ok && (err != nil || !strings.Contains(out, "No problems found")) {
		t.Errorf("sgdisk -v: %v\n%s", err, out)
	}
}

// machine is a Manager over a made-up /sys and /dev with image files as disks.
type machine struct {
	*Manager
	t    *testing.T
	said []string
	ran  []string
	set  []string
	// answers to programs by base name; without one a program is not run and the test fails
	tools map[string]func(argv []string) Result
}

func newMachine(t *testing.T) *machine {
	m := &machine{t: t, tools: map[string]func([]string) Result{}}
	dir := t.TempDir()
	m.Manager = &Manager{Limits: Limits{Probe: time.Minute, Make: time.Minute, Check: time.Minute, Mend: time.Minute, Grow: time.Minute}, Sys: filepath.Join(dir, "sys"), Dev: filepath.Join(dir, "dev"), Kernel: m,
		Printf: func(f string, a ...any) { m.said = append(m.said, fmt.Sprintf(f, a...)) },
		Run: func(_ context.Context, argv ...string) (Result, error) {
			m.ran = append(m.ran, filepath.Base(argv[0])+" "+strings.Join(argv[1:], " "))
			f := m.tools[filepath.Base(argv[0])]
			if f == nil {
				t.Errorf("unexpected: %q", argv)
				return Result{}, exec.ErrNotFound
			}
			return f(argv), nil
		}}
	if err := os.MkdirAll(m.Dev, 0o755); err != nil {
		t.Fatal(err)
	}
	m.tools["blkid"] = func([]string) Result { return Result{Status: 2} }
	m.tools["mke2fs"] = func(argv []string) Result { return m.mkfs(argv[len(argv)-1]) }
	m.tools["e2fsck"] = func([]string) Result { return Result{} }
	return m
}

// mkfs leaves a superblock of the device's size.
func (m *machine) mkfs(dev string) Result {
	f, err := os.OpenFile(dev, os.O_RDWR, 0)
	if err != nil {
		return Result{Status: 1, Output: err.Error()}
	}
	defer f.Close()
	size, _ := f.Seek(0, io.SeekEnd)
	_, err = f.WriteAt(super(uint64(size/4096)), superOffset)
	if err != nil {
		return Result{Status: 1, Output: err.Error()}
	}
	return Result{}
}

// super is a superblock with blocks of 4 KiB.
func super(blocks uint64) []byte {
	b := make([]byte, 1024)
	copy(b[0x4:], []byte{byte(blocks), byte(blocks >> 8), byte(blocks >> 16), byte(blocks >> 24)})
	b[0x18] = 2
	b[0x38], b[0x39] = 0x53, 0xef
	return b
}

func (m *machine) sysfile(rel, text string) {
	p := filepath.Join(m.Sys, rel)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text+"\n"), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

// disk puts an image in as /dev/name.
func (m *machine) disk(name, image string) {
	st, err := os.Stat(image)
	if err != nil {
		m.t.Fatal(err)
	}
	dev := filepath.Join(m.Dev, name)
	os.Remove(dev)
	if err := os.Symlink(image, dev); err != nil {
		m.t.Fatal(err)
	}
	m.sysfile("block/"+name+"/size", fmt.Sprint(st.Size()/512))
	m.sysfile("block/"+name+"/queue/logical_block_size", "512")
	m.sysfile("block/"+name+"/device/model", "image")
	m.sysfile("block/"+name+"/serial", "S-"+name)
}

// SetPartition makes the partition a file of its own, once.
func (m *machine) SetPartition(disk string, number int, start, size int64, was *part) error {
	name := partName(filepath.Base(disk), number)
	m.set = append(m.set, fmt.Sprintf("%s %d+%d, was %v", name, start/mib, size/mib, was))
	f, err := os.OpenFile(filepath.Join(m.Dev, name), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		return err
	}
	dir := fmt.Sprintf("block/%s/%s/", filepath.Base(disk), name)
	m.sysfile(dir+"partition", fmt.Sprint(number))
	m.sysfile(dir+"start", fmt.Sprint(start/512))
	m.sysfile(dir+"size", fmt.Sprint(size/512))
	return nil
}

func (m *machine) Grow(string, uint64) error { m.set = append(m.set, "grow"); return nil }
func (m *machine) Sync(string) error         { m.set = append(m.set, "sync"); return nil }
