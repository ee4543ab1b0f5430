package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	readOnlyPort = 10255
	// drift is how much /var may change between two looks, in bytes.
	drift = 64 << 20
)

// summary is what is of interest in the kubelet's /stats/summary.
type summary struct {
	Node struct {
		NodeName string
		Fs       fsStats
		Runtime  struct{ ImageFs, ContainerFs fsStats }
	}
}

type fsStats struct{ AvailableBytes, CapacityBytes, Inodes, InodesFree uint64 }

// checkCapacity has the kubelet say what it knows of the file systems, which decides
// about evictions and what pods may ask for, and compares that with the kernel's word.
// The node's kubelet serves nothing; for this it is started once with its read-only
// port, on loopback.
func (g *guest) checkCapacity() error {
	path := filepath.Join(g.host, "etc/kubernetes/kubelet.yaml")
	before, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	with := fmt.Appendf(bytes.Clone(before), "readOnlyPort: %d\naddress: 127.0.0.1\n", readOnlyPort)
	if err := os.WriteFile(path, with, 0o644); err != nil {
		return err
	}
	err = g.renewed("kubelet", func(process) error { return send(restartSocket, cmdRestartKubelet) })
	if err == nil {
		err = within(podCeiling, g.compareCapacity)
	}
	return errors.Join(err, os.WriteFile(path, before, 0o644))
}

func (g *guest) compareCapacity() error {
	c := http.Client{Timeout: 10 * time.Second}
	r, err := c.Get(fmt.Sprintf("http://127.0.0.1:%d/stats/summary", readOnlyPort))
	if err != nil {
		return fmt.Errorf("the kubelet's summary: %w", err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return err
	}
	var s summary
	if err := json.Unmarshal(b, &s); err != nil || r.StatusCode != http.StatusOK {
		return fmt.Errorf("the kubelet's summary: %s: %w: %.200q", r.Status, err, b)
	}
	var st syscall.Statfs_t
	if err := syscall.Statfs(filepath.Join(g.host, "var"), &st); err != nil {
		return err
	}
	size, free := st.Blocks*uint64(st.Bsize), st.Bavail*uint64(st.Bsize)
	for name, fs := range map[string]fsStats{"nodefs": s.Node.Fs, "imagefs": s.Node.Runtime.ImageFs, "containerfs": s.Node.Runtime.ContainerFs} {
		if fs.CapacityBytes != size || fs.AvailableBytes > free+drift || fs.AvailableBytes+drift < free || fs.Inodes != st.Files {
			return fmt.Errorf("the kubelet says of its %s: %+v; the kernel of /var: %d bytes, %d free, %d inodes", name, fs, size, free, st.Files)
		}
	}
	g.say("data: the kubelet knows that node, image and container file systems have %d MiB, %d free, and %d inodes", size>>20, s.Node.Fs.AvailableBytes>>20, st.Files)
	return nil
}
