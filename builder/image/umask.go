package image

import "os/exec"

// umasked has a command run with the file mode creation mask 022, whatever the
// user's is: mkfs.erofs gives the inode that holds fragments the mode of a temporary
// file of its own, so that the mask would reach the image. A process has one mask for
// all its threads; the shell sets it for the child alone.
func umasked(cmd *exec.Cmd) *exec.Cmd {
	if cmd.Err != nil {
		return cmd
	}
	sh, err := exec.LookPath("sh")
	if err != nil {
		cmd.Err = err
		return cmd
	}
	cmd.Args = append([]string{"sh", "-c", `umask 022; exec "$@"`, "sh", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = sh
	return cmd
}
