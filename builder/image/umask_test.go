package image

import (
	"context"
	"errors"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"garboard.local/builder/store"
)

func TestUmasked(t *testing.T) {
	defer unix.Umask(unix.Umask(0o077))
	const show = `umask; printf %s "$1"`
	if out, err := exec.Command("sh", "-c", show, "sh", "a b").Output(); err != nil || string(out) != "0077\na b" {
		t.Fatalf("the control says %q, %v", out, err)
	}
	if out, err := umasked(exec.Command("sh", "-c", show, "sh", "a b")).Output(); err != nil || string(out) != "0022\na b" {
		t.Errorf("%q, %v", out, err)
	}
	if err := umasked(exec.Command("/nonexistent/tool")).Run(); err == nil {
		t.Error("a tool that is not there runs")
	}
	broken := exec.Command("tool")
	broken.Err = errors.New("not to be found")
	if err := umasked(broken).Run(); err == nil || err.Error() != "not to be found" {
		t.Errorf("a command that cannot run says %v", err)
	}
}

// The root image in both settings does not depend on the user's umask.
func TestUmaskDoesNotReachTheRootImage(t *testing.T) {
	run := tools(t)
	if run == nil {
		return
	}
	for _, c := range []Compression{Fast, Small} {
		var sums []string
		for _, mask := range []int{0o022, 0o077} {
			old := unix.Umask(mask)
			file, _, err := EROFS(context.Background(), openStore(t), run, "key", oddTree(t), c, epoch)
			unix.Umask(old)
			if err != nil {
				t.Fatal(err)
			}
			sum, err := store.HashFile(file)
			if err != nil {
				t.Fatal(err)
			}
			sums = append(sums, sum)
		}
		if sums[0] != sums[1] {
			t.Errorf("%s: with umask 022 %s, with 077 %s", c.Name, sums[0], sums[1])
		}
	}
}
