package qemu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// startCeiling bounds the time from QEMU's start to its answer on QMP.
const startCeiling = time.Minute

// maxSocketPath is what fits into sockaddr_un with its final zero (unix(7)).
const maxSocketPath = 107

// VM is a machine that was started. Close must be called in the end.
type VM struct {
	Console *Console
	Accel   string   // the accelerator in use and why, for the person who waits
	Args    []string // QEMU's arguments

	name    string
	dir     string
	logFile *os.File
	mon     *monitor
	stderr  *tailBuffer
	started time.Time

	mu     sync.Mutex
	pid    int // process group; 0 once QEMU was waited for
	killed bool
	exit   Exit

	gone chan struct{} // QEMU was waited for
	done chan struct{} // exit is complete
	free sync.Once
}

// Start runs the machine until it ends by itself, Close is called or ctx ends;
// in each case no QEMU is left behind, also not if this process dies.
func (m Machine) Start(ctx context.Context) (*VM, error) {
	m, err := m.withDefaults()
	if err != nil {
		return nil, err
	}
	accel, err := chooseAccel(m.Accel, m.Arch, hostKVM)
	if err != nil {
		return nil, fmt.Errorf("machine %s: %w", m.Name, err)
	}
	dir, err := socketDir()
	if err != nil {
		return nil, fmt.Errorf("machine %s: %w", m.Name, err)
	}
	vm := &VM{
		Accel: fmt.Sprintf("%s (%s)", accel.accel, accel.why),
		name:  m.Name, dir: dir, stderr: &tailBuffer{}, started: time.Now(),
		gone: make(chan struct{}), done: make(chan struct{}),
	}
	if err := vm.launch(ctx, m, accel); err != nil {
		vm.Kill()
		vm.release()
		return nil, fmt.Errorf("machine %s: %w", m.Name, err)
	}
	return vm, nil
}

// socketDir makes the run's own directory, short enough for a unix socket in it.
func socketDir() (string, error) {
	for _, parent := range []string{os.TempDir(), "/tmp"} {
		dir, err := os.MkdirTemp(parent, "garboard-vm-")
		if err != nil {
			return "", err
		}
		if len(filepath.Join(dir, "qmp")) <= maxSocketPath {
			return dir, nil
		}
		os.Remove(dir)
	}
	return "", fmt.Errorf("TMPDIR %s and /tmp: paths too long for a unix socket", os.TempDir())
}

func (vm *VM) launch(ctx context.Context, m Machine, accel accelChoice) error {
	var log io.Writer
	if m.Log != "" {
		f, err := os.Create(m.Log)
		if err != nil {
			return err
		}
		vm.logFile, log = f, f
	}
	vm.Console = newConsole(log, m.Output, accel.accel == AccelTCG && m.CPUs > 1, time.Now)
	socket := filepath.Join(vm.dir, "qmp")
	vm.Args = m.args(accel, socket)

	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	// Not ctx: QEMU is killed as a group below, and waited for in one place.
	cmd := m.Tool.Command(context.WithoutCancel(ctx), Binary(m.Arch), vm.Args...)
	cmd.Env = append(cmd.Environ(), m.Tool.Env...)
	cmd.Stdout, cmd.Stderr = w, vm.stderr
	// Its own group: a terminal's ctrl-C reaches us alone. Should we be killed,
	// the kernel kills QEMU.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	err = vm.spawn(cmd)
	w.Close()
	if err != nil {
		r.Close()
		return err
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		io.Copy(vm.Console, r) // ends when QEMU does; the console takes all writes
		r.Close()
		vm.Console.end()
	}()
	stop := context.AfterFunc(ctx, vm.Kill)

	dialCtx, cancel := context.WithTimeoutCause(ctx, startCeiling, fmt.Errorf("no answer for %s", startCeiling))
	defer cancel()
	if vm.mon, err = dialMonitor(dialCtx, socket, vm.gone); err != nil {
		vm.Kill()
		<-vm.gone
		return errors.Join(err, vm.qemuError())
	}
	listened := make(chan struct{})
	go func() {
		defer close(listened)
		vm.listen()
	}()
	go func() {
		<-vm.gone
		<-read
		<-listened
		stop()
		vm.finish()
	}()
	// QEMU waits (-S) until we listen, so no event and no line can be missed.
	return vm.mon.execute(ctx, "cont", nil)
}

// spawn starts cmd from a thread that lives as long as the process: Pdeathsig
// is about the thread, not the process, that forked (prctl(2)).
func (vm *VM) spawn(cmd *exec.Cmd) error {
	begun := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			close(vm.gone)
			begun <- fmt.Errorf("start %s: %w", filepath.Base(cmd.Path), err)
			return
		}
		vm.mu.Lock()
		vm.pid = cmd.Process.Pid
		vm.mu.Unlock()
		begun <- nil
		// Look before reaping: as long as QEMU is a zombie its number is its own.
		waitExited(cmd.Process.Pid)
		vm.mu.Lock()
		vm.pid = 0
		vm.mu.Unlock()
		err := cmd.Wait()
		vm.mu.Lock()
		if err != nil && !vm.killed {
			vm.exit.Err = err
		}
		vm.mu.Unlock()
		close(vm.gone)
	}()
	return <-begun
}

// listen follows QMP's events until QEMU closes the connection.
func (vm *VM) listen() {
	for ev := range vm.mon.events {
		vm.mu.Lock()
		ended := vm.exit.note(ev)
		vm.mu.Unlock()
		if ended {
			// Not here: the answer arrives behind events that only we drain.
			go func() {
				if err := vm.mon.execute(context.Background(), "quit", nil); err != nil {
					select {
					case <-vm.gone: // it was on its way out
					case <-time.After(commandCeiling):
						vm.Kill()
					}
				}
			}()
		}
	}
}

func (vm *VM) finish() {
	vm.mon.m.Disconnect()
	fault := vm.Console.Fault()
	vm.mu.Lock()
	defer vm.mu.Unlock()
	if fault != nil && fault.Kind == FaultPanic {
		vm.exit.Panicked = true
	}
	switch {
	case vm.exit.Reason != "":
	case vm.killed:
		vm.exit.Reason = "killed"
	default:
		vm.exit.Reason = "exited"
	}
	if vm.exit.Err != nil {
		vm.exit.Err = errors.Join(vm.exit.Err, vm.qemuError())
	}
	close(vm.done)
}

// qemuError is what QEMU said on its standard error, or nil.
func (vm *VM) qemuError() error {
	if s := vm.stderr.String(); s != "" {
		return fmt.Errorf("QEMU said: %s", s)
	}
	return nil
}

// Expect is Console.Expect.
func (vm *VM) Expect(ctx context.Context, re *regexp.Regexp) (Match, error) {
	return vm.Console.Expect(ctx, re)
}

// PowerButton presses the machine's power button (ACPI).
func (vm *VM) PowerButton(ctx context.Context) error {
	return vm.mon.execute(ctx, "system_powerdown", nil)
}

// CtrlAltDel presses these three keys on the machine's keyboard.
func (vm *VM) CtrlAltDel(ctx context.Context) error {
	return vm.mon.sendKeys(ctx, "ctrl", "alt", "delete")
}

// Quit ends QEMU in an orderly way, as if the plug was pulled for the guest.
func (vm *VM) Quit(ctx context.Context) error { return vm.mon.execute(ctx, "quit", nil) }

// Done is closed when the machine has ended.
func (vm *VM) Done() <-chan struct{} { return vm.done }

// Wait waits until the machine has ended and says how.
func (vm *VM) Wait() Exit {
	<-vm.done
	vm.mu.Lock()
	defer vm.mu.Unlock()
	return vm.exit
}

// Uptime is the time since Start.
func (vm *VM) Uptime() time.Duration { return time.Since(vm.started) }

// Kill ends QEMU and whatever it started, at once.
func (vm *VM) Kill() {
	vm.mu.Lock()
	defer vm.mu.Unlock()
	if vm.pid != 0 {
		vm.killed = true
		syscall.Kill(-vm.pid, syscall.SIGKILL) // not reaped yet, so the group is ours
	}
}

// Close kills the machine if it still runs and removes what Start made, except
// the log. It returns an error if the log could not be written.
func (vm *VM) Close() error {
	vm.Kill()
	<-vm.done
	vm.release()
	return vm.Console.LogErr()
}

func (vm *VM) release() {
	vm.free.Do(func() {
		if vm.logFile != nil {
			vm.logFile.Close()
		}
		os.RemoveAll(vm.dir)
	})
}

// tailBuffer keeps the last bytes written to it.
type tailBuffer struct {
	mu sync.Mutex
	b  []byte
}

func (t *tailBuffer) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if over := len(t.b) - 4096; over > 0 {
		t.b = append([]byte(nil), t.b[over:]...)
	}
	return len(p), nil
}

func (t *tailBuffer) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.b))
}
