package qemu

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/digitalocean/go-qemu/qmp"
)

// commandCeiling bounds one QMP command; QEMU answers in milliseconds.
const commandCeiling = 10 * time.Second

// monitor is a QMP connection with limits: go-qemu's own waits for ever for
// an answer, and reports a connection that was closed as broken JSON.
type monitor struct {
	m      *qmp.SocketMonitor
	events <-chan qmp.Event
}

// dialMonitor connects to QEMU's QMP socket, which appears some time after
// QEMU started, and gives up when ended is closed (QEMU is gone) or ctx ends.
func dialMonitor(ctx context.Context, path string, ended <-chan struct{}) (*monitor, error) {
	var m *qmp.SocketMonitor
	for {
		var err error
		if m, err = qmp.NewSocketMonitor("unix", path, time.Second); err == nil {
			break
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ended:
			return nil, fmt.Errorf("QMP socket %s: QEMU ended before it answered", path)
		case <-ctx.Done():
			return nil, fmt.Errorf("QMP socket %s: %w (last: %w)", path, context.Cause(ctx), err)
		}
	}
	connected := make(chan error, 1)
	go func() { connected <- m.Connect() }()
	select {
	case err := <-connected:
		if err != nil {
			m.Disconnect()
			return nil, fmt.Errorf("QMP greeting on %s: %w", path, err)
		}
	case <-ctx.Done():
		m.Disconnect()
		return nil, fmt.Errorf("QMP greeting on %s: %w", path, context.Cause(ctx))
	}
	events, err := m.Events(ctx)
	if err != nil {
		m.Disconnect()
		return nil, fmt.Errorf("QMP events on %s: %w", path, err)
	}
	return &monitor{m: m, events: events}, nil
}

// execute runs one QMP command. Its events must be drained meanwhile.
func (m *monitor) execute(ctx context.Context, name string, args any) error {
	command, err := json.Marshal(qmp.Command{Execute: name, Args: args})
	if err != nil {
		return fmt.Errorf("QMP %s: %w", name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, commandCeiling)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := m.m.Run(command)
		done <- err
	}()
	select {
	case err = <-done:
	case <-ctx.Done():
		err = fmt.Errorf("no answer: %w", ctx.Err())
	}
	if err != nil {
		return fmt.Errorf("QMP %s: %w", name, err)
	}
	return nil
}

// sendKeys presses keys together, in the names of QEMU's QKeyCode.
func (m *monitor) sendKeys(ctx context.Context, keys ...string) error {
	type key struct {
		Type string `json:"type"`
		Data string `json:"data"`
	}
	var list []key
	for _, k := range keys {
		list = append(list, key{"qcode", k})
	}
	return m.execute(ctx, "send-key", map[string]any{"keys": list})
}
