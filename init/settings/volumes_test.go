package settings

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"garboard.local/init/table"
)

// mounted notes what is mounted instead of doing it.
type mounted struct {
	list []string
	err  error
}

func (m *mounted) Mount(source, target, fstype string, flags uintptr, data string) error {
	m.list = append(m.list, fmt.Sprintf("%s %s %s %#x %s", source, filepath.Base(target), fstype, flags, data))
	return m.err
}

func (m *mounted) Unmount(string, int) error { return errors.New("nothing is unmounted here") }

func TestVolumes(t *testing.T) {
	root := t.TempDir()
	list := []table.Volume{
		{Path: table.VolumeDir + "/ns_p/work", Dirs: []string{table.VolumeDir + "/ns_p/work/sub"}},
		{Path: table.MemoryVolumeDir + "/ns_p/fast", Memory: true},
		{Path: table.MemoryVolumeDir + "/ns_p/small", Memory: true, Size: 4096},
	}
	kernel := &mounted{}
	if err := Volumes(kernel, root, list); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(kernel.list, "; "); got != "volume fast tmpfs 0x6 mode=1777,nr_inodes=64k,size=10%; volume small tmpfs 0x6 mode=1777,nr_inodes=64k,size=4096" {
		t.Errorf("mounts %s", got)
	}
	for p, want := range map[string]os.FileMode{
		"var/lib/garboard": 0o755, table.VolumeDir: 0o700, "run/garboard": 0o755, table.MemoryVolumeDir: 0o700,
		table.VolumeDir + "/ns_p/work": 0o777, table.VolumeDir + "/ns_p/work/sub": 0o777,
	} {
		if fi, err := os.Stat(filepath.Join(root, p)); err != nil || fi.Mode().Perm() != want {
			t.Errorf("%s: %v %v, want %v", p, fi, err, want)
		}
	}

	// The next boot finds them empty; what was in them goes later.
	file := filepath.Join(root, table.VolumeDir, "ns_p/work/file")
	for range 2 { // also if it could not be removed the last time
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Volumes(&mounted{}, root, list); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a file of the boot before: %v", err)
		}
	}
	aside, _ := filepath.Glob(filepath.Join(root, "var/lib/garboard/pods.old-*/ns_p/work/file"))
	if len(aside) != 2 {
		t.Errorf("moved aside: %q", aside)
	}
	keep := filepath.Join(root, "var/lib/garboard/other")
	if err := os.WriteFile(keep, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Leftovers(root); err != nil {
		t.Fatal(err)
	}
	left, _ := filepath.Glob(filepath.Join(root, "var/lib/garboard/*"))
	if len(left) != 2 { // pods and other
		t.Errorf("left: %q", left)
	}
}

// A volume of a group belongs to it, and so does what is made in it later.
func TestVolumesOfAGroup(t *testing.T) {
	root := t.TempDir()
	group := uint32(os.Getegid())
	if os.Geteuid() == 0 {
		group = 4000
	}
	list := []table.Volume{
		{Path: table.VolumeDir + "/p/work", Dirs: []string{table.VolumeDir + "/p/work/sub"}, Group: &group},
		{Path: table.MemoryVolumeDir + "/p/fast", Memory: true, Dirs: []string{table.MemoryVolumeDir + "/p/fast/sub"}, Group: &group},
	}
	if err := Volumes(&mounted{}, root, list); err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]os.FileMode{
		table.VolumeDir + "/p/work": 0o777 | os.ModeSetgid, table.VolumeDir + "/p/work/sub": 0o777 | os.ModeSetgid,
		table.MemoryVolumeDir + "/p/fast": 0o777 | os.ModeSetgid | os.ModeSticky, table.MemoryVolumeDir + "/p/fast/sub": 0o777 | os.ModeSetgid,
	} {
		fi, err := os.Stat(filepath.Join(root, p))
		if err != nil {
			t.Fatal(err)
		}
		if gid := fi.Sys().(*syscall.Stat_t).Gid; gid != group || fi.Mode() != want|os.ModeDir {
			t.Errorf("%s: group %d mode %v, want %d %v", p, gid, fi.Mode(), group, want)
		}
	}
	file := filepath.Join(root, table.VolumeDir, "p/work/sub/file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Stat(file); err != nil || fi.Sys().(*syscall.Stat_t).Gid != group {
		t.Errorf("a file in it: %v %v", fi, err)
	}
}

// A node without volumes makes nothing, and one that lost its volumes keeps no files of theirs.
func TestNoVolumes(t *testing.T) {
	root := t.TempDir()
	if err := errors.Join(Volumes(&mounted{}, root, nil), Leftovers(root)); err != nil {
		t.Fatal(err)
	}
	if list, err := os.ReadDir(root); err != nil || len(list) != 0 {
		t.Errorf("%v %v", list, err)
	}
	if err := os.MkdirAll(filepath.Join(root, table.VolumeDir, "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(Volumes(&mounted{}, root, nil), Leftovers(root)); err != nil {
		t.Fatal(err)
	}
	if list, err := os.ReadDir(filepath.Join(root, "var/lib/garboard")); err != nil || len(list) != 0 {
		t.Errorf("%v %v", list, err)
	}
}

func TestVolumeThatCannotBeMade(t *testing.T) {
	err := Volumes(&mounted{err: errors.New("no memory")}, t.TempDir(), []table.Volume{{Path: table.MemoryVolumeDir + "/a", Memory: true}, {Path: table.VolumeDir + "/b"}})
	if err == nil || !strings.Contains(err.Error(), "volume "+table.MemoryVolumeDir+"/a: no memory") || strings.Contains(err.Error(), "/b") {
		t.Errorf("%v", err)
	}
}
