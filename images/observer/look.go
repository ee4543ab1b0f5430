package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"syscall"
)

// Look is what a process sees of itself.
type Look struct {
	UID        int               `json:"uid"`
	GID        int               `json:"gid"`
	Groups     []int             `json:"groups"`
	Status     map[string]string `json:"status"` // of /proc/self/status
	Umask      int               `json:"umask"`
	Dir        string            `json:"dir"`
	Args       []string          `json:"args"`
	Env        []string          `json:"env"`
	Hostname   string            `json:"hostname"`
	Interfaces []string          `json:"interfaces"`
	Namespaces map[string]string `json:"namespaces"`
	OOM        string            `json:"oom"`
	Stdin      string            `json:"stdin"`
	First      bool              `json:"first"`     // its PID is 1
	Processes  bool              `json:"processes"` // those of others are seen in /proc
	Root       string            `json:"root"`      // what came of writing to the root directory
	Devices    string            `json:"devices"`   // of opening /dev/kmsg
	Sysctl     string            `json:"sysctl"`    // of opening a kernel parameter for writing
	Paths      map[string]Path   `json:"paths"`
}

// Path is a mount or what else was asked for.
type Path struct {
	Mode  string            `json:"mode"`
	Owner string            `json:"owner"`
	Type  string            `json:"type"`  // of the file system
	Write string            `json:"write"` // what came of writing there
	Files map[string]string `json:"files"` // content by name
}

var statusKeys = []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp"}

var namespaces = []string{"net", "ipc", "mnt", "pid", "uts"}

func lookAround(paths []string) (*Look, error) {
	l := &Look{UID: os.Getuid(), GID: os.Getgid(), Args: os.Args, Env: os.Environ(), First: os.Getpid() == 1,
		Status: map[string]string{}, Namespaces: map[string]string{}, Paths: map[string]Path{}}
	l.Umask = syscall.Umask(0o022)
	syscall.Umask(l.Umask)
	sort.Strings(l.Env)
	var err error
	if l.Groups, err = os.Getgroups(); err != nil {
		return nil, err
	}
	slices.Sort(l.Groups)
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		if slices.Contains(statusKeys, name) {
			l.Status[name] = strings.TrimSpace(value)
		}
	}
	if l.Dir, err = os.Getwd(); err != nil {
		return nil, err
	}
	if l.Hostname, err = os.Hostname(); err != nil {
		return nil, err
	}
	if b, err = os.ReadFile("/proc/self/oom_score_adj"); err != nil {
		return nil, err
	}
	l.OOM = strings.TrimSpace(string(b))
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	for _, i := range interfaces {
		state := " down"
		if i.Flags&net.FlagUp != 0 {
			state = " up"
		}
		l.Interfaces = append(l.Interfaces, i.Name+state)
	}
	for _, n := range namespaces {
		if l.Namespaces[n], err = os.Readlink("/proc/self/ns/" + n); err != nil {
			return nil, err
		}
	}
	if l.Stdin, err = os.Readlink("/proc/self/fd/0"); err != nil {
		return nil, err
	}
	l.Processes = othersSeen()
	l.Root = tryWrite("/")
	l.Devices = outcome(open("/dev/kmsg", os.O_RDONLY))
	l.Sysctl = outcome(open("/proc/sys/kernel/panic", os.O_WRONLY))
	for _, p := range paths {
		if l.Paths[p], err = lookAt(p); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// othersSeen: is there a process in /proc that belongs to neither us nor our children?
// A kernel thread or the machine's PID 1 is one, in a pod's own PID namespace there is none.
func othersSeen() bool {
	b, err := os.ReadFile("/proc/1/comm")
	return err == nil && os.Getpid() != 1 && strings.TrimSpace(string(b)) != "observer"
}

func lookAt(p string) (Path, error) {
	fi, err := os.Stat(p)
	if err != nil {
		return Path{}, err
	}
	st := fi.Sys().(*syscall.Stat_t)
	out := Path{Mode: fi.Mode().String(), Owner: fmt.Sprintf("%d:%d", st.Uid, st.Gid), Files: map[string]string{}}
	var fsys syscall.Statfs_t
	if err := syscall.Statfs(p, &fsys); err != nil {
		return Path{}, err
	}
	out.Type = "disk"
	if fsys.Type == 0x01021994 {
		out.Type = "tmpfs"
	}
	if !fi.IsDir() {
		b, err := os.ReadFile(p)
		out.Files["."], out.Write = string(b), outcome(open(p, os.O_WRONLY))
		return out, err
	}
	out.Write = tryWrite(p)
	list, err := os.ReadDir(p)
	if err != nil {
		return out, err
	}
	for _, f := range list {
		if strings.HasPrefix(f.Name(), "..") {
			continue // by which a kubelet changes a volume's files at once, and another container tries to write
		}
		b, err := os.ReadFile(filepath.Join(p, f.Name()))
		if err != nil {
			b = []byte(outcome(err))
		}
		fi, err := os.Stat(filepath.Join(p, f.Name()))
		if err != nil {
			return out, err
		}
		out.Files[f.Name()] = fi.Mode().String() + " " + string(b)
	}
	return out, nil
}

func tryWrite(dir string) string {
	f, err := os.CreateTemp(dir, "..try-") // which nobody who shares the directory lists
	if err == nil {
		f.Close()
		err = os.Remove(f.Name())
	}
	return outcome(err)
}

func open(p string, flags int) error {
	f, err := os.OpenFile(p, flags, 0)
	if err == nil {
		f.Close()
	}
	return err
}

// outcome is an error's number in words, without paths that differ.
func outcome(err error) string {
	var no syscall.Errno
	switch {
	case err == nil:
		return "possible"
	case errors.As(err, &no):
		return no.Error()
	case errors.Is(err, fs.ErrNotExist):
		return "absent"
	}
	return err.Error()
}
