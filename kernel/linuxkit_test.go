package kernel_test

import (
	"bytes"
	"context"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"garboard.local/builder/source/oci"
	"garboard.local/builder/source/oci/ocitest"
	"garboard.local/builder/store"
	"garboard.local/kernel"
	"garboard.local/kernel/kerneltest"
)

const config = "CONFIG_A=y\n"

// from takes the kernel of an image in a fresh store.
func from(t *testing.T, arch string, img v1.Image) (*kernel.Source, error) {
	t.Helper()
	st, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return kernel.FromOCI(t.Context(), st, arch, "test", h.String(), func() (*oci.Image, error) { return &oci.Image{Image: img, Name: "test", Sum: h.String()}, nil })
}

type files = map[string][]byte

func modules(version string) []byte {
	return ocitest.Tar(files{
		"lib/modules/" + version + "/kernel/fs/erofs/erofs.ko":    []byte("erofs~Module signature appended~\n"),
		"./lib/modules/" + version + "/kernel/drivers/loop.ko.gz": kerneltest.Gzip([]byte("loop")),
		"lib/modules/" + version + "/modules.builtin":             []byte("kernel/fs/ext4/ext4.ko\n"),
		"lib/modules/" + version + "/vdso/vdso64.so":              []byte("not needed"),
		"lib/modules/" + version + "/../../../etc/passwd":         []byte("climbs out"),
		"usr/src/linux-headers/Makefile":                          []byte("not needed"),
	})
}

func TestForms(t *testing.T) {
	const v = "6.12.1-linuxkit"
	withConfig := kerneltest.IKConfig([]byte(config))
	arm := kerneltest.Image(v, withConfig)
	for _, c := range []struct {
		name, arch string
		files      files
		boots      []byte // what must boot in the end
		config     string
	}{
		{"bzImage, configuration inside", "amd64", files{"kernel": kerneltest.BzImage(v, kerneltest.Gzip(withConfig))}, kerneltest.BzImage(v, kerneltest.Gzip(withConfig)), config},
		{"bzImage, configuration beside", "amd64", files{"kernel": kerneltest.BzImage(v, kerneltest.Gzip([]byte("x"))), "kernel.config": []byte(config)}, nil, config},
		{"configuration in /boot, compressed", "amd64", files{"kernel": kerneltest.BzImage(v, []byte("x")), "boot/config-" + v: kerneltest.Gzip([]byte(config))}, nil, string(kerneltest.Gzip([]byte(config)))},
		{"no configuration", "amd64", files{"kernel": kerneltest.BzImage(v, kerneltest.Gzip([]byte("x")))}, nil, ""},
		{"a compression that is not read", "amd64", files{"kernel": kerneltest.BzImage(v, []byte("\x02\x21\x4c\x18xxxx"))}, nil, ""},
		{"Image", "arm64", files{"kernel": arm}, arm, config},
		{"Image.gz becomes Image", "arm64", files{"kernel": kerneltest.Gzip(arm)}, arm, config},
		{"zboot", "arm64", files{"kernel": kerneltest.Zboot(arm)}, kerneltest.Zboot(arm), config},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.files["kernel.tar"], c.files["cmdline"], c.files["kernel-dev.tar"] = modules(v), []byte("console=tty0 \n quiet\n"), []byte("no tar")
			s, err := from(t, c.arch, ocitest.Image(c.arch, ocitest.Tar(c.files)))
			if err != nil {
				t.Fatal(err)
			}
			if s.Version != v || s.Cmdline != "console=tty0 quiet" || string(s.Config) != c.config || (s.Unknown == "") != (c.config != "") {
				t.Errorf("%+v", s)
			}
			got, err := os.ReadFile(s.Vmlinuz)
			if err != nil || c.boots != nil && !bytes.Equal(got, c.boots) {
				t.Errorf("%d bytes boot, %v", len(got), err)
			}
			want := files{"kernel/fs/erofs/erofs.ko": []byte("erofs~Module signature appended~\n"), "kernel/drivers/loop.ko.gz": kerneltest.Gzip([]byte("loop")), "modules.builtin": []byte("kernel/fs/ext4/ext4.ko\n")}
			if len(s.Modules) != len(want) {
				t.Errorf("modules %v", s.Modules)
			}
			for rel, b := range want {
				if got, err := os.ReadFile(s.Modules[rel]); err != nil || !bytes.Equal(got, b) {
					t.Errorf("%s: %q, %v", rel, got, err)
				}
			}
		})
	}
}

// Layers are laid over each other, and what a later one deletes is gone.
func TestLayers(t *testing.T) {
	k := kerneltest.BzImage("6.1.2", []byte("x"))
	s, err := from(t, "amd64", ocitest.Image("amd64", ocitest.Tar(files{"kernel": []byte("old"), "cmdline": []byte("old"), "kernel.config": []byte("CONFIG_OLD=y\n")}),
		ocitest.Tar(files{"kernel": k, ".wh.cmdline": nil, ".wh.kernel.config": nil})))
	if err != nil || s.Cmdline != "" || s.Config != nil || len(s.Modules) != 0 || s.Version != "6.1.2" {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestRefusals(t *testing.T) {
	const v = "6.12.1"
	bz, arm := kerneltest.BzImage(v, []byte("x")), kerneltest.Image(v, nil)
	for _, c := range []struct {
		name, want string
		files      files
	}{
		{"no kernel", "it holds no /kernel: it is not laid out as LinuxKit's", files{"vmlinuz": bz}},
		{"another architecture", "/kernel is for arm64, and the node for amd64", files{"kernel": arm}},
		{"no kernel at all", "neither a bzImage (amd64) nor an Image", files{"kernel": []byte("#!/bin/sh\n")}},
		{"empty", "neither a bzImage", files{"kernel": nil}},
		{"modules of another build", "/kernel is 6.12.1 and /kernel.tar has modules of 6.12.2", files{"kernel": bz, "kernel.tar": modules("6.12.2")}},
		{"modules that are no tar", "/kernel.tar: ", files{"kernel": bz, "kernel.tar": []byte(strings.Repeat("x", 2000))}},
		{"a release that is a path", "not a release", files{"kernel": kerneltest.BzImage("..", []byte("x"))}},
		{"modules of a release that is a path", "not a kernel's release", files{"kernel": bz, "kernel.tar": ocitest.Tar(files{"lib/modules/.x/a.ko": nil})}},
		{"a configuration that is none", "there is no CONFIG_ line", files{"kernel": bz, "kernel.config": []byte("hello")}},
		{"a command line without end", "larger than", files{"kernel": bz, "cmdline": bytes.Repeat([]byte("x "), 1<<16)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := from(t, "amd64", ocitest.Image("amd64", ocitest.Tar(c.files))); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v\nwant %q", err, c.want)
			}
		})
	}
}

// A registry is asked for a digest once; what comes later under the same name is
// another matter, and what was fetched is not fetched again.
func TestRegistry(t *testing.T) {
	server := httptest.NewServer(registry.New())
	defer server.Close()
	ref := strings.TrimPrefix(server.URL, "http://") + "/linuxkit/kernel:6.12"
	push := func(release string) {
		t.Helper()
		r, err := name.ParseReference(ref)
		if err != nil {
			t.Fatal(err)
		}
		index := ocitest.Index(
			ocitest.Image("amd64", ocitest.Tar(files{"kernel": kerneltest.BzImage(release, []byte("x"))})),
			ocitest.Image("arm64", ocitest.Tar(files{"kernel": kerneltest.Image(release, nil)})))
		if err := remote.WriteIndex(r, index); err != nil {
			t.Fatal(err)
		}
	}
	push("6.12.1")
	st, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	pinned := map[string]string{}
	for _, arch := range []string{"amd64", "arm64"} {
		if pinned[arch], err = oci.Resolve(t.Context(), ref, arch); err != nil {
			t.Fatal(err)
		}
	}
	if pinned["amd64"] == pinned["arm64"] {
		t.Error("one digest for both architectures")
	}
	push("6.12.2")
	pull := func(arch string) (*kernel.Source, error) {
		return kernel.FromOCI(context.Background(), st, arch, ref, pinned[arch], func() (*oci.Image, error) { return oci.Pull(context.Background(), ref, pinned[arch], arch) })
	}
	for _, arch := range []string{"amd64", "arm64"} {
		if s, err := pull(arch); err != nil || s.Version != "6.12.1" || !strings.Contains(s.Origin, pinned[arch]) {
			t.Errorf("%s: %+v, %v; want what was pinned", arch, s, err)
		}
	}
	if _, err := oci.Resolve(t.Context(), ref, "riscv64"); err == nil || !strings.Contains(err.Error(), "no image for linux/riscv64, only for linux/amd64, linux/arm64") {
		t.Errorf("an architecture that it lacks: %v", err)
	}
	server.Close()
	if _, err := pull("amd64"); err != nil {
		t.Errorf("a kernel in the store needs no registry: %v", err)
	}
}

// Image files: a layout, an archive of one, and damage.
func TestLocalImages(t *testing.T) {
	dir := t.TempDir()
	layout := filepath.Join(dir, "layout")
	img := ocitest.Image("amd64", ocitest.Tar(files{"kernel": kerneltest.BzImage("6.1.2", []byte("x"))}))
	if err := ocitest.Layout(layout, ocitest.Index(img, ocitest.Image("arm64", ocitest.Tar(files{"kernel": kerneltest.Image("6.1.2", nil)})))); err != nil {
		t.Fatal(err)
	}
	content, err := ocitest.Files(layout)
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(dir, "k.tar")
	if err := os.WriteFile(archive, ocitest.Tar(content), 0o644); err != nil {
		t.Fatal(err)
	}
	sums := map[string]bool{}
	for _, p := range []string{layout, archive} {
		i, err := oci.Open(p, oci.Choice{Arch: "amd64"}, dir)
		if err != nil {
			t.Fatal(err)
		}
		sums[i.Sum] = true
		if err := i.Verify(); err != nil {
			t.Error(err)
		}
		if err := i.Close(); err != nil {
			t.Error(err)
		}
	}
	if len(sums) != 1 {
		t.Errorf("one image has the digests %v", sums)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "oci-*")); len(left) != 0 {
		t.Errorf("%v is left", left)
	}
	// The same content under another compression is the same; other content is not.
	for name, b := range map[string][]byte{"other content": kerneltest.Gzip(ocitest.Tar(files{"kernel": nil})), "no content": nil} {
		if err := ocitest.Replace(layout, img, b); err != nil {
			t.Fatal(err)
		}
		i, err := oci.Open(layout, oci.Choice{Arch: "amd64"}, dir)
		if err == nil {
			err = i.Verify()
		}
		if err == nil {
			t.Errorf("%s: a damaged layout was accepted", name)
		}
	}
	for name, c := range map[string]struct {
		path, arch, want string
	}{
		"architecture": {archive, "riscv64", "no image for linux/riscv64"},
		"not there":    {filepath.Join(dir, "x"), "amd64", "no such file"},
		"no archive":   {filepath.Join(dir, "text"), "amd64", "no archive"},
		"another tar":  {filepath.Join(dir, "other.tar"), "amd64", "neither oci-layout nor manifest.json"},
		"a plain dir":  {dir, "amd64", "no OCI layout"},
	} {
		_ = os.WriteFile(filepath.Join(dir, "text"), bytes.Repeat([]byte("text\n"), 500), 0o644)
		_ = os.WriteFile(filepath.Join(dir, "other.tar"), ocitest.Tar(files{"a": nil}), 0o644)
		if _, err := oci.Open(c.path, oci.Choice{Arch: c.arch}, dir); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
