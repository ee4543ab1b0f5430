package qemu

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"garboard.local/builder/source/oci"
	"garboard.local/builder/source/oci/ocitest"
	"garboard.local/builder/unpack"
	"garboard.local/pod"
	"garboard.local/qemu/observed"
)

// overlayUnit loads what containers with images need; the machine has no modprobe.
const overlayUnit = `[Unit]
DefaultDependencies=no
Before=sysinit.target
[Service]
Type=oneshot
ExecStart=/observer load /overlay.ko
`

// Out of an image that convert unpacks (--image) it is the same, and rather more so.
func TestVMLongSystemdImages(t *testing.T) {
	dir := t.TempDir()
	b, err := os.ReadFile(filepath.Join(*imagesFlag, "systemd-amd64", "observer"))
	if err != nil {
		t.Fatalf("%v: %s", err, buildFirst)
	}
	from := filepath.Join(t.TempDir(), "layout")
	if err := ocitest.Layout(from, ocitest.Index(ocitest.Image("amd64", ocitest.Programs(map[string][]byte{"observer": b})))); err != nil {
		t.Fatal(err)
	}
	img, err := oci.Find(t.Context(), "oci:"+from, oci.Choice{Arch: "amd64"}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	images, err := unpack.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	made, err := images.Add(t.Context(), pod.ImageDir("localhost/garboard/observer:1"), "observer", img)
	if err := errors.Join(err, images.Close()); err != nil || len(made.Lost) != 0 {
		t.Fatal(err, made.Lost)
	}
	rows := withoutControl(t, observed.Rows(keptFacts(t, observedKubelet), underSystemd(t, AMD64, dir), keptFacts(t, observedInit), nil))
	unexplained, _, err := observed.Explained(rows, observed.Known, observed.Systemd)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range unexplained {
		t.Errorf("%s: kubelet %s, systemd with images %s", r.Key, orAbsent(r.Kubelet), orAbsent(r.Systemd))
	}
}
