package preload

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// expected is what verify/ reads; see there.
type expected struct {
	Name, ID, Digest string
	Size             int64
	Entrypoint       []string
	Files            map[string]string
}

// TestContainersStorageAccepts has the libraries that cri-o links read a store
// from a read-only mount. Mounting takes root, or a user namespace where the
// host grants one. Where it does not, the log says so, and what is asserted is
// that the store on disk is the one that was built.
func TestContainersStorageAccepts(t *testing.T) {
	dir := t.TempDir()
	images, want := samples(t)
	entries, infos, err := Build(images, epoch, "amd64", blobs(t))
	if err != nil {
		t.Fatal(err)
	}
	for i, info := range infos {
		want[i].Name, want[i].ID, want[i].Digest, want[i].Size = info.Name, info.ID, info.Digest, info.Size
	}
	root := filepath.Join(dir, "images")
	write(t, dir, Under("images", entries))
	compare(t, root, entries)

	bin := buildVerify(t)
	t.Run(map[bool]string{true: "as root", false: "in a user namespace"}[os.Getuid() == 0], func(t *testing.T) {
		out, err := runVerify(bin, root, t.TempDir(), want)
		if refused(err) {
			t.Logf("uid %d may not mount here (%v): containers/storage did not read the store", os.Getuid(), err)
			return
		}
		if err != nil || !strings.HasSuffix(out, "verify: 5 images, all good\n") {
			t.Errorf("verify: %v\n%s", err, out)
		}
		t.Log(strings.TrimSpace(out))
	})
	// The negative control: each damage must be seen by containers/storage.
	for _, tt := range []struct{ name, file, want string }{
		{"no images.lock", "overlay-images/images.lock", "sees 0 images"},
		{"no tar-split", "overlay-layers/*.tar-split.gz", "diff"},
		{"no manifest", "overlay-images/*/manifest", "manifest"},
		{"no layer", "overlay/*/diff/app", "diff"},
	} {
		t.Run("damage: "+tt.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, Under("images", entries))
			hits, err := filepath.Glob(filepath.Join(dir, "images", tt.file))
			if err != nil || len(hits) == 0 {
				t.Fatalf("%s: %d files, %v", tt.file, len(hits), err)
			}
			for _, h := range hits {
				if err := os.Remove(h); err != nil {
					t.Fatal(err)
				}
			}
			out, err := runVerify(bin, filepath.Join(dir, "images"), t.TempDir(), want)
			if refused(err) {
				t.Logf("uid %d may not mount here (%v)", os.Getuid(), err)
				return
			}
			if err == nil || !strings.Contains(out, tt.want) {
				t.Errorf("verify: %v, want a failure that mentions %q\n%s", err, tt.want, out)
			}
		})
	}
}

// samples are images of every kind, and what a container of each must see.
func samples(t *testing.T) ([]Image, []expected) {
	big := strings.Repeat("garboard", 1<<16)
	tree := program(t, "localhost/garboard/hello:1", big)
	tree.Layers[0].Files = append(tree.Layers[0].Files,
		LayerFile{Path: "/tmp", Type: TypeDir, Mode: 0o777 | os.ModeSticky},
		LayerFile{Path: "/link", Type: TypeSymlink, Link: "tmp"})
	tree.Layers = append(tree.Layers, Layer{Files: []LayerFile{{Path: "/opt/b/c", Mode: 0o755 | os.ModeSetuid, Source: sourceFile(t, "upper")}}})
	return []Image{
			program(t, "localhost/garboard/pause:1", "pause"),
			tree,
			{Name: "localhost/kept:1", From: layoutOf(t, image(t, "amd64", plainLayers(t)...))},
			{Name: "docker.io/library/flat:1.0", From: layoutOf(t, image(t, "amd64", oddLayers(t)...))},
			{Name: "10.0.0.1:5000/saved/x:1", From: saved(t, image(t, "amd64", plainLayers(t)[0]))},
		}, []expected{
			{Entrypoint: []string{"/app"}, Files: map[string]string{"/app": "pause"}},
			{Entrypoint: []string{"/app"}, Files: map[string]string{"/app": big, "/opt/b/c": "upper"}},
			{Entrypoint: []string{"/bin/app"}, Files: map[string]string{"/bin/app": "two", "/bin/hard": "one", "/sh": "two"}},
			{Entrypoint: []string{"/bin/app"}, Files: map[string]string{"/bin/app": "one", "/o/new": "2", "/t": "2", "/a/gone": "", "/a/sub": "", "/o/old": ""}},
			{Entrypoint: []string{"/bin/app"}, Files: map[string]string{"/bin/app": "one"}},
		}
}

func buildVerify(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "verify")
	cmd := exec.Command("go", "build", "-tags", "exclude_graphdriver_btrfs,containers_image_openpgp", "-o", bin, ".")
	cmd.Dir = "verify"
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly -buildvcs=false", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build in verify/: %v\n%s", err, out)
	}
	return bin
}

func runVerify(bin, root, scratch string, want []expected) (string, error) {
	in, err := json.Marshal(want)
	if err != nil {
		return "", err
	}
	cmd := exec.Command(bin, root, scratch)
	cmd.Stdin = bytes.NewReader(in)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + scratch, "TMPDIR=" + scratch, "XDG_RUNTIME_DIR=" + scratch, "CONTAINERS_STORAGE_CONF=/dev/null"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if uid := os.Getuid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
		// The library's own marks of a process that moved to a user namespace;
		// with them it mounts overlays with the option userxattr.
		cmd.Env = append(cmd.Env, "_CONTAINERS_USERNS_CONFIGURED=done", "_CONTAINERS_ROOTLESS_UID=1000", "_CONTAINERS_ROOTLESS_GID=1000")
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// refused says that the host grants no mount namespace, or one without mounts.
func refused(err error) bool {
	var exit *exec.ExitError
	return errors.Is(err, os.ErrPermission) || errors.As(err, &exit) && exit.ExitCode() == 3
}

// write lays entries out on disk. Owners are set where the user may set them.
func write(t *testing.T, dir string, entries []Entry) {
	t.Helper()
	for _, e := range entries {
		p := filepath.Join(dir, e.Path)
		var err error
		switch e.Type {
		case TypeDir:
			err = os.Mkdir(p, 0o700)
		case TypeSymlink:
			err = os.Symlink(e.Link, p)
		default:
			err = os.WriteFile(p, []byte(text(t, e)), 0o600)
		}
		if err == nil && os.Getuid() == 0 {
			err = os.Lchown(p, e.UID, e.GID)
		}
		if err == nil && e.Type != TypeSymlink {
			err = os.Chmod(p, e.Mode)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// compare reads a written store back.
func compare(t *testing.T, root string, entries []Entry) {
	t.Helper()
	for _, e := range entries {
		fi, err := os.Lstat(filepath.Join(root, e.Path))
		if err != nil {
			t.Error(err)
			continue
		}
		if e.Type != TypeSymlink && fi.Mode()&^os.ModeDir != e.Mode {
			t.Errorf("%s has mode %s, not %s", e.Path, fi.Mode(), e.Mode)
		}
		if e.Type == TypeFile && fi.Size() != int64(len(text(t, e))) {
			t.Errorf("%s has %d bytes", e.Path, fi.Size())
		}
	}
}
