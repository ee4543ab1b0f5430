package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func init() {
	// All that one boot can hold, for the architecture on which there is time for one:
	// a rename, what is on the data partition, then the troubles of "stuck".
	stuck := scenarios["stuck"]
	scenarios["everything"] = scenario{func(g *guest) error {
		if err := checkRename(g); err != nil {
			return err
		}
		return errors.Join(g.checkData(), stuck.run(g))
	}, func(g *guest) error { return errors.Join(g.stopKubelet(), send(systemSocket, cmdShutdown)) }}
	// The next boot of that node: what it had is there; then PID 1 hangs.
	scenarios["data-freeze-init"] = scenario{func(g *guest) error {
		err := g.checkData()
		return errors.Join(checkRunning(g), err)
	}, scenarios["freeze-init"].after}
	// A process that no signal ends, because a disk does not answer.
	scenarios["frozen-disk"] = scenario{func(g *guest) error {
		if err := checkRunning(g); err != nil {
			return err
		}
		return g.freezeWriter()
	}, func(*guest) error { return send(systemSocket, cmdShutdown) }}
}

// swapOnVar uses a file on the data partition as swap, if there is one. It runs in the
// node's mount namespace.
func swapOnVar() error {
	if fileSystemIs("/var", magicExt4) != nil {
		return nil
	}
	return swapOn("/var/lib/tester/swap file")
}

// swapOn uses a new file as swap; the header is that of mkswap(8).
func swapOn(path string) error {
	const size = 1 << 20
	page := os.Getpagesize()
	b := bytes.Repeat([]byte{1}, size) // no holes
	clear(b[:page])
	binary.NativeEndian.PutUint32(b[1024:], 1)
	binary.NativeEndian.PutUint32(b[1028:], uint32(size/page-1))
	copy(b[page-10:], "SWAPSPACE2")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		return err
	}
	if err := synced(path); err != nil {
		return err
	}
	p, err := unix.BytePtrFromString(path)
	if err != nil {
		return err
	}
	if _, _, e := unix.Syscall(unix.SYS_SWAPON, uintptr(unsafe.Pointer(p)), 0, 0); e != 0 {
		return fmt.Errorf("swapon %s: %w", path, e)
	}
	return nil
}

// fillVar leaves no room on the data partition, if there is one.
func (g *guest) fillVar() error {
	dir := filepath.Join(g.host, "var")
	if fileSystemIs(dir, magicExt4) != nil {
		return nil
	}
	f, err := os.OpenFile(filepath.Join(dir, "lib/fill"), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return err
	}
	at := int64(0)
	for n := int64(st.Bfree) * st.Bsize; n >= 4096; n /= 2 { // what is left in smaller and smaller pieces
		for unix.Fallocate(int(f.Fd()), 0, at, n) == nil {
			at += n
		}
	}
	b := make([]byte, 4096)
	for range 1 << 16 {
		if _, err := f.WriteAt(b, at); errors.Is(err, syscall.ENOSPC) {
			return nil
		} else if err != nil {
			return err
		}
		at += int64(len(b))
	}
	return fmt.Errorf("%s is not full after %d MiB", dir, at>>20)
}

// frozenDisk is the one that the host stops.
const frozenDisk = "dev/vda"

// freezeWriter starts a process that writes to the disk and waits until it has stood
// still in uninterruptible sleep for five seconds, and a SIGKILL has changed nothing.
func (g *guest) freezeWriter() error {
	disk := filepath.Join(g.host, frozenDisk)
	p, err := os.StartProcess("/proc/self/exe", []string{"tester", "write", disk}, &os.ProcAttr{Files: []*os.File{nil, os.Stdout, os.Stderr}})
	if err != nil {
		return err
	}
	g.say("tester: pid %d writes to /%s", p.Pid, frozenDisk)
	stat := func() (state, written string, err error) {
		if state, err = statusField(fmt.Sprintf("/proc/%d/status", p.Pid), "State"); err == nil {
			written, err = statusField(fmt.Sprintf("/proc/%d/io", p.Pid), "syscw")
		}
		return state, written, err
	}
	still, last := 0, ""
	if err := within(podCeiling, func() error {
		state, written, err := stat()
		if err != nil {
			return err
		}
		if still++; !strings.HasPrefix(state, "D") || written != last {
			still = 0
		}
		last = written
		if still < 20 { // looks, four a second
			return fmt.Errorf("the writer is not stuck: state %s, %s writes", state, written)
		}
		return nil
	}); err != nil {
		return err
	}
	if err := p.Kill(); err != nil {
		return err
	}
	time.Sleep(2 * time.Second)
	state, _, err := stat()
	if err != nil || !strings.HasPrefix(state, "D") {
		return fmt.Errorf("the writer after SIGKILL: %q, %v", state, err)
	}
	g.say("tester: pid %d is in state %s, also after SIGKILL", p.Pid, state)
	return nil
}

// write writes to a disk again and again, past every cache.
func write(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|unix.O_DIRECT, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	b, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE) // aligned
	if err != nil {
		return err
	}
	for {
		if _, err := f.WriteAt(b, 0); err != nil {
			return err
		}
	}
}
