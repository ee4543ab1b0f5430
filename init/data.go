package boot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"garboard.local/init/data"
	"garboard.local/init/mounts"
	"garboard.local/init/supervise"
)

const (
	dataParam = "garboard.data"
	ownDir    = "/var/lib/garboard" // PID 1's own, on the data partition
	seedFile  = ownDir + "/random-seed"
	// etcLocal is the writable half of /etc on a node without a data partition.
	etcLocal = "/run/garboard/etc"
)

// dataManager is what works with disks.
func (n *node) dataManager() *data.Manager {
	m := &data.Manager{Sys: "/sys", Dev: "/dev", Param: n.cmdline[dataParam], Boot: n.bootPartition, Medium: n.cmdline[mediumParam], Run: n.tool,
		Kernel: data.Linux{}, Printf: n.printf, Limits: data.DefaultLimits()}
	if n.modules != nil {
		m.Load = func(driver string) error {
			if !strings.Contains(driver, ":") && !n.modules.Has(driver) {
				return nil // the long list of aliases need not be read
			}
			return n.modules.Load(driver)
		}
	}
	return m
}

// mountData puts the data partition on /var, or a tmpfs if there is none or it
// cannot be used: a node that forgets is of more use than none.
func (n *node) mountData() error {
	m := n.dataManager()
	if target, ok := n.cmdline[installParam]; ok {
		return n.install(m, target)
	}
	var p *data.Partition
	err := safely(func() (err error) { // what is on a disk must not keep /var away
		p, err = m.Prepare(n.ctx)
		return err
	})
	if err == nil && p != nil {
		if err = n.mountPartition(m, p); err == nil {
			return nil
		}
	}
	if err != nil {
		n.printf("data: WARNING: the data partition is NOT used: %s", oneLine(err))
	}
	return errors.Join(err, mounts.Make(n.sys, "/", []mounts.Mount{mounts.Memory()}), n.sayVolatile())
}

func (n *node) mountPartition(m *data.Manager, p *data.Partition) error {
	if n.end.Begun() {
		return errors.New("not mounted: the node goes down")
	}
	list := []mounts.Mount{mounts.Data(p.Device)}
	err := mounts.Make(n.sys, "/", list)
	if err != nil { // e2fsck looks at what a mount does not, and the other way round
		n.printf("data: %s: repairing %s", oneLine(err), p.Device)
		if err = m.Mend(n.ctx, p.Device); err == nil {
			err = mounts.Make(n.sys, "/", list)
		}
	}
	if err != nil {
		return err
	}
	n.hasData = true
	// It is mounted and can be used whatever becomes of the rest.
	err = errors.Join(os.MkdirAll(ownDir, 0o700), m.Finish(p, "/var"))
	if err == nil {
		n.etcDir = filepath.Join(ownDir, "etc")
	}
	var st unix.Statfs_t
	if unix.Statfs("/var", &st) == nil {
		n.printf("data: %s on /var, %d of %d MiB free", p.Device, st.Bavail*uint64(st.Bsize)>>20, st.Blocks*uint64(st.Bsize)>>20)
	}
	if err != nil {
		n.printf("data: %s", oneLine(err))
	}
	return nil
}

func (n *node) sayVolatile() error {
	var st unix.Statfs_t
	if err := unix.Statfs("/var", &st); err != nil {
		return fmt.Errorf("/var: %w", err)
	}
	n.printf("data: no data partition: /var is in memory, at most %d MiB, and lost at the end", st.Blocks*uint64(st.Bsize)>>20)
	return nil
}

// stirSeed uses the random seed of the last run and makes the next one's.
func (n *node) stirSeed() error {
	if !n.hasData {
		return nil
	}
	return data.StirSeed(seedFile, "/dev/urandom")
}

// saveSeed leaves the next run a seed. There is a file if there is a data
// partition and the boot has got that far.
func (n *node) saveSeed() {
	if _, err := os.Stat(seedFile); err != nil {
		return
	}
	if err := data.SaveSeed(seedFile); err != nil {
		n.printf("shutdown: %v", err)
	}
}

// tool runs a program to its end; when ctx ends first it is killed. Its output
// goes to a file without a name, which nothing has to read while it runs.
func (n *node) tool(ctx context.Context, argv ...string) (data.Result, error) {
	if n.end.Begun() {
		return data.Result{}, errors.New("not started: the node goes down")
	}
	fd, err := unix.MemfdCreate("output", unix.MFD_CLOEXEC)
	if err != nil {
		return data.Result{}, err
	}
	out := os.NewFile(uintptr(fd), "output")
	defer out.Close()
	p, err := n.reaper.Start(supervise.Spec{Argv: argv, Env: []string{"PATH=/usr/bin:/usr/sbin", "LC_ALL=C"}, Dir: "/", Output: fd, Cgroup: -1})
	if err != nil {
		return data.Result{}, err
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		_ = p.Signal(unix.SIGKILL)
		t := time.NewTimer(toolLimit)
		defer t.Stop()
		select {
		case <-p.Done():
		case <-t.C: // uninterruptible: the disk does not answer
		}
		return data.Result{}, context.Cause(ctx)
	}
	b, err := io.ReadAll(io.NewSectionReader(out, 0, 64<<10))
	r := data.Result{Status: -1, Output: string(bytes.TrimSpace(b))}
	if ws := p.Status(); ws.Exited() {
		r.Status = ws.ExitStatus()
	} else {
		r.Output += " (" + supervise.Describe(ws) + ")"
	}
	return r, err
}

// toolLimit is how long a program may take to die of SIGKILL.
const toolLimit = 2 * time.Second
