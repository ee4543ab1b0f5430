package qemu

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cavaliergopher/cpio"
)

// guestMachine boots the real kernel with testdata/guest as its whole userland.
func guestMachine(t *testing.T, do string) Machine {
	t.Helper()
	m := testMachine(t, "node-amd64")
	dir := t.TempDir()
	cmd := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(dir, "init"), "./testdata/guest")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOOS=linux", "GOARCH="+m.Arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build testdata/guest: %v\n%s", err, out)
	}
	program, err := os.ReadFile(filepath.Join(dir, "init"))
	if err != nil {
		t.Fatal(err)
	}
	m.Initrd, m.MemoryMiB = filepath.Join(dir, "initramfs.img"), 512
	m.Cmdline += " guest.do=" + do
	archive(t, m.Initrd, os.O_CREATE, &cpio.Header{Name: "init", Mode: cpio.TypeReg | 0o755}, program)
	return m
}

// archive writes a cpio archive with one entry to a file, or behind what is there.
func archive(t *testing.T, path string, flag int, h *cpio.Header, content []byte) {
	t.Helper()
	f, err := os.OpenFile(path, flag|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	w := cpio.NewWriter(f)
	h.Size, h.Inode, h.Links = int64(len(content)), 1, 1
	if err := w.WriteHeader(h); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// The harness must be able to fail: each of these guests does something wrong.
func TestVMHarnessRefuses(t *testing.T) {
	for _, tt := range []struct {
		do, want string // want is part of the error
	}{
		{"silent", "gave no verdict"},
		{"wrong-nonce", "nonce"},
		{"fail", "FAIL: on purpose"},
	} {
		t.Run(tt.do, func(t *testing.T) {
			runBoot(t, guestMachine(t, tt.do), "guest", time.Minute, func(b *boot) error {
				exit, err := b.ends(time.Minute)
				if err != nil {
					return err
				}
				if !exit.GuestShutdown || exit.GuestReset || exit.Panicked || exit.Err != nil {
					t.Errorf("exit %+v, want a power-off by the guest", exit)
				}
				if err := Judge(b.Console.Lines(), b.nonce, b.scenario); err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("verdict: got %v, want an error with %q", err, tt.want)
				}
				return nil
			})
		})
	}
}

func TestVMGuestPasses(t *testing.T) {
	runBoot(t, guestMachine(t, "pass"), "guest", time.Minute, func(b *boot) error {
		if err := b.verdict(time.Minute); err != nil {
			return err
		}
		if _, err := b.ends(time.Minute); err != nil {
			return err
		}
		return b.judged()
	})
}

// What ends a node must end a wait at once, with the console's tail.
func TestVMFaultsAreSeenAtOnce(t *testing.T) {
	for _, tt := range []struct {
		name    string
		machine func(*testing.T) Machine
		kind    FaultKind
		want    string
	}{
		{"no init at all", func(t *testing.T) Machine {
			m := testMachine(t, "node-amd64")
			m.Cmdline += " rdinit=/nonexistent init=/nonexistent"
			return m
		}, FaultPanic, "Kernel panic - not syncing"},
		{"PID 1 ends", func(t *testing.T) Machine { return guestMachine(t, "exit") }, FaultPanic, "Attempted to kill init"},
		{"PID 1 gives up", func(t *testing.T) Machine { return guestMachine(t, "fatal") }, FaultInit, "fatal: on purpose"},
		{"missing root image", func(t *testing.T) Machine {
			m := testMachine(t, "node-amd64")
			whole, err := os.ReadFile(m.Initrd)
			if err != nil {
				t.Fatal(err)
			}
			m.Initrd = filepath.Join(t.TempDir(), "initramfs.img")
			// Archives are unpacked one over the other, each at a multiple of four.
			if err := os.WriteFile(m.Initrd, append(whole, make([]byte, (4-len(whole)%4)%4)...), 0o600); err != nil {
				t.Fatal(err)
			}
			archive(t, m.Initrd, 0, &cpio.Header{Name: "root.erofs", Mode: cpio.TypeSymlink | 0o777}, []byte("/nonexistent"))
			return m
		}, FaultInit, "failed: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			runBoot(t, tt.machine(t), "guest", 2*time.Minute, func(b *boot) error {
				_, err := b.sees(`^this line never comes$`, 90*time.Second)
				if EmulatorFault(err) {
					return err
				}
				var c *ConsoleError
				if !errors.As(err, &c) || c.Fault == nil || len(c.Tail) == 0 {
					t.Fatalf("got %v, want a fault and the console's tail", err)
				}
				if tt.kind != "" && c.Fault.Kind != tt.kind || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want %s with %q", err, tt.kind, tt.want)
				}
				t.Logf("seen after %s: %s", b.Uptime().Round(10*time.Millisecond), c.Fault.Line.Text)
				return nil
			})
		})
	}
}

func TestVMKeyboardAndReset(t *testing.T) {
	runBoot(t, guestMachine(t, "keys"), "guest", time.Minute, func(b *boot) error {
		if _, err := b.sees(`waits for ctrl-alt-del`, time.Minute); err != nil {
			return err
		}
		if err := b.CtrlAltDel(b.ctx); err != nil {
			return err
		}
		exit, err := b.ends(20 * time.Second)
		if err == nil && (!exit.GuestReset || exit.GuestShutdown) {
			t.Errorf("exit %+v, want a reset by the guest", exit)
		}
		return err
	})
}

// No QEMU outlives its run, whichever way the run ends.
func TestVMLeavesNothing(t *testing.T) {
	m := guestMachine(t, "hang")
	for _, tt := range []struct {
		name string
		end  func(context.CancelFunc, *VM) error
		want string
	}{
		{"context", func(cancel context.CancelFunc, _ *VM) error { cancel(); return nil }, "killed"},
		{"quit", func(_ context.CancelFunc, vm *VM) error { return vm.Quit(t.Context()) }, "host-qmp-quit"},
		{"kill", func(_ context.CancelFunc, vm *VM) error { vm.Kill(); return nil }, "killed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			vm, err := m.Start(ctx)
			if err != nil {
				t.Fatal(err)
			}
			vm.mu.Lock()
			pid := vm.pid
			vm.mu.Unlock()
			if _, err := vm.Expect(ctx, regexp.MustCompile(`guest: hang`)); err != nil && !EmulatorFault(err) {
				t.Error(err)
			}
			if err := tt.end(cancel, vm); err != nil {
				t.Error(err)
			}
			exit := vm.Wait()
			if exit.Reason != tt.want {
				t.Errorf("exit %+v, want reason %q", exit, tt.want)
			}
			if err := vm.Close(); err != nil {
				t.Error(err)
			}
			if err := syscall.Kill(-pid, 0); err != syscall.ESRCH {
				t.Errorf("process group %d after the end: %v", pid, err)
			}
			if _, err := os.Stat(vm.dir); !os.IsNotExist(err) {
				t.Errorf("%s after the end: %v", vm.dir, err)
			}
		})
	}
}

func TestVMStartFails(t *testing.T) {
	m := guestMachine(t, "hang")
	m.Kernel = filepath.Join(t.TempDir(), "no-such-kernel")
	vm, err := m.Start(t.Context())
	if err == nil {
		vm.Close()
		t.Fatal("a machine without its kernel started")
	}
	if !strings.Contains(err.Error(), "no-such-kernel") {
		t.Errorf("error %v does not carry QEMU's own words", err)
	}
}

// What `garboard run` makes of the ways in which a machine ends.
func TestVMRun(t *testing.T) {
	for _, tt := range []struct {
		do         string
		interrupts int
		want       string // part of the error; "" = clean
	}{
		{"pass", 0, ""},
		{"reset", 0, "rebooted instead of powering off"},
		{"exit", 0, "Attempted to kill init"},
		{"hang", 3, "interrupted three times"},
	} {
		t.Run(tt.do, func(t *testing.T) {
			m := guestMachine(t, tt.do)
			signals := make(chan os.Signal)
			m.Output = func(l Line) {
				if own, ok := l.Own(); ok && own == "guest: hang" {
					go func() {
						for range tt.interrupts {
							signals <- os.Interrupt
							time.Sleep(bounce + 100*time.Millisecond)
						}
					}()
				}
			}
			var out bytes.Buffer
			err := Run(t.Context(), RunOptions{Machine: m, Out: &out, Signals: signals, Repeats: 2})
			emulatorFaults += strings.Count(out.String(), "garboard run: "+string(FaultEmulator))
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if presses := strings.Count(out.String(), "power button pressed"); tt.interrupts > 0 && presses < 2 {
				t.Errorf("the power button was pressed %d times:\n%s", presses, out.String())
			}
		})
	}
}
