// Package boot is PID 1 of a node.
//
// This file is the boot, top to bottom. The kernel starts PID 1 in an initramfs
// that holds a few modules and the root image. PID 1 mounts the image, makes it
// the root, and sets up what the container runtime needs to start; everything
// else happens while the runtime comes up. Then the kubelet is started, and PID 1
// supervises, reaps and serves the system socket until somebody asks for the end
// (package shutdown).
//
// A phase that fails says so on the console and the boot goes on: a node
// without network or without a sysctl is of more use than none. Only the three
// phases marked fatal cannot be done without; then the node goes the way of a
// shutdown and reboots.
package boot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"garboard.local/init/cgroup"
	"garboard.local/init/logs"
	"garboard.local/init/modules"
	"garboard.local/init/mounts"
	"garboard.local/init/network"
	"garboard.local/init/rootfs"
	"garboard.local/init/settings"
	"garboard.local/init/supervise"
	"garboard.local/init/table"
	"garboard.local/socket"
)

// phases is the boot. Each begins when those it comes after have ended, well or
// badly; so what does not depend on another runs beside it.
func (n *node) phases() []phase {
	return []phase{
		// In the initramfs.
		{name: "early", do: n.early, fatal: true},
		{name: "root", after: []string{"early"}, do: n.root, fatal: true},

		// What the runtime needs.
		{name: "table", after: []string{"root"}, do: n.readTable, fatal: true},
		{name: "mounts", after: []string{"root"}, do: n.baseMounts},
		{name: "overlay", after: []string{"root"}, do: n.loadOverlay},
		// Early, because until then nobody hears it.
		{name: "power button", after: []string{"overlay", "table"}, do: n.powerButton},
		{name: "cgroups", after: []string{"mounts", "table"}, do: n.cgroups},
		{name: "data", after: []string{"mounts", "overlay"}, do: n.mountData},
		{name: "etc", after: []string{"data", "table"}, do: n.etc},
		{name: "identity", after: []string{"etc"}, do: n.identity},
		{name: "runtime", after: []string{"cgroups", "identity"}, do: n.startRuntime},

		// Meanwhile.
		{name: "socket", after: []string{"runtime"}, do: n.serveSocket},
		{name: "pod logs", after: []string{"runtime"}, do: n.followPods},
		{name: "more mounts", after: []string{"runtime"}, do: n.moreMounts},
		{name: "random seed", after: []string{"runtime"}, do: n.stirSeed},
		{name: "modules", after: []string{"runtime"}, do: n.loadModules},
		{name: "devices", after: []string{"runtime"}, do: n.findDevices},
		{name: "sysctls", after: []string{"modules"}, do: n.sysctls},
		{name: "network", after: []string{"runtime"}, do: n.network},
		{name: "runtime ready", after: []string{"runtime"}, do: n.runtimeReady},

		// What all of it is for. Modules and sysctls are for the pods, which the
		// kubelet starts much later than the last of them is done.
		{name: "services", after: []string{"runtime ready", "socket"}, do: n.startServices},

		// Armed late: a driver that is missing or slow holds up nothing.
		{name: "watchdog", after: []string{"modules"}, do: n.armWatchdog},
		{name: "module lock", after: []string{"watchdog", "devices"}, do: n.lockModules},
	}
}

// early makes the console and the views of the kernel.
func (n *node) early() error {
	err := mounts.Make(n.sys, "/", mounts.Early())
	n.openConsole()
	return errors.Join(err, n.limits())
}

// root mounts the root image and makes it the root.
func (n *node) root() error {
	if !rootfs.InInitramfs() {
		n.printf("no root image in an initramfs: this is the root already")
		return nil
	}
	loading := rootfs.LoadModules("/modules", rootfs.InsertEarly)
	mount := rootfs.Mount
	if guid, ok := n.cmdline[rootParam]; ok {
		mount = n.rootDisk(guid).Mount
	}
	if err := mount(n.sys); err != nil {
		return errors.Join(err, loading)
	}
	if loading != nil {
		n.printf("modules of the initramfs: %v", loading)
	}
	var err error
	if n.given, err = rootfs.ReadFiles("/etc"); err != nil {
		n.printf("etc: WARNING: %s", oneLine(err))
	}
	return rootfs.Switch(n.sys)
}

// readTable reads what the node was decided to be.
func (n *node) readTable() error {
	t, err := table.Load(table.Path)
	if err != nil {
		return fmt.Errorf("the node table of this image: %w", err)
	}
	n.table = t
	n.printf("node %s, built %s", t.Name, t.BuildTime.UTC().Format(time.RFC3339))
	if to, ok := settings.ClockFloor(time.Now(), t.BuildTime); ok {
		n.printf("clock: %s is before this image was built, set to %s", time.Now().UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339))
		return setClock(to)
	}
	return nil
}

// baseMounts makes the file systems of a running node.
func (n *node) baseMounts() error {
	return errors.Join(mounts.Make(n.sys, "/", mounts.Base()), mounts.DevLinks("/"))
}

// cgroups gives PID 1 and each service a group of its own, with a share that pods
// cannot take.
func (n *node) cgroups() error {
	var list []cgroup.Group
	for _, s := range n.table.Services {
		list = append(list, cgroup.Group{Name: s.Name, Share: cgroup.Share{Weight: s.CPUWeight, Memory: s.MemoryMin}})
	}
	err := n.groups.Setup(os.Getpid(), list)
	for _, s := range n.table.Services {
		err = errors.Join(err, n.groups.Limit(s.Name, s.MemoryMax, s.CPUMilli))
	}
	return err
}

// moreMounts makes those that nothing in the boot waits for, and removes what
// services had in their volumes before it.
func (n *node) moreMounts() error {
	return errors.Join(mounts.Make(n.sys, "/", mounts.Later()), settings.Leftovers("/"))
}

// loadOverlay reads the list of modules and loads the one that /etc and the
// runtime need; it costs as much time as all the mounts beside it.
func (n *node) loadOverlay() error {
	x, err := modules.OpenRunning()
	if err != nil {
		return err
	}
	n.modules = x
	return x.Load("overlay")
}

// etc makes /etc writable, and the directories, volumes and roots of the table.
func (n *node) etc() error {
	given := n.layGiven()
	err := n.etcOverlay(n.etcDir)
	if err != nil && n.etcDir != etcLocal {
		n.printf("etc: WARNING: %s: what is written to /etc is lost at the end", oneLine(err))
		err = n.etcOverlay(etcLocal)
	}
	return errors.Join(given, err, settings.Dirs("/", n.table.Dirs), settings.Volumes(n.sys, "/", n.table.Volumes), settings.Roots(n.sys, "/", n.table.Services))
}

// etcOverlay puts the overlay on /etc, with its writable half in dir.
func (n *node) etcOverlay(dir string) error {
	upper, work := mounts.EtcDirs(dir)
	if err := errors.Join(os.MkdirAll(upper, 0o755), os.MkdirAll(work, 0o755)); err != nil {
		return err
	}
	return mounts.Make(n.sys, "/", mounts.EtcOverlay(dir, n.layers...))
}

// identity sets the node's name and machine id and brings the loopback up:
// quick, and the runtime asks for them.
func (n *node) identity() error {
	return errors.Join(n.chooseHostname(), machineID(), network.Loopback())
}

// startRuntime starts the container runtime before everything that can wait.
func (n *node) startRuntime() error {
	n.log.Start(logs.Options{Name: "init", Sink: &logs.File{Path: logDir + "/init.log"}, Printf: n.printf, Guard: n.guard})
	o := supervise.Options{Reaper: n.reaper, Printf: n.printf, LogDir: logDir, Status: table.StatusPath, Guard: n.guard,
		Cgroup: func(name string) (*os.File, error) { return n.groups.Open(cgroup.Service(name)) },
		Part:   func(name, part string) (supervise.Part, error) { return n.groups.Part(name, part) }}
	if n.cmdline.Has(consoleParam, "services") {
		o.Mirror = func(name, line string) { n.console.Guest("service/"+name, line) }
	}
	v := supervise.New(o, n.table.Services)
	n.services.Store(v)
	if n.gate.ctx.Err() != nil { // a shutdown may have looked for services before
		v.NoMoreRestarts()
		return errShut
	}
	if rt := n.withRole(table.RoleRuntime); rt != "" {
		v.StartPod(rt)
	}
	return nil
}

// serveSocket opens the system socket.
func (n *node) serveSocket() error {
	s := &socket.Server{Handler: handler{n}, Logf: n.printf,
		KubeletPID: func() int { return n.services.Load().Pid(table.RoleKubelet) }}
	err := errors.Join(s.Listen(socket.Root, socket.RootPath), s.Listen(socket.Restart, socket.RestartPath))
	n.server.Store(s)
	return err
}

// followPods shows the pods' lines on the console, if the command line asks for it.
func (n *node) followPods() error {
	if !n.cmdline.Has(consoleParam, "pods") {
		return nil
	}
	return n.startFollower()
}

// loadModules loads the table's modules. One that is missing is reported; what
// needs it will say more.
func (n *node) loadModules() error {
	if n.modules == nil {
		return errors.New("the image has no modules for this kernel")
	}
	var errs []error
	for _, m := range n.table.Modules {
		if err := n.modules.Load(m); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// lockModules lets no module in any more, if the command line asks for it. What
// the kernel would load on demand is loaded first.
func (n *node) lockModules() error {
	if n.cmdline[modulesParam] != "locked" {
		return nil
	}
	if n.modules != nil {
		n.printf("modules: %d that are no drivers are loaded too, no other will be", n.modules.LoadAll())
	}
	return settings.Sysctl("/", "kernel.modules_disabled", "1")
}

func (n *node) sysctls() error { return settings.Sysctls("/", n.table.Sysctls) }

// network begins to keep the links configured and the clock right; nobody waits
// for an address or the time.
func (n *node) network() error {
	n.keepClock()
	m := &network.Manager{Hostname: n.naming.Given, Leased: n.leased, Printf: n.printf, Guard: n.guard}
	n.background("network", m.Run)
	return nil
}

// runtimeReady waits for the runtime, within a limit: a kubelet without one
// keeps trying, and the console shows it.
func (n *node) runtimeReady() error {
	rt := n.withRole(table.RoleRuntime)
	if rt == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(n.gate.ctx, runtimeLimit)
	defer cancel()
	if !n.services.Load().WaitReady(ctx, rt) {
		if n.gate.ctx.Err() != nil {
			return errShut
		}
		return fmt.Errorf("%s is not ready after %s, the kubelet is started anyway; see %s/%s.log", rt, runtimeLimit, logDir, rt)
	}
	return nil
}

// startServices starts the kubelet and whatever else the table holds.
func (n *node) startServices() error {
	n.settleHostname()
	for _, s := range n.table.Services {
		if s.Role != table.RoleRuntime {
			n.services.Load().Start(s.Name)
		}
	}
	return nil
}
