// Package pinns makes namespaces and pins them to files with bind mounts: the
// helper that cri-o starts for each pod, with the same options, files and exit
// status as its C original (cri-o, pinns/src/pinns.c).
package pinns

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"garboard.local/init/settings"
)

// holder is the first argument of the process that holds new user and mount
// namespaces until they are pinned.
const holder = "hold-namespaces"

const holdLimit = 30 * time.Second

// Main is the program. It returns the exit status.
func Main(args []string, stderr io.Writer) int {
	err := error(nil)
	if len(args) > 0 && args[0] == holder {
		err = hold(args[1:])
	} else {
		err = run(args)
	}
	if err != nil {
		fmt.Fprintf(stderr, "[pinns:e]: %v\n", err)
		return 1
	}
	return 0
}

func run(args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if err := directory(o.dir); err != nil {
		return err
	}
	if !o.pin["user"] && !o.pin["mnt"] {
		// Namespaces belong to the thread; it is never given back.
		runtime.LockOSThread()
		if err := unix.Unshare(int(o.unshare)); err != nil {
			return fmt.Errorf("unshare namespaces: %w", err)
		}
		if err := sysctls(o.sysctls); err != nil {
			return err
		}
		return pin(o, "/proc/thread-self/ns")
	}
	// A new user or mount namespace needs a process of its own.
	return pinHeld(o)
}

func sysctls(list [][2]string) error {
	for _, s := range list {
		if err := settings.Sysctl("/", s[0], s[1]); err != nil {
			return fmt.Errorf("after unshare: %w", err)
		}
	}
	return nil
}

// pinHeld starts a process in the new namespaces, which applies the sysctls and
// waits, pins its namespaces, and ends it.
func pinHeld(o *options) (err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	argv := []string{holder}
	for _, s := range o.sysctls {
		argv = append(argv, s[0]+"="+s[1])
	}
	// The thread must live as long as the child: its end is the child's (Pdeathsig).
	runtime.LockOSThread()
	c := exec.Command("/proc/self/exe", argv...)
	c.Args[0] = "pinns"
	c.ExtraFiles = []*os.File{w}
	c.Stderr = os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: o.unshare, Pdeathsig: syscall.SIGKILL}
	if o.unshare&unix.CLONE_NEWUSER != 0 {
		c.SysProcAttr.UidMappings, c.SysProcAttr.GidMappings = maps(o.uids), maps(o.gids)
		c.SysProcAttr.GidMappingsEnableSetgroups = true
		// Root inside, or the new process would lose its capabilities with exec.
		c.SysProcAttr.Credential = &syscall.Credential{NoSetGroups: true}
	}
	if err := c.Start(); err != nil {
		_ = w.Close()
		return fmt.Errorf("make namespaces: %w", err)
	}
	defer func() {
		_ = c.Process.Kill()
		_ = c.Wait() // killed: its status says nothing
	}()
	if err := w.Close(); err != nil {
		return err
	}
	if err := r.SetReadDeadline(time.Now().Add(holdLimit)); err != nil {
		return err
	}
	if _, err := io.ReadFull(r, make([]byte, 1)); err != nil {
		return fmt.Errorf("the process that makes the namespaces failed: %w", err)
	}
	return pin(o, "/proc/"+strconv.Itoa(c.Process.Pid)+"/ns")
}

func maps(list []mapping) []syscall.SysProcIDMap {
	out := make([]syscall.SysProcIDMap, len(list))
	for i, m := range list {
		out[i] = syscall.SysProcIDMap{ContainerID: m.inside, HostID: m.outside, Size: m.size}
	}
	return out
}

// hold runs inside the new namespaces: it says when all is set and waits to be
// killed, not for ever.
func hold(args []string) error {
	o := options{}
	for _, a := range args {
		if err := o.sysctl(a); err != nil {
			return err
		}
	}
	if err := sysctls(o.sysctls); err != nil {
		return err
	}
	ready := os.NewFile(3, "ready")
	if _, err := ready.Write([]byte("0")); err != nil {
		return fmt.Errorf("say that the namespaces are made: %w", err)
	}
	if err := ready.Close(); err != nil {
		return err
	}
	time.Sleep(holdLimit)
	return errors.New("nobody pinned the namespaces")
}

// pin binds the namespaces below from to their files.
func pin(o *options, from string) error {
	for _, k := range kinds {
		if !o.pin[k.name] {
			continue
		}
		dir := filepath.Join(o.dir, k.name+"ns")
		if err := directory(dir); err != nil {
			return err
		}
		if k.name == "mnt" {
			if err := unbindable(dir); err != nil {
				return err
			}
		}
		target := filepath.Join(dir, o.file)
		f, err := os.OpenFile(target, os.O_RDONLY|os.O_CREATE|os.O_EXCL, 0)
		switch {
		case err == nil:
			if err := f.Close(); err != nil {
				return err
			}
		case !errors.Is(err, os.ErrExist): // cri-o makes it where its owner matters
			return fmt.Errorf("create the namespace's file: %w", err)
		}
		if err := unix.Mount(filepath.Join(from, k.name), target, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind %s/%s to %s: %w", from, k.name, target, err)
		}
	}
	return nil
}

// unbindable makes dir a mount of its own that is never copied: a mount
// namespace can be bound only where it cannot end up inside itself.
func unbindable(dir string) error {
	// If this fails dir may be such a mount already; the next call tells.
	_ = unix.Mount(dir, dir, "", unix.MS_BIND, "")
	if err := unix.Mount("", dir, "", unix.MS_UNBINDABLE, ""); err != nil {
		return fmt.Errorf("make %s an unbindable mount: %w", dir, err)
	}
	return nil
}

func directory(p string) error {
	err := os.Mkdir(p, 0o755)
	if err == nil {
		return nil
	}
	if st, serr := os.Stat(p); serr == nil && st.IsDir() {
		return nil
	}
	return fmt.Errorf("%s is not a directory and cannot be made one: %w", p, err)
}
