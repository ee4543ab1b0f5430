package chaos

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"garboard.local/qemu/powercut"
)

// Command makes the command that runs a host tool by its name, such as e2fsck.
type Command func(ctx context.Context, tool string, args ...string) *exec.Cmd

// partitionStart is where the data partition begins on a disk that the node
// itself divided, in bytes.
const partitionStart = 1 << 20

// judgeFileSystem has e2fsck say what it thinks of a disk without power. After a
// power cut the journal is replayed first, on a copy, as the node does it at
// boot; what is left must be clean. After a shutdown there must be nothing to
// replay. The copy, of the partition alone, is left in part: e2fsck can look at
// a partition inside a file, but loses its place after it replayed the journal.
func judgeFileSystem(ctx context.Context, cmd Command, disk, part string, cut bool) error {
	if err := powercut.CopySparse(part, disk, partitionStart); err != nil {
		return err
	}
	if cut {
		status, out, err := run(cmd(ctx, "e2fsck", "-p", part))
		if err == nil && status == 8 && strings.Contains(out, tornSuperblock) {
			return mendSuperblock(ctx, cmd, part)
		}
		if err != nil {
			return err
		}
		if status != 0 && status != 1 { // e2fsck(8): 1 = errors corrected
			return lossError(fmt.Sprintf("file system: e2fsck -p, exit status %d: %s", status, out))
		}
	}
	status, out, err := run(cmd(ctx, "e2fsck", "-fn", part))
	switch {
	case err != nil:
		return err
	case status != 0:
		return lossError(fmt.Sprintf("file system: e2fsck -fn, exit status %d: %s", status, out))
	case !cut && strings.Contains(out, "recover"):
		return lossError("file system: was not unmounted by the shutdown: " + out)
	}
	return nil
}

// tornSuperblock is what e2fsck says of ext4's superblock, two sectors that are
// written in place, when one of them is of before the cut and the other of after it.
const tornSuperblock = "Superblock checksum does not match superblock"

// mendSuperblock does what a node does then (init/data, Mend): e2fsck takes a copy of
// the superblock and replays the journal, for which it may need two runs. After that
// nothing may be left to repair; whether what was promised is there is for others.
func mendSuperblock(ctx context.Context, cmd Command, part string) error {
	var status int
	var out string
	for _, flags := range []string{"-fy", "-fy", "-fn"} {
		var err error
		if status, out, err = run(cmd(ctx, "e2fsck", flags, part)); err != nil {
			return err
		}
	}
	if status != 0 {
		return lossError(fmt.Sprintf("file system: torn superblock: e2fsck -fn after -fy, exit status %d: %s", status, out))
	}
	return nil
}

// lossError is a finding, not a failure of the harness.
type lossError string

func (e lossError) Error() string { return string(e) }

func run(cmd *exec.Cmd) (status int, out string, err error) {
	b, err := cmd.CombinedOutput()
	out = strings.Join(strings.Fields(string(b)), " ")
	if len(out) > 600 {
		out = out[:600] + " ..."
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return exit.ExitCode(), out, nil
	}
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, out)
	}
	return 0, out, err
}
