package image

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"garboard.local/builder/rootfs"
	"garboard.local/builder/source/debian"
	"garboard.local/builder/store"
)

// toolsEnv names the root of the pinned host tools. `garboard test node` sets
// it; these tests are part of that, since they judge with others' programs.
const toolsEnv = "GARBOARD_TOOLS"

// tools is how to run the pinned tools, or nil in the quick tests.
func tools(t *testing.T) Run {
	t.Helper()
	root := os.Getenv(toolsEnv)
	if root == "" {
		if !testing.Short() {
			t.Fatalf("$%s is not set; run `garboard test node`, or go test -short", toolsEnv)
		}
		t.Log("quick tests: the judgement of other programs is part of `garboard test node`")
		return nil
	}
	return func(tool string, args ...string) *exec.Cmd {
		return debian.Command(context.Background(), root, tool, args...)
	}
}

func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v: %s", cmd.Args, err, errs.String())
	}
	return string(out)
}

// TestCPIOJudgedByOthers lists and unpacks the archive with GNU cpio and bsdcpio.
func TestCPIOJudgedByOthers(t *testing.T) {
	run := tools(t)
	if run == nil {
		return
	}
	tree := oddTree(t)
	var archive bytes.Buffer
	if err := WriteCPIO(&archive, tree, epoch); err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"cpio", "bsdcpio"} {
		t.Run(tool, func(t *testing.T) {
			list := run(tool, "-itv")
			list.Stdin = bytes.NewReader(archive.Bytes())
			lines := output(t, list)
			for _, want := range []string{"-rwsr-xr-x", "drwxrwxrwt", "bin -> usr/bin", strings.Repeat("n", 255), "70000"} {
				if !strings.Contains(lines, want) {
					t.Errorf("the listing lacks %q:\n%s", want, lines)
				}
			}
			dir := t.TempDir()
			unpack := run(tool, "-idm", "--no-absolute-filenames")
			if tool == "bsdcpio" {
				unpack = run(tool, "-idm")
			}
			unpack.Dir, unpack.Stdin = dir, bytes.NewReader(archive.Bytes())
			output(t, unpack)
			compare(t, tree, dir)
			// Negative control: half an archive must not pass.
			bad := run(tool, "-it")
			bad.Stdin = bytes.NewReader(archive.Bytes()[:archive.Len()/2])
			if out, err := bad.CombinedOutput(); err == nil {
				t.Errorf("%s takes half an archive for whole: %s", tool, out)
			}
		})
	}
}

// TestDevicesJudgedByOthers has GNU cpio and bsdcpio list the device nodes.
func TestDevicesJudgedByOthers(t *testing.T) {
	run := tools(t)
	if run == nil {
		return
	}
	var archive bytes.Buffer
	if err := writeDevices(&archive, epoch); err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"cpio", "bsdcpio"} {
		list := run(tool, "-itv")
		list.Stdin = bytes.NewReader(archive.Bytes())
		lines := strings.ReplaceAll(output(t, list), " ", "")
		for _, want := range []string{"crw-------", "5,1", "crw-rw-rw-", "1,3", "drwxr-xr-x"} {
			if !strings.Contains(lines, want) {
				t.Errorf("%s: the listing lacks %q:\n%s", tool, want, lines)
			}
		}
	}
}

// netBind is cap_net_bind_service=ep (linux/capability.h, struct vfs_cap_data).
const netBind = "0100000200040000000000000000000000000000"

// compare checks that a directory holds exactly the tree's entries and bytes.
func compare(t *testing.T, tree *rootfs.Tree, dir string) {
	t.Helper()
	for _, e := range tree.Entries() {
		p := filepath.Join(dir, e.Path)
		fi, err := os.Lstat(p)
		if err != nil {
			t.Error(err)
			continue
		}
		switch e.Kind {
		case rootfs.Symlink:
			if to, err := os.Readlink(p); err != nil || to != e.Link {
				t.Errorf("%s leads to %q, %v", e.Path, to, err)
			}
		case rootfs.File:
			if sum, err := store.HashFile(p); err != nil || sum != e.SHA256 {
				t.Errorf("%s: other content (%v)", e.Path, err)
			}
			fallthrough
		default:
			if got := uint32(fi.Mode().Perm()); got != e.Mode&0o777 {
				t.Errorf("%s: mode %o, want %o", e.Path, got, e.Mode&0o777)
			}
		}
	}
}

// TestEROFSJudgedByOthers has fsck.erofs check and unpack both settings' images.
func TestEROFSJudgedByOthers(t *testing.T) {
	run := tools(t)
	if run == nil {
		return
	}
	tree := oddTree(t)
	able := rootfs.FromBytes("/able", 0o755, []byte("program"), "t", "t")
	able.Capabilities = netBind
	if err := tree.Add(able); err != nil {
		t.Fatal(err)
	}
	for _, c := range []Compression{Fast, Small} {
		t.Run(c.Name, func(t *testing.T) {
			var sums [2]string
			var file string
			for i := range sums { // two stores: the second image is made anew
				st, err := store.Open(filepath.Join(t.TempDir(), fmt.Sprint(i)))
				if err != nil {
					t.Fatal(err)
				}
				if file, _, err = EROFS(context.Background(), st, run, "key", tree, c, epoch); err != nil {
					t.Fatal(err)
				}
				if sums[i], err = store.HashFile(file); err != nil {
					t.Fatal(err)
				}
			}
			if sums[0] != sums[1] {
				t.Errorf("two images of one tree differ: %s, %s", sums[0], sums[1])
			}
			dir := filepath.Join(t.TempDir(), "unpacked")
			output(t, run("fsck.erofs", "--extract="+dir, "--no-preserve-owner", file))
			compare(t, tree, dir)
			if info := output(t, run("dump.erofs", "-s", file)); !strings.Contains(info, erofsUUID) {
				t.Errorf("dump.erofs does not show the fixed UUID:\n%s", info)
			}
			// Its value is what a program on a node has then (TestVMAgent); here, that it is there.
			if info := output(t, run("dump.erofs", "--path=/able", file)); !strings.Contains(info, "Xattr size: 48") {
				t.Errorf("dump.erofs shows no attribute of a file with capabilities:\n%s", info)
			}
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			b[1024] ^= 0xff // the superblock's magic
			bad := filepath.Join(t.TempDir(), "bad.erofs")
			if err := os.WriteFile(bad, b, 0o644); err != nil {
				t.Fatal(err)
			}
			if out, err := run("fsck.erofs", bad).CombinedOutput(); err == nil {
				t.Errorf("fsck.erofs takes a damaged image for whole: %s", out)
			}
		})
	}
}
