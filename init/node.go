package boot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"garboard.local/init/cgroup"
	"garboard.local/init/clock"
	"garboard.local/init/console"
	"garboard.local/init/logs"
	"garboard.local/init/modules"
	"garboard.local/init/mounts"
	"garboard.local/init/podlog"
	"garboard.local/init/power"
	"garboard.local/init/rootfs"
	"garboard.local/init/settings"
	"garboard.local/init/shutdown"
	"garboard.local/init/supervise"
	"garboard.local/init/table"
	"garboard.local/init/watchdog"
	"garboard.local/socket"
)

const (
	logDir       = "/var/log/garboard"
	podLogDir    = "/var/log/pods"
	consoleParam = "garboard.console"
	rootParam    = "garboard.root"    // the GUID of the partition with the root image
	modulesParam = "garboard.modules" // "locked": none is loaded after the boot
	runtimeLimit = 2 * time.Minute
	debounce     = time.Second // of the power button
)

// buttonModules make the power button's events and let programs read them.
var buttonModules = []string{"button", "gpio_keys", "evdev"}

// node is the state of PID 1. What a phase sets, only phases after it read; the
// two that a shutdown may look at any time are atomic.
type node struct {
	sys     mounts.Syscalls
	console *console.Console
	log     *logs.Log // what PID 1 itself prints
	printf  func(format string, args ...any)
	reaper  *supervise.Reaper
	groups  cgroup.Tree
	end     *shutdown.Sequence
	gate    *gate

	ctx    context.Context // ends when the background work must end
	cancel context.CancelFunc
	bg     sync.WaitGroup

	cmdline settings.Cmdline
	table   *table.Table
	modules *modules.Index
	given   rootfs.Files // what a boot loader laid into /etc
	naming  settings.Naming
	clock   *clock.Keeper
	layers  []string // of /etc, between the image's and what was written
	etcDir  string   // where the writable half of /etc lies
	hasData bool     // /var is on the data partition

	services atomic.Pointer[supervise.Supervisor]
	server   atomic.Pointer[socket.Server]
	watchdog atomic.Pointer[watchdog.Device]
	follower atomic.Pointer[podlog.Follower]
}

// Main is PID 1's life. It never returns.
func Main() {
	n := &node{sys: mounts.Kernel{}, groups: cgroup.Tree{Root: "/sys/fs/cgroup"},
		console: console.New(os.Stderr, time.Now), log: logs.New(0), reaper: supervise.NewReaper(), gate: newGate(), etcDir: etcLocal}
	n.console.Keep(func(line string) {
		_, _ = fmt.Fprintf(n.log, "%s %s\n", time.Now().UTC().Format("2006-01-02T15:04:05.000Z"), line) // it never fails
	})
	n.printf = n.console.Printf
	n.naming = settings.Naming{Set: n.setHostname, Printf: n.printf}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.end = shutdown.New(shutdown.Config{Printf: n.printf, Boot: n.gate, Lock: n.lock, Services: n.supervised,
		Pods: pods{n}, Machine: machine{n}, Limits: shutdown.DefaultLimits()})
	go func() {
		defer n.guard("reaper")
		n.reaper.Run(nil)
	}()
	n.listen()
	go func() {
		defer n.guard("boot")
		r := runner{printf: n.printf, now: time.Now, gate: n.gate}
		if err := r.run(n.phases()); err != nil {
			n.end.Ask(shutdown.Request{Mode: shutdown.Reboot, Who: "PID 1", Fault: "boot: " + oneLine(err)})
		}
	}()
	n.end.Run()
	select {} // the kernel refused; a PID 1 that ends is a kernel panic
}

// guard is deferred in each goroutine: a panic leads to the one way down.
func (n *node) guard(who string) {
	v := recover()
	if v == nil {
		return
	}
	for line := range strings.SplitSeq(string(debug.Stack()), "\n") {
		n.printf("panic: %s", line)
	}
	n.end.Ask(shutdown.Request{Mode: shutdown.Reboot, Who: "PID 1", Fault: fmt.Sprintf("panic in %s: %v", who, v)})
}

// background runs f until the end of the node.
func (n *node) background(who string, f func(context.Context)) {
	n.bg.Go(func() {
		defer n.guard(who)
		f(n.ctx)
	})
}

// openConsole begins to write what was printed so far, and from now on.
func (n *node) openConsole() {
	// Without "on" the kernel drops what a program writes to kmsg too fast.
	devkmsg := settings.Sysctl("/", "kernel.printk_devkmsg", "on")
	if b, err := os.ReadFile("/proc/sys/kernel/printk"); err == nil {
		n.console.SetLevel(string(b))
	}
	n.console.SetWriter(console.Open("/"))
	go func() {
		defer n.guard("console")
		n.console.Run(nil)
	}()
	b, err := os.ReadFile("/proc/cmdline")
	if err = errors.Join(devkmsg, err); err != nil {
		n.printf("console: %s", oneLine(err))
	}
	n.cmdline = settings.ParseCmdline(string(b))
}

// limits sets what every process of the node inherits, and takes ctrl-alt-del
// from the kernel, which would reboot without a word.
func (n *node) limits() error {
	unix.Umask(0o022)
	var errs []error
	for _, l := range []struct {
		name   string
		what   int
		rlimit syscall.Rlimit
	}{
		// A low soft limit is for programs that still use select(2); those that
		// need more, as all in Go, raise it.
		{"open files", syscall.RLIMIT_NOFILE, syscall.Rlimit{Cur: 1024, Max: 524288}},
		// The kernel's default comes from the memory's size and counts per user
		// over all pods; the pids controller is the right place for a limit.
		{"processes", unix.RLIMIT_NPROC, syscall.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}},
	} {
		// Through package syscall: the Go runtime then hands it on to children as it is.
		if err := syscall.Setrlimit(l.what, &l.rlimit); err != nil {
			errs = append(errs, fmt.Errorf("limit of %s: %w", l.name, err))
		}
	}
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_CAD_OFF); err != nil {
		errs = append(errs, fmt.Errorf("take ctrl-alt-del from the kernel: %w", err))
	}
	return errors.Join(errs...)
}

// listen takes signals to PID 1.
func (n *node) listen() {
	c := make(chan os.Signal, 16)
	// Unless somebody listens, a write to a pipe that nobody reads ends a Go program.
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)
	what := map[os.Signal]power.Signal{}
	for _, s := range power.Signals() {
		what[s.Signal] = s
		signal.Notify(c, s.Signal)
	}
	go func() {
		defer n.guard("signals")
		for s := range c {
			n.signalled(what[s])
		}
	}()
}

func (n *node) signalled(s power.Signal) {
	switch s.Action {
	case power.PowerOff:
		n.end.Ask(shutdown.Request{Mode: shutdown.PowerOff, Who: s.Who})
	case power.Reboot:
		n.end.Ask(shutdown.Request{Mode: shutdown.Reboot, Who: s.Who})
	case power.None:
		n.printf("%s: does nothing", s.Who)
	case power.Report:
		n.printf("report: %d orphans reaped", n.reaper.Orphans())
		if v := n.services.Load(); v != nil {
			for _, line := range v.States() {
				n.printf("report: service %s", line)
			}
		}
	}
}

// powerButton watches for the power key. Its two modules come before the rest of
// the table's: what is pressed while there is no driver, nobody ever hears of.
func (n *node) powerButton() error {
	var errs []error
	for _, m := range n.table.Modules {
		if n.modules != nil && slices.Contains(buttonModules, m) {
			errs = append(errs, n.modules.Load(m))
		}
	}
	b := &power.Button{Dir: "/dev/input", Printf: n.printf, Guard: n.guard,
		Pressed: power.Debounce(debounce, time.Now, func() {
			n.end.Ask(shutdown.Request{Mode: shutdown.PowerOff, Who: "the power button"})
		})}
	n.background("power button", b.Run)
	return errors.Join(errs...)
}

func (n *node) startFollower() error {
	f := &podlog.Follower{Dir: podLogDir, Emit: n.console.Guest, Printf: n.printf, Skip: n.isNodePod}
	if err := f.Start(); err != nil {
		return err
	}
	n.background("pod logs", f.Run)
	n.follower.Store(f)
	return nil
}

// isNodePod says whether a container is one of the node pod's, which repeats
// what PID 1 and the services have written: on the console that was or can be
// seen already (garboard.console=services). The pod's name has the node's name in
// it, which may change; its containers are named after the services.
func (n *node) isNodePod(namespace, pod, container string) bool {
	return namespace == "kube-system" && strings.HasPrefix(pod, "node-") && (container == "init" ||
		slices.ContainsFunc(n.table.Services, func(s table.Service) bool { return s.Name == container }))
}

// withRole is the name of the service with a role, or "".
func (n *node) withRole(role string) string {
	for _, s := range n.table.Services {
		if s.Role == role {
			return s.Name
		}
	}
	return ""
}

// machineID writes /etc/machine-id if the image has none.
func machineID() error {
	const file = "/etc/machine-id"
	if st, err := os.Stat(file); err == nil && st.Size() > 0 {
		return nil
	}
	uuid, _ := os.ReadFile("/sys/class/dmi/id/product_uuid") // a machine without one gets a random id
	id, err := settings.MachineID(string(uuid))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return settings.WriteFile(filepath.Clean(file), id, 0o444)
}
