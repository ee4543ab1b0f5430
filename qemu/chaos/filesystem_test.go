package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// e2fsck's exit statuses and words, after a cut and after a shutdown.
func TestJudgeFileSystem(t *testing.T) {
	for _, tt := range []struct {
		name          string
		cut           bool
		preen, check  int // exit statuses of -p and of -fn
		said          string
		want          string // part of the loss
		times         int    // how often e2fsck ran
		harnessFailed bool
	}{
		{"replayed", true, 1, 0, "", "", 2, false},
		{"nothing to replay", true, 0, 0, "", "", 2, false},
		{"preen gives up", true, 4, 0, "UNEXPECTED INCONSISTENCY", "e2fsck -p, exit status 4: UNEXPECTED", 1, false},
		{"torn superblock", true, 8, 0, tornSuperblock + " while trying to open", "", 4, false},
		{"torn superblock that is not mended", true, 8, 4, tornSuperblock + " while trying to open", "torn superblock: e2fsck -fn after -fy, exit status 4", 4, false},
		{"no superblock at all", true, 8, 0, "Bad magic number in super-block", "e2fsck -p, exit status 8: Bad magic", 1, false},
		{"not clean after replay", true, 1, 4, "Free blocks count wrong", "e2fsck -fn, exit status 4: Free blocks", 2, false},
		{"clean shutdown", false, 9, 0, "", "", 1, false},
		{"journal left by a shutdown", false, 9, 0, "Warning: skipping journal recovery", "not unmounted", 1, false},
		{"no e2fsck", true, -1, 0, "", "", 1, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			disk := filepath.Join(dir, "disk")
			if err := os.WriteFile(disk, make([]byte, partitionStart+512), 0o600); err != nil {
				t.Fatal(err)
			}
			times := 0
			cmd := func(ctx context.Context, tool string, args ...string) *exec.Cmd {
				times++
				if tool != "e2fsck" || !slices.Contains(args, filepath.Join(dir, "part")) {
					t.Errorf("%s %q", tool, args)
				}
				status := tt.check
				if args[0] == "-p" {
					status = tt.preen
				}
				if status < 0 {
					return exec.CommandContext(ctx, filepath.Join(dir, "no-such-program"))
				}
				return exec.CommandContext(ctx, "sh", "-c", fmt.Sprintf("echo %q; exit %d", tt.said, status))
			}
			err := judgeFileSystem(t.Context(), cmd, disk, filepath.Join(dir, "part"), tt.cut)
			var lost lossError
			switch {
			case tt.harnessFailed:
				if err == nil || errors.As(err, &lost) {
					t.Errorf("a harness without its judge finds: %v", err)
				}
			case tt.want == "" && err != nil, tt.want != "" && (!errors.As(err, &lost) || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("%v, want %q", err, tt.want)
			}
			if times != tt.times {
				t.Errorf("e2fsck ran %d times, want %d", times, tt.times)
			}
			if fi, err := os.Stat(filepath.Join(dir, "part")); err != nil || fi.Size() != 512 {
				t.Errorf("the copy is not the partition: %v, %v", fi, err)
			}
		})
	}
}
