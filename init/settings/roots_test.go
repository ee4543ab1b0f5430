package settings

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"garboard.local/init/table"
)

func TestRoots(t *testing.T) {
	root := t.TempDir()
	put := func(p, text string) {
		t.Helper()
		p = filepath.Join(root, p)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	read := func(p string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(root, p))
		if err != nil {
			t.Error(err)
		}
		return string(b)
	}
	put("etc/hosts", "of the image\n")
	for _, l := range []string{"top", "image"} {
		if err := os.MkdirAll(filepath.Join(root, "layers", l), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(root, "layers/top"), 0o751); err != nil {
		t.Fatal(err)
	}
	layers := []string{"/layers/top", "/layers/image"}
	list := []table.Service{
		{Name: "without"},
		{Name: "a", Root: &table.Root{Image: "i", Path: table.MemoryVolumeDir + "/ns_p/.roots/a", Layers: layers, Writes: table.VolumeDir + "/ns_p/.roots/a"}},
		{Name: "b", Root: &table.Root{Image: "i", Path: table.MemoryVolumeDir + "/ns_p/.roots/b", Layers: layers}},
	}
	kernel := &mounted{}
	if err := Roots(kernel, root, list); err != nil {
		t.Fatal(err)
	}
	writes := root + table.VolumeDir + "/ns_p/.roots/a"
	lower := "lowerdir=" + root + "/layers/top:" + root + "/layers/image"
	want := []string{"root a overlay 0x4 " + lower + ",upperdir=" + writes + "/upper,workdir=" + writes + "/work", "root b overlay 0x5 " + lower}
	if got := strings.Join(kernel.list, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("mounts\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	for p, want := range map[string]os.FileMode{
		table.VolumeDir: 0o700, table.MemoryVolumeDir: 0o700, table.VolumeDir + "/ns_p/.roots/a/upper": 0o751, table.EtcDir: 0o755,
	} {
		if fi, err := os.Stat(filepath.Join(root, p)); err != nil || fi.Mode().Perm() != want {
			t.Errorf("%s: %v %v, want %v", p, fi, err, want)
		}
	}

	// What PID 1 writes is seen in the copies, and what there was before it did.
	if got := read(table.EtcDir + "/hosts"); got != "of the image\n" {
		t.Errorf("copy %q", got)
	}
	if err := errors.Join(WriteEtc(root, "hosts", "new\n"), WriteEtc(root, "resolv.conf", "nameserver 192.0.2.1\n")); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"/etc", table.EtcDir} {
		if a, b := read(dir+"/hosts"), read(dir+"/resolv.conf"); a != "new\n" || b != "nameserver 192.0.2.1\n" {
			t.Errorf("%s: %q %q", dir, a, b)
		}
	}
}

// A root that cannot be mounted is named, with its image, and keeps nobody else from one.
func TestRootsThatFail(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(root+"/etc", 0o755); err != nil {
		t.Fatal(err)
	}
	service := func(name, layer string) table.Service {
		return table.Service{Name: name, Root: &table.Root{Image: "image-of-" + name, Path: table.MemoryVolumeDir + "/" + name, Layers: []string{layer, layer}, Writes: table.VolumeDir + "/" + name}}
	}
	kernel := &mounted{}
	err := Roots(kernel, root, []table.Service{service("a", "/absent"), service("b", "/etc")})
	if err == nil || !strings.Contains(err.Error(), "root of service a (image image-of-a)") || strings.Contains(err.Error(), "service b") {
		t.Errorf("error %v", err)
	}
	if len(kernel.list) != 1 || !strings.HasPrefix(kernel.list[0], "root b ") {
		t.Errorf("mounts %q", kernel.list)
	}
}

// Nodes without such services keep no copies.
func TestNoCopiesForNobody(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(root+"/etc", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(Roots(&mounted{}, root, []table.Service{{Name: "a"}}), WriteEtc(root, "hosts", "x\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(root + table.EtcDir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// What cannot be written to is a root all the same, and the console says so.
func TestRootsOnADiskThatCannotBeWrittenTo(t *testing.T) {
	root := t.TempDir()
	if err := errors.Join(os.MkdirAll(root+"/top", 0o755), os.MkdirAll(filepath.Dir(root+table.VolumeDir), 0o755), os.WriteFile(root+table.VolumeDir, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	s := table.Service{Name: "a", Root: &table.Root{Image: "i", Path: table.MemoryVolumeDir + "/a", Layers: []string{"/top", "/top"}, Writes: table.VolumeDir + "/a"}}
	kernel := &mounted{}
	err := Roots(kernel, root, []table.Service{s})
	if err == nil || !strings.Contains(err.Error(), "root of service a (image i): nothing can be written to it: ") {
		t.Errorf("error %v", err)
	}
	if want := []string{"root a overlay 0x5 lowerdir=" + root + "/top:" + root + "/top"}; !slices.Equal(kernel.list, want) {
		t.Errorf("mounts %q, want %q", kernel.list, want)
	}
	kernel = &mounted{err: errors.New("no overlay")}
	if err := Roots(kernel, t.TempDir(), []table.Service{s}); err == nil || strings.Contains(err.Error(), "nothing can be written") {
		t.Errorf("error %v", err)
	}
}

// On a full disk what an earlier boot left is removed at once, and only then.
func TestRoomOnAFullDisk(t *testing.T) {
	for _, tt := range []struct {
		err   error
		calls int
	}{{nil, 1}, {unix.ENOSPC, 2}, {&os.PathError{Op: "mkdir", Err: unix.EDQUOT}, 2}, {unix.EROFS, 1}} {
		root, calls := t.TempDir(), 0
		left := root + table.VolumeDir + old + "0/ns_p/file"
		if err := errors.Join(os.MkdirAll(filepath.Dir(left), 0o755), os.WriteFile(left, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		err := withRoom(root, func() error {
			calls++
			if _, err := os.Stat(left); err == nil {
				return tt.err
			}
			return nil
		})
		if calls != tt.calls || (err == nil) != (tt.err == nil || tt.calls == 2) {
			t.Errorf("%v: %d calls, error %v", tt.err, calls, err)
		}
	}
}
