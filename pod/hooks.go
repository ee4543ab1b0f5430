package pod

import (
	"strconv"
	"strings"
	"time"

	"garboard.local/init/table"
)

// hook is a hook for PID 1, which can sleep by itself.
func hook(argv []string) *table.Hook {
	if len(argv) == 0 {
		return nil
	}
	if argv[0] != "" {
		return &table.Hook{Exec: argv}
	}
	d, _ := time.ParseDuration(argv[len(argv)-1]) // hook() of the translation wrote it
	return &table.Hook{SleepSeconds: int64(d / time.Second)}
}

// signals are the numbers of the stop signals that Kubernetes knows (signal(7)); they
// are the same on amd64 and arm64.
var signals = map[string]int{
	"SIGHUP": 1, "SIGINT": 2, "SIGQUIT": 3, "SIGILL": 4, "SIGTRAP": 5, "SIGABRT": 6, "SIGIOT": 6, "SIGBUS": 7, "SIGFPE": 8, "SIGKILL": 9,
	"SIGUSR1": 10, "SIGSEGV": 11, "SIGUSR2": 12, "SIGPIPE": 13, "SIGALRM": 14, "SIGTERM": 15, "SIGSTKFLT": 16, "SIGCHLD": 17, "SIGCLD": 17,
	"SIGCONT": 18, "SIGSTOP": 19, "SIGTSTP": 20, "SIGTTIN": 21, "SIGTTOU": 22, "SIGURG": 23, "SIGXCPU": 24, "SIGXFSZ": 25, "SIGVTALRM": 26,
	"SIGPROF": 27, "SIGWINCH": 28, "SIGIO": 29, "SIGPOLL": 29, "SIGPWR": 30, "SIGSYS": 31,
}

// signalNumber is the number of a signal by its name or number: 0 if there is none, -1
// of real-time signals.
func signalNumber(s string) int {
	n, err := strconv.Atoi(s)
	switch {
	case err == nil && n > 31, strings.HasPrefix(s, "SIGRTM"):
		return -1
	case err == nil:
		return n
	}
	return signals[s]
}
