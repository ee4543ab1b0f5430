package builder

import (
	"strings"
	"testing"

	"garboard.local/builder/licence"
	"garboard.local/builder/report"
	"garboard.local/builder/rootfs"
)

// TestReferredLicences: a copyright file that refers to a licence comes with it.
func TestReferredLicences(t *testing.T) {
	texts := map[string]string{"GPL-2": "gpl two", "GPL": "gpl three", "GPL-3": "gpl three", "LGPL-2.1": "lgpl", "Artistic": "art"}
	var n licence.Notices
	n.Add("Debian package a 1", "see /usr/share/common-licenses/GPL-2. Or\n`/usr/share/common-licenses/LGPL-2.1', or /usr/share/common-licenses/GPL-9")
	n.Add("Debian package b 1", "see /usr/share/common-licenses/GPL")
	if err := addReferred(&n, texts); err != nil {
		t.Fatal(err)
	}
	got := string(n.Text())
	for text, want := range map[string]bool{"gpl two\n": true, "gpl three\n": true, "lgpl\n": true, "art\n": false} {
		if strings.Contains(got, "\n"+text) != want {
			t.Errorf("%q: there %t, want %t:\n%s", text, !want, want, got)
		}
	}
	if err := addReferred(&n, nil); err == nil || !strings.Contains(err.Error(), CommonLicences) {
		t.Errorf("no licences to refer to: %v", err)
	}
}

func TestManifestListsEveryPackage(t *testing.T) {
	m := &report.Manifest{
		Recipe: "metal", Arch: "amd64", Packages: []report.Package{{Name: "crun"}},
		Root: []*rootfs.Entry{
			{Path: "usr/bin/crun", Kind: rootfs.File, Origin: "deb crun 1.21-1"},
			{Path: "usr", Kind: rootfs.Dir, Origin: "deb base 1"},
			{Path: "etc/hosts", Kind: rootfs.File, Origin: "overlay base"},
		},
	}
	if err := listsAll(m); err != nil {
		t.Error(err)
	}
	m.Early = []*rootfs.Entry{{Path: "kernel/x86/microcode/GenuineIntel.bin", Kind: rootfs.File, Origin: "deb intel-microcode 3"}}
	if err := listsAll(m); err == nil || !strings.Contains(err.Error(), "intel-microcode") {
		t.Errorf("microcode is not listed: %v", err)
	}
}
