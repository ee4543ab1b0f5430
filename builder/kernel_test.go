package builder

import (
	"context"
	"strings"
	"testing"

	"garboard.local/builder/recipe"
	"garboard.local/kernel"
)

const fw = "./usr/lib/firmware/"

func TestFirmwareByNeed(t *testing.T) {
	b, lib := packages(t,
		deb("firmware-a", map[string]string{fw + "a/used.bin": "1", fw + "a/unused.bin": "2", fw + "a/v1.fw": "3", fw + "a/v2.fw": "4", fw + "extra/x": "5", "./usr/share/doc/a": "d"},
			symlink(fw+"a/link.bin", "used.bin")),
		deb("firmware-b", map[string]string{fw + "b.bin": "6"}))
	b.kernel = &kernel.Kernel{Firmware: []kernel.Firmware{{Name: "a/link.bin", Driver: "card"}, {Name: "a/used.bin", Driver: "other"}, {Name: "a/v?.fw", Driver: "card"},
		{Name: "b.bin", Driver: "disk"}, {Name: "nowhere.bin", Driver: "disk"}, {Name: "a/[", Driver: "odd"}}}
	b.recipe.Kernel.Firmware = []recipe.Firmware{{Package: "firmware-a", Reason: "cards", Files: []string{"/usr/lib/firmware/extra/*"}}, {Package: "firmware-b", Reason: "disks"}}
	if err := b.addFirmware(lib); err != nil {
		t.Fatal(err)
	}
	want := "usr/lib/firmware/a/link.bin usr/lib/firmware/a/used.bin usr/lib/firmware/a/v1.fw usr/lib/firmware/a/v2.fw usr/lib/firmware/b.bin usr/lib/firmware/extra/x"
	if got := paths(b.tree); got != want {
		t.Errorf("the tree holds %s\nwant %s", got, want)
	}
	if e := b.tree.Get("/usr/lib/firmware/a/v1.fw"); e.Reason != "cards: card" || e.Origin != "deb firmware-a 1" {
		t.Errorf("reason %q, origin %q", e.Reason, e.Origin)
	}
	b.recipe.Kernel.Firmware[0].Files = []string{"/usr/lib/firmware/missing"}
	if err := b.addFirmware(lib); err == nil || !strings.Contains(err.Error(), "holds no file /usr/lib/firmware/missing") {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestMicrocode(t *testing.T) {
	b, _ := packages(t,
		deb("intel-microcode", map[string]string{fw + "intel-ucode/06-0f-02": "B", fw + "intel-ucode/06-01-00": "A", "./usr/share/doc/i": "d"}),
		deb("amd64-microcode", map[string]string{fw + "amd-ucode/microcode_amd.bin": "C", fw + "amd-ucode/README": "no", fw + "amd/sev.sbin": "no"},
			symlink(fw+"amd-ucode/again.bin", "microcode_amd.bin")),
		deb("none", map[string]string{fw + "x": "y"}))
	if tree, err := b.microcode(context.Background()); tree != nil || err != nil {
		t.Errorf("without packages: %v, %v", tree, err)
	}
	b.recipe.Kernel.Microcode = []recipe.Microcode{{Package: "intel-microcode", Reason: "i", Arch: "amd64"}, {Package: "amd64-microcode", Reason: "a", Arch: "amd64"}}
	tree, err := b.microcode(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := paths(tree), "kernel/x86/microcode/AuthenticAMD.bin kernel/x86/microcode/GenuineIntel.bin"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for name, size := range map[string]int64{"GenuineIntel": 2, "AuthenticAMD": 1} {
		if e := tree.Get("/kernel/x86/microcode/" + name + ".bin"); e.Size != size {
			t.Errorf("%s has %d bytes, want %d", name, e.Size, size)
		}
	}
	b.recipe.Kernel.Microcode = []recipe.Microcode{{Package: "none", Reason: "n", Arch: "amd64"}}
	if _, err := b.microcode(context.Background()); err == nil || !strings.Contains(err.Error(), "package none has no file") {
		t.Errorf("a package without microcode: %v", err)
	}
}
