package boot

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	kernelThread = 0x00200000 // PF_KTHREAD of linux/sched.h
	mostNamed    = 8          // processes named on one line
)

// survivors names the user-space processes below proc, other than this one: pid,
// command and state; "" if there is none.
func survivors(proc string) string {
	var names []string
	more := 0
	files, _ := filepath.Glob(proc + "/[1-9]*/stat")
	for _, f := range files {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		if err != nil || pid == os.Getpid() {
			continue
		}
		b, err := os.ReadFile(f)
		if err != nil {
			continue // it has ended
		}
		comm, state, ok := userProcess(string(b))
		switch {
		case !ok:
		case len(names) == mostNamed:
			more++
		default:
			names = append(names, fmt.Sprintf("%d (%s, %s)", pid, comm, state))
		}
	}
	if more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// userProcess reads proc_pid_stat(5): field 2 is the command in parentheses, any
// bytes; 3 the state; 9 the flags. It says false for threads of the kernel.
func userProcess(stat string) (comm, state string, ok bool) {
	open, end := strings.IndexByte(stat, '('), strings.LastIndexByte(stat, ')')
	if open < 0 || end < open {
		return "", "", false
	}
	f := strings.Fields(stat[end+1:])
	if len(f) < 7 {
		return "", "", false
	}
	flags, err := strconv.ParseUint(f[6], 10, 64)
	return stat[open+1 : end], f[0], err == nil && flags&kernelThread == 0
}
