package rootfs

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
)

func TestFilesGoOverWhole(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	from, to := filepath.Join(t.TempDir(), "etc"), filepath.Join(t.TempDir(), "layer")
	for _, d := range []string{"kubernetes/manifests", "empty"} {
		if err := os.MkdirAll(filepath.Join(from, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, mode := range map[string]fs.FileMode{"hostname": 0o644, "kubernetes/secret": 0o400, "kubernetes/manifests/pod.yaml": 0o644, "none": 0o600} {
		if err := os.WriteFile(filepath.Join(from, name), []byte(strings.Repeat(name, len(name)%3)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(from, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{".", "kubernetes", "kubernetes/manifests", "empty"} {
		if err := os.Chmod(filepath.Join(from, d), 0o755|fs.ModeSticky); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../outside", filepath.Join(from, "link")); err != nil {
		t.Fatal(err)
	}
	list, err := ReadFiles(from)
	if err != nil || len(list) != 8 {
		t.Fatalf("%d entries, %v", len(list), err)
	}
	if err := list.Write(to); err != nil {
		t.Fatal(err)
	}
	got, err := ReadFiles(to)
	if err != nil || !reflect.DeepEqual(got, list) {
		t.Errorf("%v\nbecame %+v\nwant %+v", err, got, list)
	}
	if err := list.Write(to); err != nil {
		t.Errorf("a second time: %v", err)
	}
}

func TestFilesThatAreNone(t *testing.T) {
	if list, err := ReadFiles(filepath.Join(t.TempDir(), "etc")); len(list) != 0 || err != nil {
		t.Errorf("without /etc: %v, %v", list, err)
	}
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "a-pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]int64{"b-large": filesLimit - 1, "c-over": 2, "d-small": 0} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(filepath.Join(dir, name), size); err != nil {
			t.Fatal(err)
		}
	}
	list, err := ReadFiles(dir)
	if err == nil || !strings.Contains(err.Error(), "a-pipe") || !strings.Contains(err.Error(), "c-over") || !strings.Contains(err.Error(), "more than 16 MiB") {
		t.Errorf("error %v names not both", err)
	}
	var names []string
	for _, f := range list {
		names = append(names, f.Path)
	}
	if got := strings.Join(names, " "); got != "b-large" {
		t.Errorf("%q are left; want what came before the limit was passed", got)
	}
	// A link in the layer leads nobody out of it.
	to := t.TempDir()
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(to, "kubernetes")); err != nil {
		t.Fatal(err)
	}
	err = Files{{Path: "kubernetes/x", Mode: 0o644, Content: []byte("x")}, {Path: "y", Mode: 0o644, UID: os.Getuid(), GID: os.Getgid()}}.Write(to)
	if _, gone := os.Stat(filepath.Join(outside, "x")); err == nil || gone == nil {
		t.Errorf("written through a link: %v", err)
	}
	if _, err := os.Stat(filepath.Join(to, "y")); err != nil {
		t.Errorf("one that fails keeps others away: %v", err)
	}
}
