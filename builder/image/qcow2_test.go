package image

import (
	"context"
	"os"
	"strings"
	"testing"

	"garboard.local/builder/store"
)

// TestQCOW2JudgedByOthers has qemu-img check the image it wrote, compares it with
// the disk it was made of, and makes it a second time.
func TestQCOW2JudgedByOthers(t *testing.T) {
	run := tools(t)
	if run == nil {
		return
	}
	raw, _, err := Disk(context.Background(), openStore(t), run, "key", diskInput(t, "amd64"))
	if err != nil {
		t.Fatal(err)
	}
	var files, sums [2]string
	for i := range files {
		if files[i], _, err = QCOW2(context.Background(), openStore(t), run, "key", raw); err != nil {
			t.Fatal(err)
		}
		if sums[i], err = store.HashFile(files[i]); err != nil {
			t.Fatal(err)
		}
	}
	if sums[0] != sums[1] {
		t.Errorf("two images of one disk differ: %s, %s", sums[0], sums[1])
	}
	if out := output(t, run("qemu-img", "check", files[0])); !strings.Contains(out, "No errors were found") {
		t.Errorf("qemu-img check: %s", out)
	}
	if out := output(t, run("qemu-img", "compare", "-f", "raw", "-F", "qcow2", raw, files[0])); !strings.Contains(out, "identical") {
		t.Errorf("qemu-img compare: %s", out)
	}
	// Negative control: a damaged refcount table.
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if out, err := run("qemu-img", "check", "-f", "qcow2", write(t, "bad.qcow2", append(b[:64<<10], make([]byte, 128<<10)...))).CombinedOutput(); err == nil {
		t.Errorf("qemu-img takes a damaged image for whole: %s", out)
	}
	if _, _, err := QCOW2(context.Background(), openStore(t), run, "key", raw+".gone"); err == nil || !strings.Contains(err.Error(), "qemu-img") {
		t.Errorf("an image of a file that is not there: %v", err)
	}
}
