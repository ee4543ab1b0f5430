package qemu

import "golang.org/x/sys/unix"

// waitExited waits until the child has exited, without reaping it: its process
// number cannot go to another process before it is reaped.
func waitExited(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return
		}
	}
}
