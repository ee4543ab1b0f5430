package main

import (
	"context"
	"encoding/json"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"garboard.local/init/table"
	"garboard.local/socket"
)

// node: PID 1 of this node. Nothing ends one of its services by itself, so the pods
// end with the node, and the collector, which PID 1 ends last, reports meanwhile.
type node struct{ root string }

func (n node) status() ([]byte, error) { return os.ReadFile(filepath.Join(n.root, table.StatusPath)) }

// steady leaves out those that fail again and again: they never settle.
func (node) steady(b []byte) []byte {
	var list, kept []table.ServiceStatus
	if err := json.Unmarshal(b, &list); err != nil {
		return b
	}
	for _, s := range list {
		if s.Restarts < 2 || s.State == table.StateReady || s.State == table.StateDone || s.State == table.StateEnded {
			kept = append(kept, s)
		}
	}
	out, err := json.Marshal(kept)
	if err != nil {
		return b
	}
	return out
}

// remove ends the node.
func (n node) remove(...string) error {
	signal.Ignore(syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return socket.Send(ctx, filepath.Join(n.root, socket.RootPath), socket.Shutdown)
}

// left are groups of hooks and probes in which there still is a process: also those
// that hung were to end with all that they had started. A pod's directories last as
// long as the node does.
func (n node) left(string) []string {
	list, _ := filepath.Glob(filepath.Join(n.root, "sys/fs/cgroup/garboard/*/*/cgroup.procs")) // the pattern is a good one
	return slices.DeleteFunc(list, func(file string) bool {
		b, err := os.ReadFile(file)
		return err == nil && len(b) == 0
	})
}

func (node) power() error { return nil }
