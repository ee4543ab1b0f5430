package recipe

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestKernelErrors(t *testing.T) {
	with := func(kernel string) string {
		return strings.Replace(minimal, `{package: "linux-image-cloud-{arch}"}`, kernel, 1)
	}
	for _, c := range []struct{ name, body, want string }{
		{"none", with("{}"), "kernel.package is missing"},
		{"two", with("{package: linux, oci: ./k}"), "exclude each other"},
		{"white space", with(`{oci: "a b"}`), "white space"},
		{"firmware without a reason", with("{package: l, firmware: [{package: f}]}"), "firmware[0] (f): package and reason"},
		{"firmware elsewhere", with("{package: l, firmware: [{package: f, reason: r, files: [/usr/bin/x]}]}"), "not below /usr/lib/firmware"},
		{"firmware by a relative path", with("{package: l, firmware: [{package: f, reason: r, files: [x]}]}"), "clean absolute path"},
		{"microcode for all", with("{package: l, microcode: [{package: m, reason: r}]}"), "microcode[0] (m).arch must be amd64"},
		{"microcode without a reason", with("{package: l, microcode: [{package: m, arch: amd64}]}"), "package and reason"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Load(write(t, t.TempDir(), "r.yaml", c.body))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v\nwant one that says %s", err, c.want)
			}
		})
	}
}

// A recipe's kernel takes the place of the one it extends, whatever kind each is.
func TestKernelSourceIsReplaced(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "base.yaml", minimal)
	write(t, dir, "oci.yaml", "extends: base.yaml\nname: oci\nkernel: {oci: \"./k-{arch}.tar\"}\n")
	write(t, dir, "reg.yaml", "extends: oci.yaml\nname: reg\nkernel: {oci: \"127.0.0.1:5000/kernel:6\"}\n")
	back := write(t, dir, "back.yaml", "extends: reg.yaml\nname: back\nkernel: {package: \"linux-image-{arch}\", firmware: [{package: f, reason: r, arch: arm64}], microcode: [{package: m, arch: amd64, reason: r}]}\n")
	for file, want := range map[string]Kernel{
		"oci.yaml":  {OCI: filepath.Join(dir, "k-amd64.tar")},
		"reg.yaml":  {OCI: "127.0.0.1:5000/kernel:6"},
		"back.yaml": {Package: "linux-image-amd64"},
	} {
		r, err := Load(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		a, err := r.For("amd64")
		if err != nil || a.Kernel.Package != want.Package || a.Kernel.OCI != want.OCI {
			t.Errorf("%s: %+v, %v; want %+v", file, a.Kernel, err, want)
		}
	}
	r, err := Load(back)
	if err != nil {
		t.Fatal(err)
	}
	for arch, want := range map[string][2]int{"amd64": {0, 1}, "arm64": {1, 0}} {
		a, err := r.For(arch)
		if err != nil || len(a.Kernel.Firmware) != want[0] || len(a.Kernel.Microcode) != want[1] {
			t.Errorf("%s: firmware %v, microcode %v, %v", arch, a.Kernel.Firmware, a.Kernel.Microcode, err)
		}
	}
	for p, want := range map[string]bool{"./k": true, "../k": true, "/k": true, "docker.io/linuxkit/kernel:6": false, "": false} {
		if LocalOCI(p) != want {
			t.Errorf("LocalOCI(%q) is not %t", p, want)
		}
	}
	if localOCI("k.tar") != "./k.tar" || localOCI("../k.tar") != "../k.tar" {
		t.Error("a path that was cleaned is no longer known as one")
	}
}
