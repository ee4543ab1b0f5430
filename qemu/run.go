package qemu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"
)

// RunOptions are what `garboard run` can be told.
type RunOptions struct {
	Machine Machine
	Out     io.Writer     // the console, line by line, and our own remarks
	For     time.Duration // press the power button after this time; 0: on ctrl-C only
	// Signals stands for ctrl-C; nil means SIGINT and SIGTERM of this process.
	Signals <-chan os.Signal
	// Repeats is how often a run is repeated that the emulator's known fault ended.
	Repeats int
}

// Run boots the machine with its console on Out. The first ctrl-C presses the
// power button, a second one some seconds later presses it again (the node then
// shortens its grace), a third one stops QEMU. It returns nil only if PID 1's
// word was "shutdown: clean" and the guest then powered itself off.
func Run(ctx context.Context, o RunOptions) error {
	if o.Signals == nil {
		c := make(chan os.Signal, 4)
		signal.Notify(c, os.Interrupt, syscall.SIGTERM)
		defer signal.Stop(c)
		o.Signals = c
	}
	out := &sayer{w: o.Out}
	_, err := Repeat(o.Repeats, out.say, func() error { return runOnce(ctx, o, out) })
	return err
}

// sayer writes whole lines to the terminal from several goroutines.
type sayer struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *sayer) line(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintln(s.w, text)
}

func (s *sayer) say(format string, args ...any) {
	s.line("garboard run: " + fmt.Sprintf(format, args...))
}

// shutdownWord is PID 1's account of its shutdown.
type shutdownWord struct {
	requested bool
	clean     bool
	unclean   string
}

func (w *shutdownWord) note(l Line) {
	own, ok := l.Own()
	if !ok {
		return
	}
	switch {
	case strings.HasPrefix(own, "shutdown requested by "):
		w.requested = true
	case own == "shutdown: clean":
		w.clean = true
	case strings.HasPrefix(own, "shutdown: unclean"):
		w.unclean = own
	}
}

func runOnce(ctx context.Context, o RunOptions, out *sayer) error {
	p := &pilot{start: time.Now(), runFor: o.For, boot: bootCeiling, down: downCeiling}
	var mu sync.Mutex // guards word and alive, which the console's goroutine sets
	var word shutdownWord
	alive := false
	m := o.Machine
	before := m.Output
	m.Output = func(l Line) {
		if before != nil {
			before(l)
		}
		out.line(l.Text)
		mu.Lock()
		defer mu.Unlock()
		word.note(l)
		if _, ok := l.Own(); ok {
			alive = true
		}
	}
	vm, err := m.Start(ctx)
	if err != nil {
		return err
	}
	defer vm.Close()
	out.say("%s, QEMU %s (%s), accelerator %s", vm.name, m.Tool.Version, m.Tool.Origin, vm.Accel)
	out.say("ctrl-C presses the power button")

	do := func(a action) {
		if a.say != "" {
			out.say("%s", a.say)
		}
		if a.press {
			if err := vm.PowerButton(ctx); err != nil {
				out.say("%v", err)
			}
		}
		if a.kill {
			vm.Kill()
		}
	}
	ticker := time.NewTicker(250 * time.Millisecond)
	defer ticker.Stop()
	for running := true; running; {
		select {
		case <-vm.Done():
			running = false
		case <-o.Signals:
			do(p.interrupted(time.Now()))
		case now := <-ticker.C:
			mu.Lock()
			p.alive, p.acknowledged = alive, word.requested
			mu.Unlock()
			if f := vm.Console.Fault(); f != nil && f.Kind == FaultEmulator {
				vm.Kill() // the guest may hang for ever in its oops
			}
			do(p.tick(now))
		}
	}
	exit := vm.Wait()
	mu.Lock()
	defer mu.Unlock()
	if err := errors.Join(judgeRun(vm.Console, exit, word, p.killedFor, context.Cause(ctx)), vm.Console.LogErr()); err != nil {
		return err
	}
	out.say("clean: the node ended its pods and powered off after %s", vm.Uptime().Round(time.Second))
	return nil
}

// judgeRun says whether a run ended as it should.
func judgeRun(c *Console, exit Exit, word shutdownWord, killedFor string, cause error) error {
	switch {
	case c.Fault() != nil:
		return c.Failure(nil, "the node failed")
	case exit.Panicked:
		return c.Failure(nil, "the node's kernel panicked")
	case killedFor != "":
		return c.Failure(nil, "the node was stopped: %s", killedFor)
	case cause != nil:
		return c.Failure(cause, "the run was given up")
	case exit.Err != nil:
		return c.Failure(exit.Err, "QEMU failed")
	case word.unclean != "":
		return c.Failure(nil, "the node powered off, but not cleanly (%s)", word.unclean)
	case exit.GuestReset:
		return c.Failure(nil, "the node rebooted instead of powering off (clean shutdown said: %t)", word.clean)
	case !exit.GuestShutdown:
		return c.Failure(nil, "QEMU ended (%s) without the node powering off", exit.Reason)
	case !word.clean:
		return c.Failure(nil, "the node powered off without saying that its shutdown was clean")
	}
	return nil
}
