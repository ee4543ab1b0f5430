package boot

import (
	"cmp"
	"context"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"garboard.local/init/cgroup"
	"garboard.local/init/mounts"
	"garboard.local/init/shutdown"
	"garboard.local/init/supervise"
	"garboard.local/init/table"
	"garboard.local/socket"
)

// This file and socket.go say what the steps of package shutdown mean on a node.

// machine is shutdown.Machine.
type machine struct{ n *node }

func (machine) Grace() (time.Duration, error) { return socket.ReadGrace(socket.GraceFile) }

func (m machine) KillAll(kill bool) {
	if os.Getpid() != 1 {
		return // kill(-1) is for PID 1 alone
	}
	sig := unix.SIGTERM
	if kill {
		sig = unix.SIGKILL
	}
	_ = unix.Kill(-1, sig) // ESRCH: nobody is left
}

func (m machine) WaitAlone(ctx context.Context) bool { return m.n.reaper.WaitChildless(ctx) }

func (m machine) DrainLogs(ctx context.Context) {
	if f := m.n.follower.Load(); f != nil {
		f.Drain(ctx)
	}
}

func (m machine) CloseAll() {
	m.n.cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer m.n.guard("end of the background work")
		m.n.bg.Wait()
		m.n.saveSeed()
		if s := m.n.server.Load(); s != nil {
			if err := s.Close(); err != nil {
				m.n.printf("shutdown: %v", err)
			}
		}
	}()
	t := time.NewTimer(closeLimit)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
		m.n.printf("shutdown: background work did not end within %s", closeLimit)
	}
	if err := m.n.log.Close(); err != nil {
		m.n.printf("shutdown: init.log: %v", err)
	}
}

const (
	closeLimit  = 2 * time.Second
	sysrqWait   = time.Second
	syncLimit   = 8 * time.Second // of a file system that PID 1 sees; both within shutdown.Limits.Sync
	syncRest    = time.Second
	umountLimit = 3 * time.Second // of one file system
)

// Sync writes out each file system by itself, then what only other mount
// namespaces have: the kernel goes on with that in the background.
func (m machine) Sync() {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		m.n.printf("shutdown: sync: %v", err)
	}
	list, err := mounts.ParseInfo(string(b))
	if err != nil {
		m.n.printf("shutdown: sync: %v", err)
	}
	for _, doubt := range mounts.Sync(list, mounts.Syncfs, syncLimit) {
		m.n.printf("shutdown: %s", doubt)
	}
	done := make(chan struct{})
	go func() { unix.Sync(); close(done) }()
	t := time.NewTimer(syncRest)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
}

func (m machine) Unmount(expired <-chan struct{}) []string {
	r := mounts.Releaser{Printf: m.n.printf, Swapoff: mounts.Swapoff, Detach: mounts.DetachLoop}
	u := mounts.Unmounter{Sys: m.n.sys, Printf: m.n.printf, Each: umountLimit, Rounds: 5, Expired: expired, Release: r.Free,
		Survivors: survivors("/proc") != "", Freeze: mounts.Freeze,
		Read: func() (string, error) {
			b, err := os.ReadFile("/proc/self/mountinfo")
			return string(b), err
		}}
	return u.All()
}

// Survivors names the processes that are left. Reading comm and stat never
// waits for the process, as reading its command line may.
func (machine) Survivors() string {
	return cmp.Or(survivors("/proc"), "a process that cannot be seen any more")
}

// ReadOnly has the kernel make every file system read-only, whoever has it
// mounted (Documentation/admin-guide/sysrq.rst, 'u'). The kernel does it in the
// background and does not say when it is done.
func (m machine) ReadOnly() {
	m.n.printf("shutdown: everything that is still mounted is made read-only")
	if err := os.WriteFile("/proc/sysrq-trigger", []byte("u"), 0); err != nil {
		m.n.printf("shutdown: %v", err)
		return
	}
	time.Sleep(sysrqWait)
}

func (m machine) Flush(d time.Duration) { m.n.console.Flush(d) }

func (m machine) End(mode shutdown.Mode) {
	cmd := unix.LINUX_REBOOT_CMD_POWER_OFF
	if mode == shutdown.Reboot {
		cmd = unix.LINUX_REBOOT_CMD_RESTART
	}
	m.n.disarmWatchdog()
	if err := unix.Reboot(cmd); err != nil {
		m.n.printf("%s: %v", mode, err)
	}
}

// pods is shutdown.Pods.
type pods struct{ n *node }

// procs lists the containers' processes. Their monitors are left alone: they
// end by themselves once they have written the container's last lines.
func (p pods) procs(all bool) []int {
	var out []int
	if !p.n.groups.Populated(cgroup.Pods) {
		return nil
	}
	for _, pid := range p.n.groups.Procs(cgroup.Pods) {
		comm, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
		if err == nil && (all || strings.TrimSpace(string(comm)) != "conmon") {
			out = append(out, pid)
		}
	}
	return out
}

func (p pods) Left() bool { return len(p.procs(false)) > 0 }

func (p pods) Signal(kill bool) int {
	sig := unix.SIGTERM
	if kill {
		sig = unix.SIGKILL
	}
	list := p.procs(kill)
	for _, pid := range list {
		_ = unix.Kill(pid, sig) // it may have ended meanwhile
	}
	return len(list)
}

func (p pods) WaitGone(ctx context.Context) bool {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for p.Left() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// supervised is shutdown.Services; before the boot has got that far there are none.
func (n *node) supervised() shutdown.Services {
	if v := n.services.Load(); v != nil {
		return services{v}
	}
	return noServices{}
}

type services struct{ *supervise.Supervisor }

func (s services) KubeletAge() time.Duration            { return s.Age(table.RoleKubelet) }
func (s services) KubeletAlive() bool                   { return s.Alive(table.RoleKubelet) }
func (s services) WaitKubeletDead(ctx context.Context)  { s.RoleEnded(ctx, table.RoleKubelet) }
func (s services) StopKubelet(ctx context.Context) bool { return s.Stop(ctx, table.RoleKubelet) }
func (s services) StopOthers(ctx context.Context) bool  { return s.Stop(ctx, "") }
func (s services) StopRuntime(ctx context.Context) bool { return s.Stop(ctx, table.RoleRuntime) }

type noServices struct{}

func (noServices) NoMoreRestarts()                  {}
func (noServices) KubeletAge() time.Duration        { return 0 }
func (noServices) KubeletAlive() bool               { return false }
func (noServices) WaitKubeletDead(context.Context)  {}
func (noServices) StopKubelet(context.Context) bool { return false }
func (noServices) StopOthers(context.Context) bool  { return false }
func (noServices) StopRuntime(context.Context) bool { return false }
func (noServices) Close() error                     { return nil }
