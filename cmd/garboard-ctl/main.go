// Command garboard-ctl asks PID 1 for a restart, a shutdown or a reboot through
// the system socket. It is one small static program, so that a pod can carry it:
// each node has it as the image localhost/garboard/ctl:1.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"garboard.local/socket"
)

// Exit statuses, as the help text states them.
const (
	exitOK          = 0
	exitFailed      = 1 // connected, but PID 1 was not seen to read the command
	exitUsage       = 2
	exitUnreachable = 3 // no connection: no socket, no permission, nobody listens
)

const help = `garboard-ctl asks a Garboard node's PID 1 for something, through the system socket.

Usage: garboard-ctl [flags] COMMAND

  restart kubelet   end the kubelet and start it again; pods keep running
  restart runtime   end the container runtime and start it again; pods keep running
  shutdown          power off, with grace for the pods
  reboot            reboot, with grace for the pods
  poweroff-now      power off at once: SIGKILL, sync, unmount; only with --no-grace

Flags:
  --socket PATH     default: ` + socket.RestartPath + ` for restarts,
                    ` + socket.RootPath + ` for the rest
  --timeout D       ceiling of the whole call, default 10s
  --no-grace        confirms poweroff-now
  --help            this text

Examples:
  garboard-ctl restart kubelet
  garboard-ctl --timeout 3s shutdown
  garboard-ctl --socket /sockets/restart.sock restart runtime

In a pod, mount the socket by hostPath at its own path (type: Socket).
` + socket.RestartPath + ` takes the restarts only and may be given to a pod
without privileges; ` + socket.RootPath + ` needs uid 0 and takes everything.

Exit status:
  0  PID 1 has read the command. The protocol has no reply: what it does then, it
     says on the console and in /var/log/garboard/init.log
  1  connected, but PID 1 was not seen to read the command within the timeout
  2  the command line is wrong
  3  no connection: the socket is not mounted, not permitted, or nobody listens
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr, socket.Send))
}

// request is what the command line asks for.
type request struct {
	command socket.Command
	path    string
	timeout time.Duration
}

// run is the program; send is socket.Send.
func run(ctx context.Context, args []string, stdout, stderr io.Writer,
	send func(context.Context, string, socket.Command) error) int {
	r, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, help)
		return exitOK
	}
	if err != nil {
		fmt.Fprintf(stderr, "garboard-ctl: %v; see garboard-ctl --help\n", err)
		return exitUsage
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	if err := send(ctx, r.path, r.command); err != nil {
		cure, status := explain(err, r.path)
		fmt.Fprintf(stderr, "garboard-ctl: %s: %v%s\n", r.command, err, cure)
		return status
	}
	fmt.Fprintf(stdout, "garboard-ctl: %s: PID 1 has read it\n", r.command)
	return exitOK
}

// parse takes flags before, between and after the words of the command.
func parse(args []string) (request, error) {
	var r request
	var noGrace bool
	fs := flag.NewFlagSet("garboard-ctl", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&r.path, "socket", "", "")
	fs.DurationVar(&r.timeout, "timeout", 10*time.Second, "")
	fs.BoolVar(&noGrace, "no-grace", false, "")
	var words []string
	for {
		if err := fs.Parse(args); err != nil {
			return r, err
		}
		if fs.NArg() == 0 {
			break
		}
		words, args = append(words, fs.Arg(0)), fs.Args()[1:]
	}
	if r.timeout <= 0 {
		return r, fmt.Errorf("--timeout %s: must be more than 0", r.timeout)
	}
	path := socket.RootPath
	if len(words) == 0 {
		return r, errors.New("no command: there are restart, shutdown, reboot, poweroff-now")
	}
	rest := words[1:]
	switch words[0] {
	case "restart":
		if len(rest) == 0 {
			return r, errors.New("restart what: kubelet or runtime")
		}
		path = socket.RestartPath
		switch rest[0] {
		case "kubelet":
			r.command = socket.RestartKubelet
		case "runtime":
			r.command = socket.RestartRuntime
		default:
			return r, fmt.Errorf("restart %q: only kubelet and runtime can be restarted", rest[0])
		}
		rest = rest[1:]
	case "shutdown":
		r.command = socket.Shutdown
	case "reboot":
		r.command = socket.Reboot
	case "poweroff-now":
		if !noGrace {
			return r, errors.New("poweroff-now kills every pod without grace: add --no-grace if that is meant, or use shutdown")
		}
		r.command = socket.Continue // outside a shutdown; see the protocol
	default:
		return r, fmt.Errorf("unknown command %q: there are restart, shutdown, reboot, poweroff-now", words[0])
	}
	if len(rest) > 0 {
		return r, fmt.Errorf("%q is too much", rest[0])
	}
	if noGrace && r.command != socket.Continue {
		return r, fmt.Errorf("--no-grace goes with poweroff-now only")
	}
	if r.path == "" {
		r.path = path
	}
	return r, nil
}

// explain gives a failure its cure and its exit status.
func explain(err error, path string) (cure string, status int) {
	switch {
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENOTDIR):
		return "; is the socket mounted? A pod needs a hostPath volume of type Socket with path " + path, exitUnreachable
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return "; this socket is for uid 0: run as root, or use " + socket.RestartPath + ", which takes restarts from everyone it is mounted for", exitUnreachable
	case errors.Is(err, syscall.ECONNREFUSED):
		return "; nobody listens: PID 1 is not a Garboard init, has gone far down in a shutdown, or the mount is older than this boot", exitUnreachable
	case errors.Is(err, syscall.ENOTSOCK), errors.Is(err, syscall.EPROTOTYPE):
		return "; this is not the system socket", exitUnreachable
	}
	return "", exitFailed
}
